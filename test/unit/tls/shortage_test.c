/* Memory that runs out: each allocation of a scenario fails in turn, OpenSSL's and coir's. What was
 * called then succeeds all the same, or says so (-ENOMEM, or another error where OpenSSL does not
 * say why); nothing leaks; and no peer is let in that would be refused otherwise. STEP=n tries
 * every n-th allocation. The program's calls of malloc are wrapped by the linker. */
#include <stdarg.h>
#include <stdio.h>

#include "base/compiler.h"
#include "openssl_memory.h"
#include "pair.h"
#include "pki.h"
#include "tls/tls.h"

/* ---- an allocator that fails ---- */

static _Atomic long until_failure; /* 1: the next allocation fails; 0: none */

static bool fails_now(void)
{
    return until_failure > 0 && --until_failure == 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t len);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t len);
int __wrap_asprintf(char **ret, const char *format, ...) __attribute__((format(printf, 2, 3)));

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails_now() ? NULL : __real_realloc(memory, size);
}

char *__wrap_strdup(const char *text)
{
    return fails_now() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t len)
{
    return fails_now() ? NULL : __real_strndup(text, len);
}

int __wrap_asprintf(char **ret, const char *format, ...)
{
    if (fails_now())
        return -1;
    va_list args;
    va_start(args, format);
    int len = vasprintf(ret, format, args);
    va_end(args);
    return len;
}

/* ---- what is tried ---- */

static struct kind {
    int version; /* [1.3] the newest that the client speaks */
    bool rsa;    /* the server signs on the pool */
    bool client_certificate, revocation, resumed;
    bool intruder; /* the client that has no right to come in is a server's, and the other way */
    size_t every;  /* allocation that is tried */
} kind;

static struct identity root, own, theirs, stranger;
static char *revoked;

static void make_identities(void)
{
    root = pki_make((struct wish){.name = "root", .ca = true});
    own = pki_make(
        (struct wish){.name = "own", .names = "DNS:example.org", .rsa = kind.rsa, .issuer = &root});
    theirs = pki_make((struct wish){.name = "theirs", .purpose = "clientAuth", .issuer = &root});
    stranger = pki_make((struct wish){
        .name = "stranger", .names = "DNS:example.org", .purpose = "serverAuth,clientAuth"});
    revoked = pki_revoke(&root, NULL);
}

static void free_identities(void)
{
    pki_free(&root);
    pki_free(&own);
    pki_free(&theirs);
    pki_free(&stranger);
    free(revoked);
}

static coir_tls_options server_options(void)
{
    coir_tls_options options = COIR_TLS_OPTIONS;
    struct identity *shown = kind.intruder && !kind.client_certificate ? &stranger : &own;
    options.certificate = shown->certificate_text;
    options.key = shown->key_text;
    options.alpn = "a,b";
    if (kind.client_certificate) {
        options.client_certificates = COIR_TLS_REQUIRED_CLIENT_CERTIFICATES;
        options.ca = root.certificate_text;
        options.crl = kind.revocation ? revoked : NULL;
    }
    return options;
}

static coir_tls_options client_options(void)
{
    coir_tls_options options = COIR_TLS_OPTIONS;
    options.ca = root.certificate_text;
    options.crl = kind.revocation ? revoked : NULL;
    options.alpn = "b";
    if (kind.client_certificate) {
        const struct identity *shown = kind.intruder ? &stranger : &theirs;
        options.certificate = shown->certificate_text;
        options.key = shown->key_text;
    }
    return options;
}

/* ---- one run ---- */

enum { CLIENT, SERVER, ENDS };

struct run {
    struct pair pair;
    int told[ENDS]; /* the first error of each end */
};

static bool note(struct run *run, int end, ssize_t rc)
{
    if (rc < 0 && run->told[end] == 0)
        run->told[end] = (int)rc;
    return rc >= 0;
}

static int serve(void *arg)
{
    struct pair *pair = arg;
    pair->server_rc = coir_tls_accept(pair->server, pair->b, &pair->tls_b);
    if (pair->server_rc < 0) {
        coir_close(pair->b);
        pair->b = NULL;
    }
    return 0;
}

static void exchange(struct run *run)
{
    static char data[20000];
    struct pair *pair = &run->pair;
    char byte;
    COIR_DEADLINE(coir_in(60 * COIR_S));
    if (note(run, CLIENT, coir_write_all(pair->tls_a, "ping", 4)) &&
        note(run, SERVER, coir_read_full(pair->tls_b, data, 4, NULL)) &&
        note(run, SERVER, coir_write_all(pair->tls_b, data, sizeof data)) &&
        note(run, CLIENT, coir_read_full(pair->tls_a, data, sizeof data, NULL)) &&
        note(run, CLIENT, coir_shutdown_write(pair->tls_a)) &&
        note(run, SERVER, coir_read(pair->tls_b, &byte, 1)) &&
        note(run, SERVER, coir_shutdown_write(pair->tls_b)))
        note(run, CLIENT, coir_read(pair->tls_a, &byte, 1));
}

/* The n-th allocation from the beginning of the handshake fails. */
static struct run play(coir_tls *sides[ENDS], long nth)
{
    struct run run = {.pair = {.client = sides[CLIENT], .server = sides[SERVER]}};
    struct pair *pair = &run.pair;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_duplex(65536, &pair->a, &pair->b), 0);
    CHECK_EQ(coir_go(scope, serve, pair), 0);
    CHECK_EQ(coir_yield(), 0);
    until_failure = nth;
    pair->client_rc = coir_tls_connect(pair->client, "example.org", pair->a, &pair->tls_a);
    if (pair->client_rc < 0) {
        coir_close(pair->a);
        pair->a = NULL;
    }
    coir_scope_wait(scope);
    bool connected = note(&run, CLIENT, pair->client_rc);
    if (note(&run, SERVER, pair->server_rc) && connected)
        exchange(&run);
    coir_close(pair->tls_a);
    coir_close(pair->tls_b);
    return run;
}

/* OpenSSL does not always say why it found no issuer, no name or no more. */
static bool is_shortage(int error)
{
    return error == -ENOMEM || error == -COIR_ETLS || error == -COIR_ECERT ||
           error == -COIR_ECERT_UNTRUSTED || error == -COIR_ECERT_HOST;
}

/* What an end is told when the other one has none. */
static bool is_consequence(int error)
{
    return error == 0 || error == -COIR_ETLS_REFUSED || error == -COIR_ETLS_TRUNCATED ||
           error == -EPIPE;
}

/* ---- all runs ---- */

static long allocated(void)
{
    OPENSSL_thread_stop(); /* the texts of its last errors */
    return openssl_live;
}

static long step(void)
{
    const char *text = getenv("STEP");
    long every = (long)kind.every;
    return text ? atol(text) : (CI_ASAN || CI_TSAN) && every < 41 ? 41 : every;
}

static void check(const struct run *run, long nth)
{
    int client = run->told[CLIENT], server = run->told[SERVER];
    bool ok = (client == 0 && server == 0) || ((is_shortage(client) || is_shortage(server)) &&
                                               (is_shortage(client) || is_consequence(client)) &&
                                               (is_shortage(server) || is_consequence(server)));
    if (!ok)
        test_fail(__FILE__, __LINE__,
                  "allocation %ld failed: the client was told %s, the server %s", nth,
                  coir_strerror(client), coir_strerror(server));
}

/* The end that must refuse the other has, whatever it says about it. */
static void check_refused(const struct run *run, long nth)
{
    int which = kind.client_certificate ? run->pair.server_rc : run->pair.client_rc;
    if (which >= 0)
        test_fail(__FILE__, __LINE__, "allocation %ld failed, and an intruder came in", nth);
}

static void try_all(struct kind of)
{
    coir_tls *sides[ENDS];
    size_t runs = 0, no_memory = 0, silent = 0;
    bool reached = true;
    kind = of;
    make_identities();
    sides[CLIENT] = client_of(client_options());
    sides[SERVER] = server_of(server_options());
    if (kind.version)
        SSL_CTX_set_max_proto_version(sides[CLIENT]->hosts->context, kind.version);
    for (int i = 0; i < 3; i++) { /* what is allocated once is allocated then */
        struct run run = play(sides, 0);
        CHECK(kind.intruder || (run.told[CLIENT] == 0 && run.told[SERVER] == 0));
    }
    for (long nth = 1; reached; nth += step(), runs++) {
        if (kind.resumed)
            play(sides, 0); /* a fresh session */
        else
            ci_sessions_drop(sides[CLIENT]);
        struct run run = play(sides, nth);
        reached = until_failure == 0;
        until_failure = 0;
        if (kind.intruder)
            check_refused(&run, nth);
        else
            check(&run, nth);
        no_memory += run.told[CLIENT] == -ENOMEM || run.told[SERVER] == -ENOMEM;
        silent += run.told[CLIENT] == -COIR_ETLS || run.told[SERVER] == -COIR_ETLS;
        if (nth == 1)
            continue;
        ci_sessions_drop(sides[CLIENT]);
        long before = allocated();
        play(sides, 0);
        ci_sessions_drop(sides[CLIENT]);
        CHECK_EQ(allocated(), before);
    }
    printf("%zu runs: in %zu an end was told ENOMEM, in %zu an error of TLS\n", runs, no_memory,
           silent);
    CHECK(no_memory > 0);
    coir_tls_unref(sides[CLIENT]);
    coir_tls_unref(sides[SERVER]);
    free_identities();
}

TEST_REAL(a_connection)
{
    try_all((struct kind){.every = 3});
}

TEST_REAL(a_connection_of_tls_1_2)
{
    try_all((struct kind){.version = TLS1_2_VERSION, .every = 5});
}

/* The simulated pool is this thread. */
TEST_SIM(a_signature_on_the_pool)
{
    try_all((struct kind){.rsa = true, .every = 11});
    try_all((struct kind){.rsa = true, .version = TLS1_2_VERSION, .every = 11});
}

TEST_REAL(a_session_that_is_resumed)
{
    try_all((struct kind){.resumed = true, .every = 5});
    try_all((struct kind){.resumed = true, .version = TLS1_2_VERSION, .every = 5});
}

TEST_REAL(both_certificates_and_revocation)
{
    try_all((struct kind){.client_certificate = true, .revocation = true, .every = 11});
}

TEST_REAL(no_shortage_lets_a_strange_server_in)
{
    try_all((struct kind){.intruder = true, .every = 7});
}

TEST_REAL(no_shortage_lets_a_strange_client_in)
{
    try_all((struct kind){.intruder = true, .client_certificate = true, .every = 7});
    try_all((struct kind){
        .intruder = true, .client_certificate = true, .version = TLS1_2_VERSION, .every = 7});
}

/* ---- configurations ---- */

static int make_and_free(bool server)
{
    coir_tls *tls = NULL;
    coir_tls_options options = server ? server_options() : client_options();
    int rc = server ? coir_tls_server_new(&options, &tls) : coir_tls_client_new(&options, &tls);
    if (rc == 0 && server) {
        options = server_options();
        rc = coir_tls_server_add_host(tls, "other.example.org", &options);
    }
    until_failure = 0;
    coir_tls_unref(tls);
    return rc;
}

static void try_configurations(bool server)
{
    bool reached = true;
    kind = (struct kind){.client_certificate = true, .revocation = true, .every = 5};
    make_identities();
    CHECK_EQ(make_and_free(server), 0);
    for (long nth = 1; reached; nth += step()) {
        long before = allocated();
        until_failure = nth;
        int rc = make_and_free(server);
        if (rc != 0 && rc != -ENOMEM)
            test_fail(__FILE__, __LINE__, "allocation %ld failed: %s", nth, coir_strerror(rc));
        CHECK_EQ(make_and_free(server), 0);
        if (nth > 1)
            CHECK_EQ(allocated(), before);
        until_failure = nth;
        rc = make_and_free(server);
        reached = rc != 0;
    }
    free_identities();
}

TEST(a_server_s_configuration)
{
    try_configurations(true);
}

TEST(a_client_s_configuration)
{
    try_configurations(false);
}

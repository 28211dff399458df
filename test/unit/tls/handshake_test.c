/* The handshake: which peers a client and a server accept. */
#include <coir.h>
#include <coir/sim.h>
#include <coir/tls.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "openssl_memory.h"
#include "pair.h"
#include "pki.h"
#include "tls/tls.h"

TEST_REAL(a_server_is_refused_unless_everything_is_right)
{
    coir_tls_options plain = COIR_TLS_OPTIONS, other = COIR_TLS_OPTIONS,
                     insecure = COIR_TLS_OPTIONS;
    int server_rc;
    CHECK_EQ(connect_with(plain, plain, "example.org", &server_rc), 0);
    CHECK_EQ(connect_with(plain, plain, "EXAMPLE.org", &server_rc), 0);
    CHECK_EQ(connect_with(plain, plain, "www.example.org", &server_rc), -COIR_ECERT_HOST);
    CHECK_EQ(server_rc, -COIR_ETLS_REFUSED);
    CHECK_EQ(connect_with(plain, plain, "127.0.0.1", NULL), -COIR_ECERT_HOST);
    char *foreign, *foreign_key;
    CHECK_EQ(coir_tls_make_certificate("example.org", &foreign, &foreign_key), 0);
    other.ca = foreign;
    CHECK_EQ(connect_with(plain, other, "example.org", NULL), -COIR_ECERT_SELF_SIGNED);
    insecure.insecure = COIR_TLS_INSECURE_NO_VERIFICATION;
    CHECK_EQ(connect_with(plain, insecure, "example.org", NULL), 0);
    CHECK_EQ(connect_with(plain, insecure, "nobody.example", NULL), 0);
    free(foreign);
    free(foreign_key);
}

TEST_REAL(client_certificates_are_asked_for_and_verified)
{
    char *mine, *my_key;
    CHECK_EQ(coir_tls_make_certificate("client", &mine, &my_key), 0);
    coir_tls_options server = COIR_TLS_OPTIONS, without = COIR_TLS_OPTIONS, with = COIR_TLS_OPTIONS;
    server.ca = mine;
    server.client_certificates = COIR_TLS_REQUIRED_CLIENT_CERTIFICATES;
    with.certificate = mine;
    with.key = my_key;
    int server_rc;
    connect_with(server, without, "example.org", &server_rc);
    CHECK_EQ(server_rc, -COIR_ECERT);
    CHECK_EQ(connect_with(server, with, "example.org", &server_rc), 0);
    CHECK_EQ(server_rc, 0);
    free(mine);
    free(my_key);
}

/* ---- time ---- */

static int send_slowly(void *arg)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < 1000; i++) /* a record that announces more than ever comes */
        if ((rc = coir_write_all(arg, i == 0 ? "\x16" : i == 1 ? "\x03" : "\x01", 1)) == 0)
            rc = coir_sleep_for(5 * COIR_MS);
    return rc == -EPIPE || rc == -ECANCELED ? 0 : rc;
}

TEST_REAL(a_handshake_that_comes_a_byte_at_a_time_is_cut_by_its_deadline)
{
    coir_tls_options options = COIR_TLS_OPTIONS;
    options.handshake_timeout = 50 * COIR_MS;
    struct pair pair = {.server = server_of(options)};
    CHECK_EQ(coir_duplex(0, &pair.a, &pair.b), 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, send_slowly, pair.a), 0);
    coir_time begun = coir_now();
    CHECK_EQ(coir_tls_accept(pair.server, pair.b, &pair.tls_b), -ETIMEDOUT);
    CHECK(coir_now() - begun >= 50 * COIR_MS);
    CHECK_EQ(coir_task_interrupted(), 0);
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_close(pair.a);
    coir_close(pair.b);
    coir_tls_unref(pair.server);
}

TEST_REAL(what_is_no_tls_is_refused)
{
    struct pair pair = {.server = server_of((coir_tls_options)COIR_TLS_OPTIONS)};
    CHECK_EQ(coir_duplex(0, &pair.a, &pair.b), 0);
    CHECK_EQ(coir_write_all(pair.a, "GET / HTTP/1.1\r\n\r\n", 18), 0);
    CHECK_EQ(coir_tls_layer(pair.b, &pair.tls_b, pair.server), -COIR_ETLS);
    coir_close(pair.a);
    coir_close(pair.b);
    coir_tls_unref(pair.server);
}

/* ---- where keys sign ---- */

/* How much OpenSSL allocates on another thread than the worker's: it works on the pool. */
static long off_the_worker(bool rsa, bool pss)
{
    struct identity made =
        pki_make((struct wish){.name = "a", .names = "DNS:example.org", .rsa = rsa, .pss = pss});
    coir_tls_options server = COIR_TLS_OPTIONS, client = COIR_TLS_OPTIONS;
    server.certificate = client.ca = made.certificate_text;
    server.key = made.key_text;
    struct pair pair = {.client = client_of(client), .server = server_of(server)};
    openssl_home = pthread_self();
    openssl_elsewhere = 0;
    openssl_watched = true;
    connect_pair(&pair);
    openssl_watched = false;
    CHECK_EQ(pair.client_rc, 0);
    CHECK_EQ(pair.server_rc, 0);
    close_pair(&pair);
    pki_free(&made);
    return openssl_elsewhere;
}

TEST_REAL(an_rsa_key_signs_on_the_pool_and_an_ecdsa_key_does_not)
{
    CHECK_EQ(off_the_worker(false, false), 0);
    CHECK(off_the_worker(true, false) > 0);
    CHECK(off_the_worker(false, true) > 0);
}

/* ---- what is not verified is logged ---- */

static int warnings;

static void count_warnings(enum coir_log_level level, const char *line, void *arg)
{
    (void)arg;
    if (level == COIR_LOG_WARNING && strstr(line, "COIR_TLS_INSECURE_NO_VERIFICATION"))
        warnings++;
}

static int connect_insecurely(void *arg)
{
    coir_tls_options options = COIR_TLS_OPTIONS;
    (void)arg;
    struct pair plain = plain_pair(0);
    close_pair(&plain);
    CHECK_EQ(warnings, 0);
    options.insecure = COIR_TLS_INSECURE_NO_VERIFICATION;
    struct pair pair = {.client = client_of(options),
                        .server = server_of((coir_tls_options)COIR_TLS_OPTIONS)};
    for (int i = 0; i < 3; i++) {
        connect_pair(&pair);
        CHECK_EQ(pair.client_rc, 0);
        coir_tls_info info = COIR_TLS_INFO;
        CHECK_EQ(coir_tls_describe(pair.tls_a, &info), 0);
        CHECK(!info.verified);
        close_pair(&(struct pair){.tls_a = pair.tls_a, .tls_b = pair.tls_b});
    }
    CHECK_EQ(warnings, 1);
    coir_tls_unref(pair.client);
    coir_tls_unref(pair.server);
    return 0;
}

TEST(a_connection_that_is_not_verified_is_logged_once)
{
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    config.workers = 1;
    config.log = count_warnings;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    CHECK_EQ(coir_runtime_run(runtime, connect_insecurely, NULL), 0);
    coir_runtime_free(runtime);
}

/* ---- a pool that is full ---- */

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static int entered;

static int pass_gate(void *arg)
{
    (void)arg;
    __atomic_add_fetch(&entered, 1, __ATOMIC_RELEASE);
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return 0;
}

static int offload_pass_gate(void *arg)
{
    return coir_offload(pass_gate, arg);
}

/* Until `gate` is open, the pool takes no other call. */
static void fill_the_pool(coir_scope *scope)
{
    pthread_mutex_lock(&gate);
    entered = 0;
    coir_go(scope, offload_pass_gate, NULL);
    while (!__atomic_load_n(&entered, __ATOMIC_ACQUIRE))
        coir_yield();
    coir_go(scope, offload_pass_gate, NULL);
    coir_yield();
    CHECK_EQ(coir_offload(pass_gate, NULL), -EAGAIN);
}

static int shake_hands_with_a_full_pool(void *arg)
{
    (void)arg;
    struct identity rsa =
        pki_make((struct wish){.name = "rsa", .names = "DNS:example.org", .rsa = true});
    coir_tls_options client = COIR_TLS_OPTIONS, server = COIR_TLS_OPTIONS;
    client.ca = server.certificate = rsa.certificate_text;
    server.key = rsa.key_text;
    COIR_SCOPE(scope);
    fill_the_pool(scope);
    CHECK_EQ(connect_with(server, client, NULL, NULL), 0);
    pthread_mutex_unlock(&gate);
    CHECK_EQ(coir_scope_wait(scope), 0);
    pki_free(&rsa);
    return 0;
}

static void run_with_a_small_pool(coir_task_fn *fn)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.offload_threads_max = 1;
    config.offload_queue_max = 1;
    CHECK_EQ(test_run(&config, fn, NULL), 0);
}

TEST(a_full_pool_does_not_stop_handshakes)
{
    run_with_a_small_pool(shake_hands_with_a_full_pool);
}

static int connect_in_vain(void *arg)
{
    struct pair *pair = arg;
    pair->client_rc = coir_tls_connect(pair->client, "example.org", pair->a, &pair->tls_a);
    return 0;
}

/* The handshake waits for its turn to sign, and then, as the pool is full, for one to make a step
 * on the worker. */
static int give_up_with_a_full_pool(void *arg)
{
    (void)arg;
    struct identity rsa =
        pki_make((struct wish){.name = "rsa", .names = "DNS:example.org", .rsa = true});
    coir_tls_options options = COIR_TLS_OPTIONS;
    options.certificate = rsa.certificate_text;
    options.key = rsa.key_text;
    struct pair pair = {.client = client_of((coir_tls_options)COIR_TLS_OPTIONS),
                        .server = server_of(options)};
    coir_semaphore *paces = &pair.server->paces[0], *signers = &pair.server->signers[0];
    CHECK_EQ(coir_duplex(0, &pair.a, &pair.b), 0);
    COIR_SCOPE(full);
    fill_the_pool(full);
    CHECK_EQ(coir_semaphore_acquire(signers, CI_SIGNERS), 0);
    COIR_SCOPE(scope);
    coir_go(scope, connect_in_vain, &pair);
    coir_go(scope, accept_it, &pair);
    for (int i = 0; i < 20; i++)
        coir_yield();
    CHECK_EQ(coir_semaphore_acquire(paces, CI_STEPS_A_ROUND), 0);
    coir_semaphore_release(signers, CI_SIGNERS);
    for (int i = 0; i < 20; i++)
        coir_yield();
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(pair.server_rc, -ECANCELED);
    CHECK_EQ(pair.client_rc, -ECANCELED);
    coir_semaphore_release(paces, CI_STEPS_A_ROUND);
    pthread_mutex_unlock(&gate);
    CHECK_EQ(coir_scope_wait(full), 0);
    coir_close(pair.a);
    close_pair(&pair);
    pki_free(&rsa);
    return 0;
}

TEST(a_handshake_with_a_full_pool_may_be_cancelled)
{
    run_with_a_small_pool(give_up_with_a_full_pool);
}

/* What a child after fork() may do with TLS (sys/fork.h has the rule, test/unit/task/fork_test.c
 * the other calls): what suspends is refused, what computes or looks at one object still does. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"

static struct pair o;
static coir_tls *ret_tls, *unused;
static coir_stream *ret_stream;
static coir_tls_options options = COIR_TLS_OPTIONS;
static char *text[2];

static int back(coir_tls *tls)
{
    coir_tls_unref(tls);
    return 0;
}

#define CALLS(X)                                                                                \
    X(coir_tls_client_new, 0, coir_tls_client_new(NULL, &ret_tls))                              \
    X(coir_tls_server_new, 0, coir_tls_server_new(&options, &ret_tls))                          \
    X(coir_tls_server_add_host, 0, coir_tls_server_add_host(unused, "a.example", &options))     \
    X(coir_tls_server_save_tickets, -EMSGSIZE, coir_tls_server_save_tickets(o.server, text, 1)) \
    X(coir_tls_server_restore_tickets, -EINVAL,                                                 \
      coir_tls_server_restore_tickets(o.server, text, 1))                                       \
    X(coir_tls_ref, 0, coir_tls_ref(o.server) != o.server)                                      \
    X(coir_tls_unref, 0, back(o.server))                                                        \
    X(coir_tls_reload, -COIR_EFORKED, coir_tls_reload(o.server))                                \
    X(coir_tls_connect, -COIR_EFORKED, coir_tls_connect(o.client, "a", o.a, &ret_stream))       \
    X(coir_tls_accept, -COIR_EFORKED, coir_tls_accept(o.server, o.a, &ret_stream))              \
    X(coir_tls_layer, -COIR_EFORKED, coir_tls_layer(o.a, &ret_stream, o.server))                \
    X(coir_tls_describe, 0, coir_tls_describe(o.tls_a, &(coir_tls_info)COIR_TLS_INFO))          \
    X(coir_tls_make_certificate, 0, coir_tls_make_certificate("a", &text[0], &text[1]))         \
    X(coir_read, -COIR_EFORKED, (int)coir_read(o.tls_a, (char[1]){0}, 1))                       \
    X(coir_write, -COIR_EFORKED, (int)coir_write(o.tls_a, "x", 1))                              \
    X(coir_shutdown_write, -COIR_EFORKED, coir_shutdown_write(o.tls_a))

static void ask(const char *name, int want, int (*call)(void))
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(5);
        int got = call();
        if (got != want)
            fprintf(stderr, "  %s: %d (%s), not %d\n", name, got, coir_strerror(got), want);
        _exit(got != want);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        test_fail(__FILE__, __LINE__, "%s: status %x", name, (unsigned)status);
}

#define CALL(name, want, ...)    \
    static int call_##name(void) \
    {                            \
        return (__VA_ARGS__);    \
    }
CALLS(CALL)
#define ASK(name, want, ...) ask(#name, want, call_##name);

TEST_REAL(a_child_may_only_look_and_compute)
{
    char byte;
    o = plain_pair(0);
    options.certificate = own_certificate;
    options.key = own_key;
    unused = server_of(options);
    CALLS(ASK)
    CHECK_EQ(coir_write_all(o.tls_a, "x", 1), 0); /* nothing that the children did is seen here */
    CHECK_EQ(coir_read(o.tls_b, &byte, 1), 1);
    coir_tls_unref(unused);
    close_pair(&o);
}

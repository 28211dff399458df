/* The rule of test/unit/task/deadline_test.c, asked of the calls of TLS: -ETIME in a cancel scope
 * whose deadline has passed, -ECANCELED in a task that was cancelled; while it waits, and when it
 * is made. The peer never says a word. */
#include <stdlib.h>

#include "pair.h"

static coir_tls *client, *server;
static coir_stream *transport, *peer, *made;

enum { WAITS, ENDS };
#define ROWS(X)                                                                           \
    X(coir_tls_connect, WAITS, coir_tls_connect(client, "example.org", transport, &made)) \
    X(coir_tls_accept, WAITS, coir_tls_accept(server, transport, &made))                  \
    X(coir_tls_layer, WAITS, coir_tls_layer(transport, &made, server))                    \
    X(coir_tls_reload, ENDS, coir_tls_reload(server))

struct row {
    const char *name;
    int how;
    int (*call)(void);
};

#define CALL(name, how, ...)     \
    static int call_##name(void) \
    {                            \
        return __VA_ARGS__;      \
    }
ROWS(CALL)
#define ROW(name, how, ...) {#name, how, call_##name},
static const struct row rows[] = {ROWS(ROW)};

static void expect(const struct row *row, const char *when, int want)
{
    int got = row->call();
    if (got != want)
        test_fail(__FILE__, __LINE__, "%s, %s, says %d (%s), not %s", row->name, when, got,
                  coir_strerror(got), coir_strerror(want));
}

static int ask_as_child(void *arg)
{
    const struct row *row = arg;
    if (row->how == WAITS)
        expect(row, "waiting as its task is cancelled", -ECANCELED);
    else
        coir_sleep_until(COIR_NEVER);
    expect(row, "made in a cancelled task", -ECANCELED);
    return coir_task_interrupted();
}

static void ask(const struct row *row)
{
    {
        COIR_DEADLINE(coir_in(2 * COIR_MS));
        if (row->how == WAITS)
            expect(row, "waiting at its deadline", -ETIME);
        else
            coir_sleep_for(1000 * COIR_S);
        expect(row, "made after the deadline", -ETIME);
    }
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, ask_as_child, (void *)(uintptr_t)row), 0);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
}

TEST_REAL(every_call_obeys_deadlines_and_cancellation)
{
    client = client_of((coir_tls_options)COIR_TLS_OPTIONS);
    server = server_of((coir_tls_options)COIR_TLS_OPTIONS);
    CHECK_EQ(coir_duplex(0, &transport, &peer), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ask(&rows[i]);
    CHECK(!made);
    coir_close(transport);
    coir_close(peer);
    coir_tls_unref(client);
    coir_tls_unref(server);
}

/* The watch of a peer that goes away: what cancels the fiber and what does not, and that its record
 * is the fiber's again when it has been stopped. */
#include "io/hangup.h"

#include <errno.h>

#include "coir/fiber.h"
#include "harness.h"
#include "task/waiter.h"

enum what { RESETS, HALF_CLOSES, STAYS };

struct peer {
    coir_stream *stream;
    enum what what;
    coir_time after;
};

/* The other end: bytes that it has not read make a close a reset. */
static int behave(void *arg)
{
    struct peer *peer = arg;
    coir_sleep_for(peer->after);
    if (peer->what == HALF_CLOSES)
        coir_shutdown_write(peer->stream);
    if (peer->what != RESETS)
        coir_sleep_for(10 * COIR_S);
    coir_close(peer->stream);
    return 0;
}

static void make_pair(coir_stream **ret_a, coir_stream **ret_b)
{
    coir_listener *listener;
    char address[64];
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
    CHECK_EQ(coir_tcp_connect(address, ret_b), 0);
    CHECK_EQ(coir_accept(listener, ret_a), 0);
    CHECK_EQ(coir_write_all(*ret_a, "unread", 6), 0);
    coir_listener_close(listener);
}

static struct ci_hangup *changed_later;

static int change_later(void *arg)
{
    coir_sleep_for(COIR_S / 2);
    ci_hangup_set_end_cancels(changed_later, *(bool *)arg);
    return 0;
}

struct watched {
    coir_stream *stream;
    bool end_cancels, change, to;
    int rc;
};

/* Waits for three seconds beside a watch. */
static int watch(void *arg)
{
    struct watched *watched = arg;
    struct ci_hangup hangup;
    COIR_SCOPE(scope);
    ci_hangup_init(&hangup, watched->stream, ci_worker_current->runnable);
    hangup.end_cancels = watched->end_cancels;
    changed_later = &hangup;
    if (watched->change)
        coir_go(scope, change_later, &watched->to);
    ci_hangup_start(&hangup);
    watched->rc = coir_sleep_for(3 * COIR_S);
    ci_hangup_start(&hangup); /* again, whether it is started or not */
    ci_hangup_stop(&hangup);
    CHECK(!hangup.started);
    ci_hangup_stop(&hangup); /* of one that is not started: nothing */
    return 0;
}

static int outcome(enum what what, coir_time after, struct watched watched)
{
    struct peer peer = {.what = what, .after = after};
    make_pair(&watched.stream, &peer.stream);
    {
        COIR_SERVING_SCOPE(tasks);
        coir_go(tasks, behave, &peer);
        coir_sleep_for(COIR_MS);
        coir_go(tasks, watch, &watched);
        coir_scope_wait(tasks);
    }
    coir_close(watched.stream);
    return watched.rc;
}

static void run(void)
{
    const coir_time now = 0, later = COIR_S;
    CHECK_EQ(outcome(RESETS, now, (struct watched){0}), -ECANCELED);
    CHECK_EQ(outcome(RESETS, later, (struct watched){0}), -ECANCELED);
    CHECK_EQ(outcome(STAYS, now, (struct watched){0}), 0);
    CHECK_EQ(outcome(HALF_CLOSES, now, (struct watched){0}), 0);
    CHECK_EQ(outcome(HALF_CLOSES, later, (struct watched){0}), 0);
    CHECK_EQ(outcome(HALF_CLOSES, now, (struct watched){.end_cancels = true}), -ECANCELED);
    CHECK_EQ(outcome(HALF_CLOSES, later, (struct watched){.end_cancels = true}), -ECANCELED);
}

TEST_SIM(a_reset_cancels_and_a_half_close_only_where_asked)
{
    run();
}

/* Changed while it is started, half a second after the start, before or after the half-close. */
TEST_SIM(end_cancels_may_change_while_the_watch_is_started)
{
    struct watched on = {.change = true, .to = true},
                   off = {.end_cancels = true, .change = true, .to = false};
    CHECK_EQ(outcome(HALF_CLOSES, COIR_S, on), -ECANCELED);
    CHECK_EQ(outcome(HALF_CLOSES, COIR_S / 4, on), -ECANCELED);
    CHECK_EQ(outcome(HALF_CLOSES, COIR_S, off), 0);
    CHECK_EQ(outcome(HALF_CLOSES, COIR_S / 4, off), -ECANCELED);
}

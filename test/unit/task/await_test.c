/* Awaiting futures: frames, to any depth, in fibers and in other frames. */
#include <coir.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "beat.h"
#include "harness.h"
#include "place.h"

TEST_SIM(a_fiber_awaits_a_frame)
{
    struct beat beat;
    coir_time before = coir_now();
    CHECK_EQ(coir_await(&make_beat(&beat)->future), 13);
    CHECK_EQ(coir_now() - before, 30 * COIR_MS);
    CHECK(coir_frame_has_ended(&beat.future));
    CHECK_EQ(coir_await(&make_beat(&beat)->future), 13);
}

static int await_beat(void *arg)
{
    return (int)coir_await(&make_beat(arg)->future);
}

TEST_SIM(a_cancelled_fiber_cancels_what_it_awaits)
{
    struct beat beat;
    COIR_SCOPE(scope);
    COIR_HANDLE(handle);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    CHECK_EQ(coir_go_with(scope, &options, await_beat, &beat), 0);
    coir_sleep_for(15 * COIR_MS);
    coir_cancel(handle);
    CHECK_EQ(coir_join(handle), -ECANCELED);
    CHECK_EQ(beat.sent, 12);
    {
        COIR_DEADLINE(coir_in(15 * COIR_MS));
        CHECK_EQ(coir_await(&make_beat(&beat)->future), -ETIME);
    }
    CHECK_EQ(beat.sent, 12);
    CHECK_EQ(coir_await(&make_beat(&beat)->future), 13);
}

static int never_runs(void *arg)
{
    ++*(int *)arg;
    return 0;
}

/* Each as the outermost future of a task whose scope is cancelled before its first poll. */
TEST_REAL(an_operation_that_never_began_is_not_withdrawn)
{
    coir_stream *ends[2], *other = NULL;
    coir_listener *listener;
    coir_channel *empty;
    coir_event event = COIR_EVENT_INIT;
    coir_mutex mutex = COIR_MUTEX_INIT;
    coir_semaphore semaphore = COIR_SEMAPHORE_INIT(0);
    coir_udp *udp;
    coir_file *file;
    char byte = 'x', address[64];
    int runs = 0;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
    CHECK_EQ(coir_tcp_connect(address, &ends[0]), 0);
    CHECK_EQ(coir_accept(listener, &ends[1]), 0);
    CHECK_EQ(coir_channel_new(sizeof byte, 0, &empty), 0);
    CHECK_EQ(coir_udp_open("127.0.0.1:0", NULL, &udp), 0);
    CHECK_EQ(coir_file_open("/dev/zero", O_RDONLY, 0, &file), 0);
    CHECK_EQ(coir_mutex_try_lock(&mutex), 0);
    for (int i = 0; i < 14; i++) {
        union place place;
        coir_future *ops[] = {
            i == 0 ? coir_offload_op(&place.job, never_runs, &runs) : NULL,
            i == 1 ? coir_read_op(&place.io, ends[0], &byte, 1) : NULL,
            i == 2 ? coir_write_op(&place.io, ends[0], &byte, 1) : NULL,
            i == 3 ? coir_read_full_op(&place.io_all, ends[0], &byte, 1, NULL) : NULL,
            i == 4 ? coir_stream_wait_op(&place.io, ends[0], COIR_READ) : NULL,
            i == 5 ? coir_accept_op(&place.open, listener, &other) : NULL,
            i == 6 ? coir_tcp_connect_op(&place.open, address, &other) : NULL,
            i == 7 ? coir_udp_recv_op(&place.udp, udp, &byte, 1, NULL) : NULL,
            i == 8 ? coir_file_read_op(&place.file, file, &byte, 1, 0) : NULL,
            i == 9 ? coir_channel_recv_op(&place.wait, empty, &byte) : NULL,
            i == 10 ? coir_event_wait_op(&place.wait, &event) : NULL,
            i == 11 ? coir_mutex_lock_op(&place.wait, &mutex) : NULL,
            i == 12 ? coir_semaphore_acquire_op(&place.wait, &semaphore, 1) : NULL,
            i == 13 ? coir_sleep_for_op(&place.sleep, COIR_MS) : NULL,
        };
        COIR_SCOPE(scope);
        COIR_HANDLE(handle);
        coir_go_options options = COIR_GO_OPTIONS;
        options.handle = handle;
        CHECK_EQ(coir_go_future_with(scope, &options, ops[i]), 0);
        coir_scope_cancel(scope);
        CHECK_EQ(coir_join(handle), -ECANCELED);
    }
    CHECK_EQ(runs, 0);
    CHECK(!other);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, never_runs, &runs), 0); /* in a record that a future had */
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(runs, 1);
    coir_file_close(file);
    coir_udp_close(udp);
    coir_channel_free(empty);
    coir_close(ends[0]);
    coir_close(ends[1]);
    coir_listener_close(listener);
}

struct deep {
    coir_future future;
    struct deep *callee;
    coir_sleep_op pause;
    int resumed;
};

static coir_future *deep_poll(coir_future *future)
{
    struct deep *self = coir_frame(future, struct deep);
    COIR_BEGIN(future);
    COIR_AWAIT(future, self->callee ? &self->callee->future : coir_sleep_for_op(&self->pause, 1));
    self->resumed++;
    COIR_RETURN(future, self->callee ? self->callee->future.result + 1 : 0);
}

static const coir_future_kind deep_kind = COIR_FUTURE_KIND("deep", deep_poll, NULL);

TEST_SIM(a_hundred_thousand_awaits_use_no_stack)
{
    enum { DEPTH = 100000 };
    struct deep *frames = calloc(DEPTH, sizeof *frames);
    for (int i = 0; i < DEPTH; i++) {
        coir_future_init(&frames[i].future, &deep_kind);
        frames[i].callee = i + 1 < DEPTH ? &frames[i + 1] : NULL;
    }
    CHECK_EQ(coir_await(&frames[0].future), DEPTH - 1);
    for (int i = 0; i < DEPTH; i++)
        CHECK_EQ(frames[i].resumed, 1);
    free(frames);
}

struct count {
    coir_future future;
    coir_sleep_op pause;
    int next;
};

static coir_future *count_poll(coir_future *future)
{
    struct count *self = coir_frame(future, struct count);
    COIR_BEGIN(future);
    for (self->next = 1; self->next <= 4; self->next++) {
        COIR_AWAIT(future, coir_sleep_for_op(&self->pause, COIR_MS));
        COIR_YIELD(future, self->next * self->next);
    }
    COIR_END(future);
}

static const coir_future_kind count_kind = COIR_FUTURE_KIND("count", count_poll, NULL);

TEST_SIM(a_frame_yields_values_to_whoever_awaits_it)
{
    struct count count;
    coir_future_init(&count.future, &count_kind);
    for (int i = 1; i <= 4; i++) {
        CHECK_EQ(coir_await(&count.future), i * i);
        CHECK(!coir_frame_has_ended(&count.future));
    }
    CHECK_EQ(coir_await(&count.future), 0);
    CHECK(coir_frame_has_ended(&count.future));
}

static coir_future *rude_poll(coir_future *future)
{
    CHECK_EQ(coir_sleep_for(1), -ESRCH);
    CHECK_EQ(coir_yield(), -ESRCH);
    COIR_RETURN(future, 7);
}

static const coir_future_kind rude_kind = COIR_FUTURE_KIND("rude", rude_poll, NULL);

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

TEST_SIM(only_fibers_call_suspending_functions)
{
    coir_future rude;
    CHECK_EQ(coir_await(coir_future_init(&rude, &rude_kind)), 7);
    COIR_SCOPE(scope);
    coir_go(scope, nothing, NULL);
    coir_branch one = COIR_BRANCH(&rude);
    CHECK_EQ(coir_any(&one, 1), 0);
    CHECK_EQ(coir_go_future(scope, &rude), 0);
}

static int await_pause(void *arg)
{
    return (int)coir_await(arg);
}

TEST_SIM(a_future_in_flight_is_not_awaited_again)
{
    coir_sleep_op pause;
    COIR_SCOPE(scope);
    COIR_HANDLE(handle);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    coir_future *future = coir_sleep_for_op(&pause, 10 * COIR_MS);
    CHECK_EQ(coir_go_with(scope, &options, await_pause, future), 0);
    coir_sleep_for(1 * COIR_MS);
    CHECK_EQ(coir_await(future), -EBUSY);
    CHECK_EQ(coir_join(handle), 0); /* its first wait was left alone */
    CHECK_EQ(coir_await(coir_sleep_for_op(&pause, 1 * COIR_MS)), 0);
}

TEST_SIM(a_future_that_was_not_made_is_refused)
{
    coir_future zero = {0};
    coir_branch branch = COIR_BRANCH(&zero);
    static coir_set set; /* zeroes */
    coir_sleep_op pause;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_await(&zero), -EINVAL);
    CHECK_EQ(coir_go_future(scope, &zero), -EINVAL);
    CHECK_EQ(coir_any(&branch, 1), -EINVAL);
    branch.future = coir_sleep_for_op(&pause, 1);
    CHECK_EQ(coir_set_add(&set, &branch), -EINVAL); /* without coir_set_init */
    CHECK_EQ(coir_set_next(&set, &(coir_branch *){NULL}), -EINVAL);
}

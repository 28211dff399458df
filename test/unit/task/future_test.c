/* Futures: frames, awaits to any depth, groups, sets, futures as tasks. */
#include <coir.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "place.h"

/* ---- a frame with a loop, a switch around an await, and a value at the end ---- */

struct beat {
    coir_future future;
    coir_sleep_op pause;
    int count, sent;
    int error;
};

static coir_future *beat_poll(coir_future *future)
{
    struct beat *self = coir_frame(future, struct beat);
    COIR_BEGIN(future);
    for (self->count = 0; self->count < 3; self->count++) {
        switch (self->count) {
        case 1: self->sent += 10;
        /* fallthrough */
        default: COIR_AWAIT(future, coir_sleep_for_op(&self->pause, 10 * COIR_MS)); self->sent++;
        }
        if (self->pause.future.result < 0)
            COIR_RETURN(future, self->pause.future.result);
    }
    COIR_RETURN(future, self->sent);
    COIR_END(future);
}

static const coir_future_kind beat_kind = COIR_FUTURE_KIND("beat", beat_poll, NULL);

static struct beat *make_beat(struct beat *beat)
{
    memset(beat, 0, sizeof *beat);
    coir_future_init(&beat->future, &beat_kind);
    return beat;
}

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

/* ---- as tasks ---- */

TEST_SIM(a_frame_is_a_task_like_a_fiber)
{
    struct beat beats[100];
    COIR_SCOPE(scope);
    COIR_HANDLE(handle);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    options.name = "first";
    for (int i = 0; i < 100; i++)
        CHECK_EQ(coir_go_future_with(scope, i ? NULL : &options, &make_beat(&beats[i])->future), 0);
    CHECK_EQ(coir_scope_live(scope), 100);
    CHECK_EQ(coir_join(handle), 13);
    CHECK_EQ(coir_scope_wait(scope), 0);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(beats[i].sent, 13);
    options.copy_size = 8;
    CHECK_EQ(coir_go_future_with(scope, &options, &make_beat(&beats[0])->future), -EINVAL);
    options.copy_size = 0;
    CHECK_EQ(coir_go_future_with(scope, &options, &make_beat(&beats[0])->future), 0);
    coir_cancel(handle); /* before it started */
    CHECK_EQ(coir_join(handle), -ECANCELED);
    CHECK_EQ(beats[0].sent, 1);
}

/* ---- ended before they begin ---- */

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

static void far_frames(void)
{
    struct beat beats[40];
    int count = (int)coir_worker_count(coir_runtime_current());
    COIR_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    for (int i = 0; i < 40; i++) {
        options.place = i % 4 == 3 ? COIR_ANYWHERE : COIR_ON_WORKER(i % count);
        CHECK_EQ(coir_go_future_with(scope, &options, &make_beat(&beats[i])->future), 0);
    }
    CHECK_EQ(coir_scope_wait(scope), 0);
    for (int i = 0; i < 40; i++)
        CHECK_EQ(beats[i].sent, 13);
}

TEST(frames_run_on_any_worker)
{
    test_in_runtime(far_frames, 3);
    for (uint64_t seed = 1; seed <= 20; seed++)
        test_in_sim(far_frames, 3, seed);
}

struct done {
    struct beat beat;
    coir_completion completion;
    int *result;
};

static void on_done(int64_t result, void *arg)
{
    struct done *done = arg;
    *done->result = (int)result;
    free(done);
}

TEST_SIM(a_completion_calls_back_and_may_free_everything)
{
    COIR_SCOPE(scope);
    int result = 0;
    struct done *done = malloc(sizeof *done);
    done->result = &result;
    CHECK_EQ(coir_completion_start(scope, &done->completion, &make_beat(&done->beat)->future,
                                   on_done, done),
             0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(result, 13);
}

/* ---- depth ---- */

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

/* ---- values one at a time ---- */

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

/* ---- a frame never suspends by a fiber's calls ---- */

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

/* ---- groups ---- */

struct nap {
    coir_time time;
    int result, ended;
};

static int take_nap(void *arg)
{
    struct nap *nap = arg;
    int rc = coir_sleep_for(nap->time);
    nap->ended = rc < 0 ? rc : 1;
    return rc < 0 ? rc : nap->result;
}

TEST_SIM(join_waits_for_all)
{
    struct beat beats[3];
    coir_branch branches[3];
    for (int i = 0; i < 3; i++)
        branches[i] = (coir_branch)COIR_BRANCH(&make_beat(&beats[i])->future);
    coir_time before = coir_now();
    CHECK_EQ(coir_join_all(branches, 3, 0), 0);
    CHECK_EQ(coir_now() - before, 30 * COIR_MS);
    for (int i = 0; i < 3; i++)
        CHECK(beats[i].sent == 13 && beats[i].future.result == 13 &&
              coir_branch_is_complete(&branches[i]));
    CHECK_EQ(coir_join_all(NULL, 0, 0), 0);
}

TEST_SIM(join_in_a_window_runs_so_many_at_a_time)
{
    struct beat beats[5];
    coir_branch branches[5];
    for (int i = 0; i < 5; i++)
        branches[i] = (coir_branch)COIR_BRANCH(&make_beat(&beats[i])->future);
    coir_time before = coir_now();
    CHECK_EQ(coir_join_all(branches, 5, 2), 0);
    CHECK_EQ(coir_now() - before, 90 * COIR_MS);
}

TEST_SIM(the_first_error_ends_a_try_join)
{
    struct nap naps[4] = {{30 * COIR_MS, 0, 0},
                          {10 * COIR_MS, -EIO, 0},
                          {20 * COIR_MS, -EPERM, 0},
                          {5 * COIR_MS, 3, 0}};
    coir_call calls[4];
    coir_branch branches[4];
    for (int i = 0; i < 4; i++)
        branches[i] = (coir_branch)COIR_BRANCH(coir_call_init(&calls[i], take_nap, &naps[i]));
    coir_time before = coir_now();
    CHECK_EQ(coir_join_or_cancel(branches, 4, 0), -EIO);
    CHECK_EQ(coir_now() - before, 10 * COIR_MS);
    CHECK_EQ(naps[0].ended, -ECANCELED);
    CHECK_EQ(naps[2].ended, -ECANCELED);
    CHECK_EQ(naps[3].ended, 1);
    CHECK_EQ(calls[3].future.result, 3);
    naps[1].result = naps[2].result = 0;
    for (int i = 0; i < 4; i++)
        branches[i] = (coir_branch)COIR_BRANCH(coir_call_init(&calls[i], take_nap, &naps[i]));
    CHECK_EQ(coir_join_or_cancel(branches, 4, 0), 0);
}

TEST_SIM(any_is_decided_once_and_cancels_the_rest)
{
    struct nap naps[3] = {{30 * COIR_MS, 1, 0}, {10 * COIR_MS, 2, 0}, {20 * COIR_MS, 3, 0}};
    coir_call calls[3];
    coir_branch branches[3];
    for (int i = 0; i < 3; i++)
        branches[i] = (coir_branch)COIR_BRANCH(coir_call_init(&calls[i], take_nap, &naps[i]));
    coir_time before = coir_now();
    CHECK_EQ(coir_any(branches, 3), 1);
    CHECK_EQ(coir_now() - before, 10 * COIR_MS);
    CHECK(naps[0].ended == -ECANCELED && naps[1].ended == 1 && naps[2].ended == -ECANCELED);
    CHECK_EQ(coir_any(NULL, 0), -EINVAL);
}

/* Two calls of one task, each with blocks of its own. */
static int under_a_deadline(void *arg)
{
    int rc = 0;
    for (int i = 0; i < 3; i++) {
        COIR_DEADLINE(coir_in(*(coir_time *)arg));
        COIR_SCOPE(scope);
        struct nap nap = {50 * COIR_MS, 0, 0};
        coir_go(scope, take_nap, &nap);
        rc = coir_scope_wait(scope);
        CHECK_EQ(rc, -ETIME);
    }
    return rc;
}

TEST_SIM(calls_of_one_task_have_deadlines_of_their_own)
{
    coir_time times[2] = {7 * COIR_MS, 11 * COIR_MS};
    coir_call calls[2];
    coir_branch branches[2] = {COIR_BRANCH(coir_call_init(&calls[0], under_a_deadline, &times[0])),
                               COIR_BRANCH(coir_call_init(&calls[1], under_a_deadline, &times[1]))};
    CHECK_EQ(coir_join_all(branches, 2, 0), 0);
    CHECK_EQ(calls[0].future.result, -ETIME);
    CHECK_EQ(calls[1].future.result, -ETIME);
}

TEST_SIM(groups_nest_and_cancel_inwards)
{
    coir_sleep_op sleeps[4];
    coir_branch inner[2][2], outer[2];
    coir_group groups[2];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 4; i++)
            inner[i / 2][i % 2] =
                (coir_branch)COIR_BRANCH(coir_sleep_for_op(&sleeps[i], (10 + i) * COIR_MS));
        for (int i = 0; i < 2; i++)
            outer[i] = (coir_branch)COIR_BRANCH(coir_join_all_op(&groups[i], inner[i], 2, 0));
        coir_time before = coir_now();
        if (round == 0) {
            CHECK_EQ(coir_any(outer, 2), 0);
            CHECK_EQ(coir_now() - before, 11 * COIR_MS);
            CHECK_EQ(sleeps[2].future.result, -ECANCELED);
            CHECK_EQ(groups[1].future.result, -ECANCELED);
        } else {
            COIR_DEADLINE(coir_in(5 * COIR_MS));
            CHECK_EQ(coir_any(outer, 2), -ETIME);
            CHECK_EQ(coir_now() - before, 5 * COIR_MS);
            CHECK_EQ(sleeps[3].future.result, -ETIME);
        }
    }
}

TEST_SIM(any_over_members_that_are_always_ready_serves_all)
{
    int served[3] = {0};
    for (int i = 0; i < 300; i++) {
        coir_future yields[3];
        coir_branch branches[3];
        for (int k = 0; k < 3; k++)
            branches[k] = (coir_branch)COIR_BRANCH(coir_yield_op(&yields[k]));
        int which = coir_any(branches, 3);
        CHECK(which >= 0 && which < 3);
        served[which]++;
    }
    for (int k = 0; k < 3; k++)
        CHECK(served[k] >= 50);
}

/* ---- sets ---- */

TEST_SIM(a_set_gives_its_members_back_in_the_order_of_completion)
{
    struct nap naps[10];
    coir_call calls[10];
    coir_branch members[10], *done;
    coir_set set;
    coir_set_init(&set);
    CHECK_EQ(coir_set_next(&set, &done), 0);
    for (int i = 0; i < 10; i++) {
        naps[i] = (struct nap){(10 - i) * COIR_MS, i, 0};
        members[i] = (coir_branch)COIR_BRANCH(coir_call_init(&calls[i], take_nap, &naps[i]));
        if (i >= 5) /* the set grows while it is awaited */
            CHECK_EQ(coir_set_next(&set, &done), 1);
        CHECK_EQ(coir_set_add(&set, &members[i]), 0);
    }
    int left = 0;
    while (coir_set_next(&set, &done) == 1) {
        CHECK(coir_branch_is_complete(done) && done->future->result == (int)(done - members));
        left++;
    }
    CHECK_EQ(left, 5);
    CHECK_EQ(coir_set_live(&set), 0);
    naps[0].time = COIR_S;
    members[0] = (coir_branch)COIR_BRANCH(coir_call_init(&calls[0], take_nap, &naps[0]));
    CHECK_EQ(coir_set_add(&set, &members[0]), 0);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_set_next(&set, &done), -ETIME);
    }
    coir_set_done(&set);
    CHECK_EQ(naps[0].ended, -ECANCELED);
}

static int count_run(void *arg)
{
    ++*(int *)arg;
    return 0;
}

TEST_SIM(a_member_of_a_set_may_be_cancelled_before_it_has_begun)
{
    int runs = 0;
    coir_sleep_op sleep;
    coir_branch member = COIR_BRANCH(coir_sleep_for_op(&sleep, COIR_S)), *done;
    coir_set set;
    COIR_SCOPE(scope);
    coir_set_init(&set);
    CHECK_EQ(coir_set_add(&set, &member), 0);
    CHECK_EQ(coir_go(scope, count_run, &runs), 0); /* behind the member in the queue */
    coir_set_cancel(&set);
    coir_time before = coir_now();
    CHECK_EQ(coir_set_next(&set, &done), 1);
    CHECK_EQ(done->future->result, -ECANCELED);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(runs, 1);
    CHECK_EQ(coir_now(), before);
}

/* ---- joining ---- */

TEST_SIM(a_frame_may_await_a_task)
{
    struct nap nap = {10 * COIR_MS, 42, 0};
    COIR_SCOPE(scope);
    COIR_HANDLE(handle);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    CHECK_EQ(coir_go_with(scope, &options, take_nap, &nap), 0);
    coir_sleep_op limit;
    coir_branch race[2] = {COIR_BRANCH(coir_sleep_for_op(&limit, COIR_MS)),
                           COIR_BRANCH(coir_join_op(handle))};
    CHECK_EQ(coir_any(race, 2), 0);
    race[0] = (coir_branch)COIR_BRANCH(coir_sleep_for_op(&limit, 20 * COIR_MS));
    race[1] = (coir_branch)COIR_BRANCH(coir_join_op(handle));
    CHECK_EQ(coir_any(race, 2), 1);
    CHECK_EQ(race[1].future->result, 42);
    CHECK_EQ(coir_await(coir_join_op(handle)), 42);
}

/* Random trees of groups over calls and sleeps, cancelled at random: everything that began has
 * ended when the outermost group has. */
struct leaf {
    coir_call call;
    int runs;
};

static int leaf_task(void *arg)
{
    struct leaf *leaf = arg;
    leaf->runs++;
    int rc = 0;
    for (int i = 0; rc == 0 && i < 3; i++)
        rc = coir_sleep_for((rand() % 100) * COIR_US);
    leaf->runs--;
    return rc < 0 ? rc : rand() % 4 ? 0 : -EIO;
}

static void random_groups(void)
{
    enum { WIDTH = 4 };
    struct leaf leaves[WIDTH][WIDTH];
    memset(leaves, 0, sizeof leaves);
    coir_group groups[WIDTH];
    coir_branch inner[WIDTH][WIDTH], outer[WIDTH];
    for (int i = 0; i < WIDTH; i++) {
        for (int k = 0; k < WIDTH; k++)
            inner[i][k] = (coir_branch)COIR_BRANCH(
                coir_call_init(&leaves[i][k].call, leaf_task, &leaves[i][k]));
        coir_future *group =
            rand() % 3 == 0 ? coir_any_op(&groups[i], inner[i], WIDTH)
            : rand() % 2 == 0
                ? coir_join_or_cancel_op(&groups[i], inner[i], WIDTH, (size_t)rand() % 3)
                : coir_join_all_op(&groups[i], inner[i], WIDTH, (size_t)rand() % 3);
        outer[i] = (coir_branch)COIR_BRANCH(group);
    }
    COIR_DEADLINE(coir_in((rand() % 400) * COIR_US));
    switch (rand() % 3) {
    case 0: coir_any(outer, WIDTH); break;
    case 1: coir_join_or_cancel(outer, WIDTH, 0); break;
    default: coir_join_all(outer, WIDTH, 2);
    }
    for (int i = 0; i < WIDTH; i++)
        for (int k = 0; k < WIDTH; k++)
            CHECK_EQ(leaves[i][k].runs, 0);
}

TEST(groups_end_after_everything_in_them)
{
    const char *seeds = getenv("SEEDS");
    uint64_t count = seeds ? strtoull(seeds, NULL, 0) : 500;
    for (uint64_t seed = 1; seed <= count; seed++) {
        srand((unsigned)seed);
        test_in_sim(random_groups, 1, seed);
    }
}

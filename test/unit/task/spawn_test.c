/* Spawning: futures as tasks. */
#include <coir.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "beat.h"
#include "harness.h"
#include "place.h"

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

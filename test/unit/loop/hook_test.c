/* Hooks: in each turn, from the next one on. */
#include <coir/loop.h>

#include "harness.h"
#include "sys/misuse.h"

static int calls;

static void before(coir_loop *loop, coir_hook *hook, void *arg)
{
    (void)arg;
    (void)loop;
    (void)hook;
    calls++;
}

static void add_another(coir_loop *loop, coir_hook *hook, void *arg)
{
    (void)arg;
    static coir_hook added;
    coir_hook_stop(loop, hook);
    coir_hook_start(loop, &added, COIR_HOOK_AFTER_TURN, before, NULL);
}

TEST(a_hook_added_by_a_hook_runs_in_the_next_turn)
{
    coir_loop *loop;
    coir_hook hook = {{0}};
    CHECK_EQ(coir_loop_new(&loop), 0);
    coir_hook_start(loop, &hook, COIR_HOOK_AFTER_TURN, add_another, NULL);
    coir_loop_run_once(loop, 0);
    CHECK_EQ(calls, 0);
    coir_loop_run_once(loop, 0);
    CHECK_EQ(calls, 1);
    coir_loop_free(loop);
}

static char order[8];

static void note(coir_loop *loop, coir_hook *hook, void *arg)
{
    (void)loop;
    (void)hook;
    order[calls++] = *(const char *)arg;
}

static void note_timer(coir_loop *loop, coir_timer *timer, void *arg)
{
    (void)timer;
    note(loop, NULL, arg);
}

TEST(hooks_are_called_before_the_wait_and_after_what_came)
{
    coir_loop *loop;
    coir_hook before_wait = {{0}}, after_turn = {{0}};
    coir_timer timer = {{0}};
    CHECK_EQ(coir_loop_new(&loop), 0);
    coir_hook_start(loop, &after_turn, COIR_HOOK_AFTER_TURN, note, "a");
    coir_hook_start(loop, &before_wait, COIR_HOOK_BEFORE_WAIT, note, "b");
    coir_timer_start(loop, &timer, 0, note_timer, "t");
    coir_loop_run_once(loop, 0);
    CHECK(calls == 3 && order[0] == 'b' && order[1] == 't' && order[2] == 'a');
    coir_hook_stop(loop, &before_wait);
    coir_loop_run_once(loop, 0);
    CHECK(calls == 4 && order[3] == 'a');
    coir_loop_free(loop);
}

static void start_hook(coir_loop *loop, coir_timer *timer, void *arg)
{
    (void)timer;
    coir_hook_start(loop, arg, COIR_HOOK_AFTER_TURN, before, NULL);
}

TEST(a_hook_started_by_a_timer_runs_in_the_next_turn)
{
    coir_loop *loop;
    coir_hook hook = {{0}};
    coir_timer timer = {{0}};
    CHECK_EQ(coir_loop_new(&loop), 0);
    coir_hook_stop(loop, &hook); /* does nothing */
    coir_timer_start(loop, &timer, 0, start_hook, &hook);
    coir_loop_run_once(loop, COIR_NEVER);
    CHECK_EQ(calls, 0);
    coir_loop_run_once(loop, 0);
    CHECK_EQ(calls, 1);
    coir_loop_free(loop);
}

/* Also while the hooks are called, of which those that come later are in no list of the loop. */
static void start_again(coir_loop *loop, coir_hook *hook, void *later)
{
    coir_hook_start(loop, hook, COIR_HOOK_IN_TURN, before, NULL);
    coir_hook_start(loop, later, COIR_HOOK_AFTER_TURN, add_another, NULL);
}

TEST(a_started_hook_is_not_started_again)
{
    coir_loop *loop;
    coir_hook first = {{0}}, later = {{0}};
    ci_misuse_aborts = false;
    CHECK_EQ(coir_loop_new(&loop), 0);
    coir_hook_start(loop, &first, COIR_HOOK_AFTER_TURN, start_again, &later);
    coir_hook_start(loop, &later, COIR_HOOK_AFTER_TURN, before, NULL);
    for (int i = 1; i <= 3; i++) {
        coir_loop_run_once(loop, 0);
        CHECK_EQ(calls, i);
    }
    coir_hook_stop(loop, &first);
    coir_hook_stop(loop, &later);
    coir_loop_run_once(loop, 0);
    CHECK_EQ(calls, 3);
    coir_hook_start(loop, &later, COIR_HOOK_BEFORE_WAIT, before, NULL);
    coir_loop_run_once(loop, 0);
    CHECK_EQ(calls, 4);
    coir_loop_free(loop);
}

static void stop_after_three(coir_loop *loop, coir_hook *hook, void *arg)
{
    (void)arg;
    if (++calls == 3)
        coir_hook_stop(loop, hook);
}

/* Without a timer or a watch the loop would sleep for ever. */
TEST(a_hook_of_the_turn_keeps_the_loop_awake_and_running)
{
    coir_loop *loop;
    coir_hook hook = {{0}};
    CHECK_EQ(coir_loop_new(&loop), 0);
    coir_hook_start(loop, &hook, COIR_HOOK_IN_TURN, stop_after_three, NULL);
    CHECK(coir_loop_alive(loop));
    CHECK_EQ(coir_loop_run(loop), 0);
    CHECK_EQ(calls, 3);
    CHECK(!coir_loop_alive(loop));
    coir_loop_free(loop);
}

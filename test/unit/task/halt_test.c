/* A worker's part of a halt: its message, and the stack of its thread. */
#include "task/halt.h"

#include <coir/runtime.h>
#include <errno.h>
#include <pthread.h>

#include "base/atomic.h"
#include "base/time.h"
#include "harness.h"
#include "sys/clock.h"
#include "task/worker.h"

static struct ci_worker worker;
static int32_t entered, leave;

TEST(a_message_after_the_end_of_a_run_halts_nothing)
{
    ci_halt_init(&worker);
    worker.halt.state = CI_HALT_ASKED;
    worker.halt.sent = true;
    worker.halt.message.deliver(&worker.halt.message);
    CHECK_EQ(worker.halt.state, CI_HALT_ASKED);
    CHECK(!worker.halt.sent); /* the next one may be sent */
}

static void *a_thread(void *arg)
{
    ci_halt_enter_thread(&worker, true);
    ci_store(&entered, true);
    while (!ci_load(&leave))
        ci_clock_sleep(COIR_MS);
    ci_halt_leave_thread(&worker);
    return arg;
}

static int take_stack(void)
{
    int rc = ci_halt_ask_stack(&worker);
    return rc < 0 ? rc : ci_halt_await_stack(&worker, ci_time_after(ci_clock_now(), COIR_S));
}

TEST(a_thread_is_asked_for_its_stack_while_it_is_there)
{
    pthread_t thread;
    CHECK_EQ(take_stack(), -ENOTSUP);
    CHECK_EQ(pthread_create(&thread, NULL, a_thread, NULL), 0);
    while (!ci_load(&entered))
        ci_clock_sleep(COIR_MS);
    CHECK(worker.halt.thread != NULL);
    while (take_stack() == -ETIMEDOUT)
        continue;
    CHECK(worker.halt.traced.count >= 0);
    ci_store(&leave, true);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK(!worker.halt.thread);
    CHECK_EQ(take_stack(), -ENOTSUP);
}

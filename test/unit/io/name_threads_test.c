/* Threads that resolve names: which names need none, what a slow one delays, and that a task that
 * waits for one is not taken for deadlocked. */
#include "base/sanitizer.h"
#include "memory_limit.h"
#include "names.h"

static int resolve_and_leave(void *arg)
{
    COIR_DEADLINE(coir_in(COIR_MS));
    CHECK_EQ(resolve_four(arg), -ETIME);
    return 0;
}

static int is_not_asked_for_nobody(void *arg)
{
    (void)arg;
    keep_a_thread_busy("dead:1", 1);
    CHECK_EQ(resolve_and_leave("1.example:1"), 0);
    release();
    CHECK_EQ(resolve_four("2.example:1"), 1);
    CHECK_EQ(asked(), 2);
    return 0;
}

TEST(a_question_that_nobody_waits_for_is_not_asked)
{
    config.name_threads_max = 1;
    run(is_not_asked_for_nobody, 1);
}

static int nothing(void *arg)
{
    (void)arg;
    return 42;
}

static int go_on_beside_the_dead(void *arg)
{
    (void)arg;
    CHECK_EQ(resolve_four("1.example:1"), 1);
    keep_a_thread_busy("dead1:1", 1);
    keep_a_thread_busy("dead2:1", 2);
    CHECK_EQ(resolve_four("1.example:1"), 1); /* from here on no thread could ask */
    CHECK_EQ(coir_resolve("localhost:1", NULL, 0), 2);
    CHECK_EQ(coir_resolve("10.0.0.1:1", NULL, 0), 1);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(coir_offload(nothing, NULL), 42);
    CHECK_EQ(asked(), 3);
    release();
    return 0;
}

TEST(a_dead_name_server_delays_nobody_else)
{
    config.name_threads_max = 2;
    config.offload_threads_max = 1;
    run(go_on_beside_the_dead, 1);
}

static void *release_later(void *arg)
{
    (void)arg;
    wait_for_dead(1);
    release();
    return NULL;
}

static int wait_for_a_name(void *arg)
{
    (void)arg;
    CHECK_EQ(resolve_four("dead:1"), -COIR_ENAME);
    static coir_event never;
    CHECK_EQ(coir_event_wait(&never), -ECANCELED);
    return 0;
}

TEST(who_waits_for_a_name_is_not_dead_and_is_afterwards)
{
    pthread_t thread;
    coir_runtime *runtime;
    CHECK_EQ(pthread_create(&thread, NULL, release_later, NULL), 0);
    config.workers = 2;
    config.deadlock = COIR_DEADLOCK_END;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    CHECK_EQ(coir_runtime_run(runtime, wait_for_a_name, NULL), -EDEADLK);
    coir_runtime_free(runtime);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* ---- a thread that cannot be started ---- */

static int ask_without_a_thread(void *arg)
{
    (void)arg;
    CHECK_EQ(resolve_four("10.0.0.1:1"), 1);
    for (int i = 0; i < 3; i++) {
        struct rlimit before = limit_memory();
        int rc = resolve_four("1.example:1");
        CHECK(rc == -EAGAIN || rc == -ENOMEM);
        CHECK_EQ(asked(), 0);
        unlimit_memory(before);
    }
    CHECK_EQ(resolve_four("1.example:1"), 1); /* the error is no answer to remember */
    return 0;
}

TEST(a_name_that_no_thread_can_be_started_for_is_an_error_until_there_is_memory)
{
    if (CI_ASAN || CI_TSAN)
        return; /* their runtimes need memory of their own for a thread, and give up */
    run(ask_without_a_thread, 1);
}

/* Tasks that ask for a name: equal questions are asked once, and each task can be cancelled at any
 * time, also the one that asked first. */
#include "names.h"

/* ---- asked once ---- */

enum { NAMES = 100, ASKERS = 10000 };

static int ask_numbered(void *arg)
{
    char name[32];
    snprintf(name, sizeof name, "%d.example:80", (int)((uintptr_t)arg % NAMES));
    CHECK_EQ(resolve_four(name), 1);
    return 0;
}

static int ask_all(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    for (uintptr_t i = 0; i < ASKERS; i++)
        CHECK_EQ(coir_go_on(scope, (int)(i / NAMES % 3), ask_numbered, (void *)i), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(asked(), NAMES);
    return 0;
}

TEST(ten_thousand_questions_of_a_hundred_names_are_a_hundred)
{
    config.name_cache_time = COIR_NEVER;
    run(ask_all, 3);
}

static int ask_dead(void *arg)
{
    (void)arg;
    return resolve_four("dead:1") == -COIR_ENAME ? 0 : -1;
}

/* The cache is empty: all wait for one answer. */
static int ask_together(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    for (int i = 0; i < 300; i++)
        CHECK_EQ(coir_go_on(scope, i % 3, ask_dead, NULL), 0);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    wait_for_dead(1);
    release();
    CHECK_EQ(coir_scope_wait(scope), 0);
    return 0;
}

TEST(who_asks_the_same_waits_for_the_same_answer)
{
    config.name_cache_time = 1;
    run(ask_together, 3);
    CHECK(asked() < 300);
}

static int leave_at_deadline(void *arg)
{
    (void)arg;
    keep_a_thread_busy("dead:1", 1);
    for (int i = 0; i < 20; i++) {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(resolve_four("dead:1"), -ETIME);
    }
    CHECK_EQ(asked(), 1);
    coir_address one;
    coir_case cases[] = {coir_case_resolve("dead:1", &one, 1), coir_case_after(COIR_MS)};
    CHECK_EQ(coir_select(cases, 2), 1);
    keep_a_thread_busy("dead:1", 1);
    CHECK(asked() <= 2); /* the other family may have been begun */
    return 0;
}

/* The runtime is freed while a thread is still asking. */
TEST(a_task_leaves_at_its_deadline_and_the_runtime_ends)
{
    run(leave_at_deadline, 1);
    release();
    wait_for_answers(1);
}

/* ---- in the simulated world ---- */

static coir_sim *world;

static void took(coir_time start, coir_time want)
{
    CHECK_EQ(coir_now() - start, want);
}

static int lead_and_leave(void *arg)
{
    coir_time start = coir_now();
    COIR_DEADLINE(coir_in((coir_time)(intptr_t)arg));
    CHECK_EQ(resolve_four("slow:1"), -ETIME);
    took(start, (coir_time)(intptr_t)arg);
    return 0;
}

static int wait_to_the_end(void *arg)
{
    coir_time start = coir_now();
    (void)arg;
    CHECK_EQ(resolve_four("slow:1"), 1);
    took(start, 10 * COIR_MS);
    return 0;
}

static int client(void *arg)
{
    (void)arg;
    expect("web:80", 3, "[fd00::1]:80", "10.0.0.1:80", "10.9.9.9:80");
    expect("other:80", 1, "10.0.0.1:80");
    CHECK_EQ(coir_resolve("nobody:80", NULL, 0), -COIR_ENAME);
    CHECK_EQ(coir_resolve("gone:80", NULL, 0), -COIR_ENAME);
    coir_time start = coir_now();
    CHECK_EQ(coir_resolve("failing:80", NULL, 0), -COIR_ENAMESERVER);
    took(start, 30 * COIR_MS);
    {
        COIR_SCOPE(scope);
        for (int i = 0; i < 5; i++) {
            coir_go_on(scope, i % (int)coir_worker_count(coir_runtime_current()), lead_and_leave,
                       (void *)(intptr_t)((i + 1) * COIR_MS));
            coir_go_on(scope, (i + 1) % (int)coir_worker_count(coir_runtime_current()),
                       wait_to_the_end, NULL);
        }
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    start = coir_now();
    CHECK_EQ(resolve_four("slow:1"), 1); /* kept */
    took(start, 0);
    CHECK_EQ(coir_sleep_for(10 * COIR_S), 0);
    start = coir_now();
    CHECK_EQ(resolve_four("slow:1"), 1); /* too old */
    took(start, 10 * COIR_MS);
    return 0;
}

static int serve(void *arg)
{
    (void)arg;
    return 0;
}

static int scenario(coir_sim *sim, void *arg)
{
    (void)arg;
    world = sim;
    coir_sim_host(sim, "other", serve, NULL);
    CHECK_EQ(coir_sim_name(sim, "web", (coir_name_answer){.addresses = "other 10.9.9.9"}), 0);
    CHECK_EQ(coir_sim_name(sim, "gone", (coir_name_answer){.addresses = ""}), 0);
    CHECK_EQ(coir_sim_name(sim, "slow",
                           (coir_name_answer){.addresses = "other", .latency = 10 * COIR_MS}),
             0);
    CHECK_EQ(coir_sim_name(sim, "failing",
                           (coir_name_answer){.error = -COIR_ENAMESERVER, .latency = 30 * COIR_MS}),
             0);
    return coir_sim_host_main(sim, "client", client, NULL);
}

TEST(names_of_the_simulated_world)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        coir_sim_options options = test_sim_options(seed, 1 + (unsigned)(seed % 3));
        CHECK_EQ(coir_sim_run(&options, scenario, NULL, NULL), 0);
        CHECK_EQ(asked(), 0);
    }
}

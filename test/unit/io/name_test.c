/* Names, asked of a system that the test is itself: what is asked how often, who waits for whom,
 * what is kept, who may leave. */
#include <coir.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "sys/lookup.h"

/* ---- the system (instead of sys/lookup.c) ----
 * "N.example" has the addresses 10.1.0.N and fd01::N; "unknown..." has none; "broken..." gives an
 * error; "dead..." is not answered before `release`. */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int asked, dead, answered; /* dead: threads that wait for `release` */
    bool release;
    char last[64];
    uint64_t stamp;
} sys = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void stay_dead(void)
{
    sys.dead++;
    pthread_cond_broadcast(&sys.changed);
    while (!sys.release)
        pthread_cond_wait(&sys.changed, &sys.lock);
    sys.dead--;
}

int ci_sys_lookup(const char *host, int family, struct ci_ips *ret_ips)
{
    unsigned number = 0;
    pthread_mutex_lock(&sys.lock);
    sys.asked++;
    snprintf(sys.last, sizeof sys.last, "%s", host);
    if (strncmp(host, "dead", 4) == 0)
        stay_dead();
    sys.answered++;
    pthread_cond_broadcast(&sys.changed);
    pthread_mutex_unlock(&sys.lock);
    if (strncmp(host, "broken", 6) == 0)
        return -COIR_ENAMESERVER;
    if (sscanf(host, "%u.example", &number) != 1)
        return -COIR_ENAME;
    memset(ret_ips, 0, sizeof *ret_ips);
    ret_ips->count = 1;
    ret_ips->ip[0].any.sa_family = (sa_family_t)family;
    if (family == AF_INET)
        ret_ips->ip[0].four.sin_addr.s_addr = htonl(0x0a010000 | number);
    else
        memcpy(&ret_ips->ip[0].six.sin6_addr,
               (uint8_t[16]){0xfd, 1, [14] = (uint8_t)(number >> 8), [15] = (uint8_t)number}, 16);
    return 0;
}

uint64_t ci_sys_lookup_stamp(void)
{
    pthread_mutex_lock(&sys.lock);
    uint64_t stamp = sys.stamp;
    pthread_mutex_unlock(&sys.lock);
    return stamp;
}

static int asked(void)
{
    pthread_mutex_lock(&sys.lock);
    int count = sys.asked;
    pthread_mutex_unlock(&sys.lock);
    return count;
}

static void wait_for_dead(int count)
{
    pthread_mutex_lock(&sys.lock);
    while (sys.dead < count)
        pthread_cond_wait(&sys.changed, &sys.lock);
    pthread_mutex_unlock(&sys.lock);
}

static void release(void)
{
    pthread_mutex_lock(&sys.lock);
    sys.release = true;
    pthread_cond_broadcast(&sys.changed);
    pthread_mutex_unlock(&sys.lock);
}

static void wait_for_answers(int count)
{
    pthread_mutex_lock(&sys.lock);
    while (sys.answered < count)
        pthread_cond_wait(&sys.changed, &sys.lock);
    pthread_mutex_unlock(&sys.lock);
}

/* ---- running ---- */

static coir_config config = COIR_CONFIG;

static void run(coir_task_fn *fn, size_t workers)
{
    coir_runtime *runtime;
    config.workers = workers;
    config.environment = 0;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    CHECK_EQ(coir_runtime_run(runtime, fn, NULL), 0);
    coir_runtime_free(runtime);
}

static int resolve_one(const char *name, enum coir_family family)
{
    coir_resolve_options options = COIR_RESOLVE_OPTIONS;
    coir_address address;
    options.family = family;
    return coir_resolve_with(name, &options, &address, 1);
}

static int resolve_four(const char *name)
{
    return resolve_one(name, COIR_IPV4);
}

/* ---- what is found ---- */

static void expect(const char *name, int count, ...)
{
    va_list args;
    coir_address found[8];
    char text[64];
    CHECK_EQ(coir_resolve(name, found, 8), count);
    va_start(args, count);
    for (int i = 0; i < count; i++) {
        const char *want = va_arg(args, const char *);
        CHECK(coir_address_format(&found[i], text, sizeof text) > 0);
        if (strcmp(text, want) != 0)
            test_fail(__FILE__, __LINE__, "%s is %s, not %s", name, text, want);
    }
    va_end(args);
}

static int find(void *arg)
{
    coir_address one;
    (void)arg;
    expect("7.example:80", 2, "[fd01::7]:80", "10.1.0.7:80");
    expect("127.0.0.1:81", 1, "127.0.0.1:81");
    expect("[::1]:82", 1, "[::1]:82");
    expect("localhost:83", 2, "[::1]:83", "127.0.0.1:83");
    CHECK_EQ(coir_resolve("7.example:80", NULL, 0), 2);
    CHECK_EQ(coir_resolve("7.example:80", &one, 1), 2);
    CHECK_EQ(resolve_one("[::1]:82", COIR_IPV4), -COIR_ENAME);
    CHECK_EQ(resolve_one("[::1]:82", COIR_IPV6), 1);
    CHECK_EQ(resolve_one("7.example:80", (enum coir_family)5), -EINVAL);
    CHECK_EQ(coir_resolve("7.example", &one, 1), -COIR_EPORT);
    CHECK_EQ(coir_resolve("fd:0", &one, 1), -COIR_EADDRESS);
    CHECK_EQ(coir_resolve("unknown:80", &one, 1), -COIR_ENAME);
    CHECK_EQ(coir_resolve("broken:80", &one, 1), -COIR_ENAMESERVER);
    coir_case cases[] = {coir_case_resolve("9.example:1", &one, 1), coir_case_after(1000 * COIR_S)};
    CHECK_EQ(coir_select(cases, 2), 0);
    CHECK_EQ(cases[0].result, 2);
    coir_listener *listener;
    CHECK_EQ(coir_tcp_listen("unknown:80", &listener), -COIR_ENAME);
    CHECK_EQ(coir_tcp_listen("7.example:80", &listener), -EADDRNOTAVAIL);
    return 0;
}

TEST(names_have_addresses)
{
    run(find, 1);
}

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

/* Nothing is kept here: they wait for one answer. */
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

/* ---- who leaves ---- */

static int ask_in_vain(void *arg)
{
    CHECK_EQ(resolve_four(arg), -ECANCELED);
    return 0;
}

static int see_dead(void *arg)
{
    wait_for_dead((int)(intptr_t)arg);
    return 0;
}

/* A thread asks `name`, which makes so many that get no answer, and nobody waits for it any more.
 */
static void keep_a_thread_busy(const char *name, int count)
{
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, ask_in_vain, (void *)(uintptr_t)name), 0);
    CHECK_EQ(coir_offload(see_dead, (void *)(intptr_t)count), 0);
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
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

/* The runtime goes while its threads are still asking. */
TEST(who_asks_may_leave_and_so_may_the_runtime)
{
    run(leave_at_deadline, 1);
    release();
    wait_for_answers(1);
}

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

/* ---- who is not delayed ---- */

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
    CHECK_EQ(resolve_four("1.example:1"), 1); /* from here on nobody could be asked */
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

/* ---- what is kept ---- */

static int ask_again(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(resolve_four("1.example:1"), 1);
        CHECK_EQ(resolve_four("1.EXAMPLE:2"), 1);
        CHECK_EQ(resolve_four("unknown:1"), -COIR_ENAME);
    }
    CHECK_EQ(asked(), 2);
    return 0;
}

TEST(answers_are_kept_also_that_a_name_is_unknown)
{
    config.name_cache_time = COIR_NEVER;
    run(ask_again, 1);
}

static int ask_more_than_is_kept(void *arg)
{
    static const char *const order[] = {"1.example:1", "2.example:1", "1.example:1", "3.example:1",
                                        "1.example:1"};
    (void)arg;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        CHECK_EQ(resolve_four(order[i]), 1);
    CHECK_EQ(asked(), 3); /* 1 was used after 2, which has gone */
    CHECK_EQ(resolve_four("2.example:1"), 1);
    CHECK_EQ(asked(), 4);
    return 0;
}

TEST(as_many_answers_are_kept_as_may_be)
{
    config.name_cache_max = 2;
    config.name_cache_time = COIR_NEVER;
    run(ask_more_than_is_kept, 1);
}

static int ask_when_it_is_too_old(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++)
        CHECK_EQ(resolve_four("1.example:1"), 1);
    CHECK_EQ(asked(), 3);
    return 0;
}

TEST(answers_are_asked_for_anew_when_they_are_too_old)
{
    config.name_cache_time = 1;
    run(ask_when_it_is_too_old, 1);
}

/* The files are looked at once a second. */
static int ask_after_files_changed(void *arg)
{
    (void)arg;
    CHECK_EQ(resolve_four("1.example:1"), 1);
    CHECK_EQ(coir_sleep_for(COIR_S + COIR_MS), 0);
    CHECK_EQ(resolve_four("1.example:1"), 1);
    CHECK_EQ(asked(), 1);
    pthread_mutex_lock(&sys.lock);
    sys.stamp++;
    pthread_mutex_unlock(&sys.lock);
    CHECK_EQ(coir_sleep_for(COIR_S + COIR_MS), 0);
    CHECK_EQ(resolve_four("1.example:1"), 1);
    CHECK_EQ(asked(), 2);
    return 0;
}

TEST(answers_are_asked_for_anew_when_the_files_change)
{
    config.name_cache_time = COIR_NEVER;
    run(ask_after_files_changed, 1);
}

/* ---- a task that waits for a name is not dead ---- */

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

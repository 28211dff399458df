/* The event loop: messages of several threads, timeouts of one length, how late a timer is.
 *
 *   bench_loop messages [COUNT]         four threads post to one loop: their order, time, wake-ups
 *   bench_loop timeouts|appends COUNT   for callgrind: starts of timeouts of a set, with the stamps
 *                                       they get before the wait; appends to a list, with a walk
 *   bench_loop late [ROUNDS]            on each driver timers of 10 ms, and sleeps in a fiber; and
 * a bare loop of epoll_pwait2, in turns
 */
#include <coir.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

enum { SENDERS = 4 };

static coir_loop *open_loop(const char *driver)
{
    coir_loop_options options = COIR_LOOP_OPTIONS;
    coir_loop *loop;
    options.driver = driver;
    int rc = coir_loop_new_with(&options, &loop);
    if (rc < 0)
        fprintf(stderr, "%s: %s\n", driver ? driver : "loop", coir_strerror(rc));
    return rc < 0 ? NULL : loop;
}

/* ---- messages ---- */

static coir_loop *loop;
static int sent_each, disordered;
static int received[SENDERS];

/* The sender is in the lowest bits, the number above. */
static void receive(void *arg)
{
    uintptr_t message = (uintptr_t)arg;
    disordered += received[message % SENDERS]++ != (int)(message / SENDERS);
}

static void *send_all(void *arg)
{
    for (int i = 0; i < sent_each; i++)
        while (coir_loop_post(loop, receive, (void *)((uintptr_t)i * SENDERS + (uintptr_t)arg)) < 0)
            continue;
    coir_loop_release(loop);
    return NULL;
}

static int messages(int count)
{
    pthread_t threads[SENDERS];
    coir_loop_counters counters = COIR_LOOP_COUNTERS;
    if (!(loop = open_loop(NULL)))
        return 1;
    sent_each = count / SENDERS;
    coir_time start = coir_now();
    for (uintptr_t i = 0; i < SENDERS; i++) {
        coir_loop_hold(loop);
        if (pthread_create(&threads[i], NULL, send_all, (void *)i) != 0)
            return 1;
    }
    coir_loop_run(loop);
    coir_time time = coir_now() - start;
    int sum = 0;
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(threads[i], NULL);
        sum += received[i];
    }
    coir_loop_counters_get(loop, &counters);
    printf(
        "%d messages of %d threads, %d out of order: %.0f ns each, %llu turns, %llu sleeps, %llu "
        "wake-ups\n",
        sum, SENDERS, disordered, (double)time / sum, (unsigned long long)counters.turns,
        (unsigned long long)counters.sleeps, (unsigned long long)counters.wakeups);
    coir_loop_free(loop);
    return sum != sent_each * SENDERS || disordered || counters.wakeups > counters.sleeps;
}

/* ---- timeouts of one length ---- */

static void never(coir_timeout_set *set, coir_timeout *timeout, void *arg)
{
    (void)set, (void)timeout, (void)arg;
    abort();
}

static int timeouts(int count)
{
    coir_timeout *all = calloc((size_t)count, sizeof *all);
    coir_timeout_set set;
    if (!all || !(loop = open_loop(NULL)) ||
        coir_timeout_set_init(&set, loop, 1000 * COIR_S, never) < 0)
        return 1;
    for (int i = 0; i < count; i++)
        coir_timeout_start(&set, &all[i], NULL);
    coir_loop_run_once(loop, 0);
    coir_loop_free(loop);
    free(all);
    return 0;
}

struct node {
    struct node *next, *prev;
    coir_time when;
    void *set, *arg;
    char as_large[sizeof(coir_timeout) - 5 * sizeof(void *)];
};

static struct node head = {&head, &head, 0, NULL, NULL, {0}};

/* Not inlined, as the library's function cannot be. */
static __attribute__((noinline)) void append(struct node *node, void *arg)
{
    node->arg = arg;
    node->set = &head;
    node->next = &head;
    node->prev = head.prev;
    head.prev->next = node;
    head.prev = node;
}

static int appends(int count)
{
    struct node *all = calloc((size_t)count, sizeof *all);
    coir_time now = coir_now();
    if (!all || !(loop = open_loop(NULL)))
        return 1;
    for (int i = 0; i < count; i++)
        append(&all[i], NULL);
    for (struct node *node = head.next; node != &head; node = node->next)
        node->when = now;
    coir_loop_run_once(loop, 0);
    coir_loop_free(loop);
    free(all);
    return 0;
}

/* ---- how late a timer and a sleep are ---- */

enum { ROUNDS_MAX = 10000, DRIVERS = 3 };
static const coir_time pause_time = 10 * COIR_MS;
static const char *const drivers[DRIVERS] = {"epoll", "poll", "io_uring"};

static void note_time(coir_loop *self, coir_timer *timer, void *arg)
{
    (void)self, (void)timer;
    *(coir_time *)arg = coir_now();
}

static coir_time late_on(coir_loop *on)
{
    coir_timer timer = {{0}};
    coir_time fired, start = coir_now();
    coir_timer_start(on, &timer, pause_time, note_time, &fired);
    coir_loop_run(on);
    return fired - start - pause_time;
}

static int sleep_once(void *ret_late)
{
    coir_time start = coir_now();
    int rc = coir_sleep_for(pause_time);
    *(coir_time *)ret_late = coir_now() - start - pause_time;
    return rc;
}

static coir_runtime *open_runtime(const char *driver)
{
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    config.driver = driver;
    config.workers = 1;
    return coir_runtime_new(&config, &runtime) < 0 ? NULL : runtime;
}

static coir_time late_in(coir_runtime *in)
{
    coir_time late = 0;
    return coir_runtime_run(in, sleep_once, &late) < 0 ? COIR_NEVER : late;
}

static coir_time late_bare(int epoll)
{
    struct epoll_event event;
    struct timespec timeout = {0, pause_time};
    coir_time start;
    int rc;
    do { /* the work of a ring interrupts it */
        start = coir_now();
        rc = epoll_pwait2(epoll, &event, 1, &timeout, NULL);
    } while (rc < 0 && errno == EINTR);
    return coir_now() - start - pause_time;
}

static int by_time(const void *a, const void *b)
{
    coir_time left = *(const coir_time *)a, right = *(const coir_time *)b;
    return left < right ? -1 : left > right;
}

/* Whether one was early. */
static bool say_late(const char *what, const char *driver, coir_time *times, int rounds)
{
    qsort(times, (size_t)rounds, sizeof times[0], by_time);
    printf("%-5s %-8s 10 ms: late by %6.3f ms in the median, %6.3f ms at p99, %6.3f ms at least\n",
           what, driver, (double)times[rounds / 2] / COIR_MS,
           (double)times[rounds * 99 / 100] / COIR_MS, (double)times[0] / COIR_MS);
    return times[0] < 0;
}

static int late(int rounds)
{
    static coir_time bare[ROUNDS_MAX], timers[DRIVERS][ROUNDS_MAX], sleeps[DRIVERS][ROUNDS_MAX];
    coir_loop *loops[DRIVERS];
    coir_runtime *runtimes[DRIVERS];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (rounds > ROUNDS_MAX || epoll < 0)
        return 1;
    for (int i = 0; i < DRIVERS; i++) {
        loops[i] = open_loop(drivers[i]);
        runtimes[i] = open_runtime(drivers[i]);
    }
    for (int round = 0; round < rounds; round++) {
        bare[round] = late_bare(epoll);
        for (int i = 0; i < DRIVERS; i++) {
            timers[i][round] = loops[i] ? late_on(loops[i]) : 0;
            sleeps[i][round] = runtimes[i] ? late_in(runtimes[i]) : 0;
        }
    }
    bool early = say_late("bare", "", bare, rounds);
    for (int i = 0; i < DRIVERS; i++) {
        early |= loops[i] && say_late("timer", drivers[i], timers[i], rounds);
        early |= runtimes[i] && say_late("sleep", drivers[i], sleeps[i], rounds);
        coir_loop_free(loops[i]);
        coir_runtime_free(runtimes[i]);
    }
    return early;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int count = argc > 2 ? atoi(argv[2]) : 0;
    if (strcmp(what, "messages") == 0)
        return messages(count ? count : 1000000);
    if (strcmp(what, "timeouts") == 0)
        return timeouts(count);
    if (strcmp(what, "appends") == 0)
        return appends(count);
    if (strcmp(what, "late") == 0)
        return late(count ? count : 300);
    fprintf(stderr, "usage: bench_loop messages|timeouts|appends|late [COUNT]\n");
    return 2;
}

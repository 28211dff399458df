/* How costs grow with what is alive, by tens: each line is what is measured, how many there are,
 * and nanoseconds for one. bench/plot makes a picture of them. Usage: bench_growth [MOST] */
#include <coir.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { YIELDS = 200000, TIMER_STARTS = 200000, MESSAGES = 200000, SELECTS = 20000, STACK = 65536 };
enum { CHANNELS_MOST = 100000, CASES_MOST = 10000 };

static void print(const char *what, size_t count, coir_time start, size_t operations)
{
    printf("%s %zu %.1f\n", what, count, (double)(coir_now() - start) / (double)operations);
    fflush(stdout);
}

static uint64_t draw(void)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005U + 1442695040888963407U;
    return state >> 33;
}

/* ---- fibers that all wait, beside the first touch of as many pages ---- */

static int await_event(void *event)
{
    return coir_event_wait(event);
}

static void gang(size_t count)
{
    coir_event event = COIR_EVENT_INIT;
    coir_time start = coir_now();
    COIR_SCOPE(scope);
    for (size_t i = 0; i < count; i++)
        coir_go(scope, await_event, &event);
    coir_yield();
    coir_event_set(&event);
    coir_scope_wait(scope);
    print("gang", count, start, count);
}

static void touch(size_t count)
{
    coir_time start = coir_now();
    char *memory = mmap(NULL, count * STACK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return;
    madvise(memory, count * STACK, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < count; i++)
        ((volatile char *)memory)[i * STACK + STACK - 1] = 1;
    munmap(memory, count * STACK);
    print("pages", count, start, count);
}

/* ---- a yield beside fibers that sleep ---- */

static int sleep_long(void *arg)
{
    (void)arg;
    return coir_sleep_for(3600 * COIR_S);
}

static int yield_often(void *arg)
{
    (void)arg;
    for (int i = 0; i < YIELDS; i++)
        coir_yield();
    return 0;
}

static void yields(size_t count)
{
    COIR_SCOPE(sleepers);
    for (size_t i = 0; i < count; i++)
        coir_go(sleepers, sleep_long, NULL);
    coir_yield();
    coir_time start = coir_now();
    {
        COIR_SCOPE(scope);
        coir_go(scope, yield_often, NULL);
        coir_go(scope, yield_often, NULL);
        coir_scope_wait(scope);
    }
    print("yield", count, start, 2 * (size_t)YIELDS);
    coir_scope_cancel(sleepers);
}

/* ---- timers: one of many that are running is started again ---- */

static void on_timer(coir_loop *loop, coir_timer *timer, void *arg)
{
    (void)loop, (void)timer, (void)arg;
}

static void timers(size_t count)
{
    coir_loop *loop;
    coir_timer *all = calloc(count, sizeof *all);
    if (!all || coir_loop_new(&loop) != 0)
        abort();
    for (size_t i = 0; i < count; i++)
        coir_timer_start(loop, &all[i], 60 * COIR_S + (coir_time)draw() % (60 * COIR_S), on_timer,
                         NULL);
    coir_time start = coir_now();
    for (int i = 0; i < TIMER_STARTS; i++)
        coir_timer_start(loop, &all[draw() % count], 60 * COIR_S, on_timer, NULL);
    print("timer", count, start, TIMER_STARTS);
    for (size_t i = 0; i < count; i++)
        coir_timer_stop(loop, &all[i]);
    coir_loop_free(loop);
    free(all);
}

/* ---- channels: an item through one of many; a select of many of which one is ready ---- */

static coir_channel **channels_new(size_t count)
{
    coir_channel **all = calloc(count, sizeof *all);
    for (size_t i = 0; all && i < count; i++)
        if (coir_channel_new(sizeof(uint64_t), 1, &all[i]) != 0)
            abort();
    return all;
}

static void channels_free(coir_channel **all, size_t count)
{
    for (size_t i = 0; i < count; i++)
        coir_channel_free(all[i]);
    free(all);
}

static void channels(size_t count)
{
    coir_channel **all = channels_new(count);
    uint64_t item = 1;
    coir_time start = coir_now();
    for (int i = 0; i < MESSAGES; i++) {
        coir_channel *channel = all[draw() % count];
        coir_channel_send(channel, &item);
        coir_channel_recv(channel, &item);
    }
    print("channel", count, start, MESSAGES);
    channels_free(all, count);
}

static void selects(size_t count)
{
    coir_channel **all = channels_new(count);
    coir_case *cases = calloc(count, sizeof *cases);
    uint64_t item = 1;
    size_t rounds = SELECTS / count + 10;
    if (!cases)
        abort();
    for (size_t i = 0; i < count; i++)
        cases[i] = coir_case_recv(all[i], &item);
    coir_time start = coir_now();
    for (size_t i = 0; i < rounds; i++) {
        coir_channel_send(all[draw() % count], &item);
        coir_select(cases, count);
    }
    print("select", count, start, rounds);
    free(cases);
    channels_free(all, count);
}

static void grow(void (*measure)(size_t count), size_t most)
{
    for (size_t count = 10; count <= most; count *= 10)
        measure(count);
}

static int run(void *arg)
{
    size_t most = *(size_t *)arg;
    grow(touch, most);
    grow(gang, most);
    grow(yields, most);
    grow(timers, most);
    grow(channels, most < CHANNELS_MOST ? most : CHANNELS_MOST);
    grow(selects, most < CASES_MOST ? most : CASES_MOST);
    return 0;
}

int main(int argc, char **argv)
{
    size_t most = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    coir_runtime *runtime;
    if (coir_runtime_new(&config, &runtime) != 0)
        return 1;
    int rc = coir_runtime_run(runtime, run, &most);
    coir_runtime_free(runtime);
    return rc != 0;
}

/* A user's program for test/e2e/sanitizers, with and without a mistake. Usage: program
 * clean|leak|overrun|race */
#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *mode;
static int shared; /* passed from worker to worker; who has it has received the token */
static coir_channel *there, *back;

static __attribute__((noinline)) char *deep_allocation(size_t size)
{
    return malloc(size);
}

static int leaks(void *arg)
{
    (void)arg;
    char *volatile lost = deep_allocation(100);
    int rc = coir_sleep_for(COIR_MS);
    lost = NULL;
    (void)lost;
    return rc;
}

static int overruns(void *arg)
{
    (void)arg;
    int rc = coir_yield();
    volatile char *bytes = deep_allocation(10);
    bytes[strlen(mode) + 4] = 1; /* index 11 */
    free((void *)(uintptr_t)bytes);
    return rc;
}

static int counts(void *arg)
{
    coir_channel *from = arg, *to = from == there ? back : there;
    for (int i = 0; i < 1000; i++) {
        char token;
        if (coir_channel_recv(from, &token) < 0)
            return 0;
        shared++;
        if (coir_channel_send(to, &token) < 0)
            return 0;
    }
    coir_channel_close(to);
    return 0;
}

/* The other worker's task cannot have ended before this one begins, nor be told of its end: the two
 * are not ordered. */
static int races(void *arg)
{
    (void)arg;
    shared++;
    char token;
    return coir_channel_recv(back, &token) == -EPIPE ? 0 : -1;
}

static int numbers(coir_generator *generator, uint64_t first, void *arg)
{
    (void)first;
    for (uint64_t i = 0; i < 10; i++) {
        coir_sleep_for(1);
        ++*(int *)arg;
        coir_generator_yield(generator, i, NULL);
    }
    return 0;
}

static int generates(void *arg)
{
    (void)arg;
    int count = 0;
    coir_generator *generator;
    uint64_t value;
    int rc = coir_generator_new(numbers, &count, &generator);
    while (rc == 0 && coir_generator_next(generator, 0, &value) == 1)
        continue;
    coir_generator_free(generator);
    return rc < 0 || count != 10 ? -1 : 0;
}

static int one_on(coir_scope *scope, int worker, coir_task_fn *fn, void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.place = COIR_ON_WORKER(worker);
    return coir_go_with(scope, &options, fn, arg);
}

static int start(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    if (coir_channel_new(1, 1, &there) < 0 || coir_channel_new(1, 1, &back) < 0)
        return -1;
    for (int i = 0; i < 100; i++)
        coir_go(scope, generates, NULL);
    if (strcmp(mode, "leak") == 0)
        coir_go(scope, leaks, NULL);
    if (strcmp(mode, "overrun") == 0)
        coir_go(scope, overruns, NULL);
    if (strcmp(mode, "race") == 0) {
        one_on(scope, 0, races, NULL);
        one_on(scope, 1, races, NULL);
        coir_sleep_for(COIR_MS);
        coir_channel_close(back);
    } else {
        one_on(scope, 0, counts, there);
        one_on(scope, 1, counts, back);
        coir_channel_send(there, "x");
    }
    int rc = coir_scope_wait(scope);
    coir_channel_free(there);
    coir_channel_free(back);
    return rc;
}

int main(int argc, char **argv)
{
    mode = argc > 1 ? argv[1] : "clean";
    setenv("COIR_WORKERS", "2", 1);
    return coir_main(start, NULL);
}

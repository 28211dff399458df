/* A program whose tasks are parked in known ways, for a debugger: it says "parked" and then waits,
 * or aborts if it was given an argument. */
#include <coir.h>
#include <stdio.h>
#include <stdlib.h>

static coir_channel *numbers;
static coir_mutex mutex = COIR_MUTEX_INIT;
static bool abort_when_parked;

static void go(coir_scope *scope, const char *name, coir_task_fn *fn, void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = name;
    coir_go_with(scope, &options, fn, arg);
}

static __attribute__((noinline)) int sleep_long(int seconds)
{
    volatile int depth = 42;
    int rc = coir_sleep_for(seconds * COIR_S);
    return rc + depth;
}

static int sleeper(void *arg)
{
    (void)arg;
    volatile int rc = sleep_long(1000);
    return rc;
}

static int receiver(void *arg)
{
    uint64_t number = (uint64_t)(size_t)arg;
    return coir_channel_recv(numbers, &number);
}

static int holder(void *arg)
{
    (void)arg;
    coir_mutex_lock(&mutex);
    int rc = coir_sleep_for(COIR_NEVER);
    coir_mutex_unlock(&mutex);
    return rc;
}

static int locker(void *arg)
{
    (void)arg;
    int rc = coir_mutex_lock(&mutex);
    if (rc == 0)
        coir_mutex_unlock(&mutex);
    return rc;
}

/* ---- a chain of futures ---- */

struct inner {
    coir_future future;
    coir_sleep_op pause;
};

static coir_future *inner_poll(coir_future *future)
{
    struct inner *self = coir_frame(future, struct inner);
    COIR_BEGIN(future);
    COIR_AWAIT(future, coir_sleep_for_op(&self->pause, COIR_MS));
    COIR_AWAIT(future, coir_sleep_for_op(&self->pause, 1000 * COIR_S)); /* here */
    COIR_END(future);
}
static const coir_future_kind inner_kind = COIR_FUTURE_KIND("inner", inner_poll, 0);

struct outer {
    coir_future future;
    struct inner inner;
};

static coir_future *outer_poll(coir_future *future)
{
    struct outer *self = coir_frame(future, struct outer);
    COIR_BEGIN(future);
    COIR_AWAIT(future, coir_future_init(&self->inner.future, &inner_kind)); /* there */
    COIR_END(future);
}
static const coir_future_kind outer_kind = COIR_FUTURE_KIND("outer", outer_poll, 0);

/* ---- a generator, and a choice ---- */

static int generate(coir_generator *generator, uint64_t sent, void *arg)
{
    (void)sent, (void)arg;
    coir_generator_yield(generator, 1, NULL);
    volatile int rc = coir_sleep_for(1000 * COIR_S);
    return rc;
}

static int consumer(void *arg)
{
    (void)arg;
    coir_generator *generator;
    if (coir_generator_new(generate, NULL, &generator) < 0)
        return -1;
    uint64_t value;
    while (coir_generator_next(generator, 0, &value) == 1) {
    }
    coir_generator_free(generator);
    return 0;
}

static int chooser(void *arg)
{
    (void)arg;
    uint64_t number;
    coir_case cases[] = {coir_case_recv(numbers, &number), coir_case_after(1000 * COIR_S)};
    return coir_select(cases, 2);
}

static int parent(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    go(scope, "child", sleeper, NULL);
    return coir_scope_wait(scope);
}

static int start(void *arg)
{
    (void)arg;
    if (coir_channel_new(sizeof(uint64_t), 0, &numbers) < 0)
        return -1;
    static struct outer outer;
    COIR_SCOPE(scope);
    go(scope, "sleeper", sleeper, NULL);
    go(scope, "receiver", receiver, (void *)(size_t)7);
    go(scope, "holder", holder, NULL);
    go(scope, "locker", locker, NULL);
    coir_go_future(scope, coir_future_init(&outer.future, &outer_kind));
    go(scope, "consumer", consumer, NULL);
    go(scope, "chooser", chooser, NULL);
    go(scope, "parent", parent, NULL);
    coir_sleep_for(50 * COIR_MS);
    puts("parked");
    fflush(stdout);
    if (abort_when_parked)
        abort();
    return coir_sleep_for(COIR_NEVER);
}

int main(int argc, char **argv)
{
    (void)argv;
    abort_when_parked = argc > 1;
    return coir_main(start, NULL);
}

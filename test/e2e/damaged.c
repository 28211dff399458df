/* A program with what a debugger must get along with: memory that was overwritten, odd names, and
 * more scopes in each other than it can recurse into. It says "parked" and waits. */
#include <coir.h>
#include <stdio.h>
#include <string.h>

enum { CHAIN = 1500 };

static coir_mutex mutex = COIR_MUTEX_INIT;

static void go(coir_scope *scope, const char *name, coir_task_fn *fn, void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = name;
    coir_go_with(scope, &options, fn, arg);
}

static int locker(void *arg)
{
    volatile int rc = coir_mutex_lock(&mutex);
    (void)arg;
    if (rc == 0)
        coir_mutex_unlock(&mutex);
    return rc;
}

/* ---- a scope that is left open by a function that returns ---- */

static __attribute__((noinline)) void leave(void)
{
    coir_scope scope;
    memset(&scope, 0, sizeof scope);
    coir_scope_open(&scope);
    coir_go(&scope, locker, NULL);
}

static __attribute__((noinline)) void overwrite(void)
{
    volatile char bytes[2000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = 0x41;
}

static int leaver(void *arg)
{
    leave();
    overwrite();
    return locker(arg);
}

static int chain(void *arg)
{
    size_t left = (size_t)arg;
    if (left == 0)
        return locker(NULL);
    COIR_SCOPE(scope);
    go(scope, "chain", chain, (void *)(left - 1)); /* NOLINT(performance-no-int-to-ptr) */
    volatile int rc = coir_scope_wait(scope);
    return rc;
}

static int start(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    if (coir_mutex_lock(&mutex) < 0)
        return -1;
    go(scope, "first", locker, NULL);
    go(scope, "leaver", leaver, NULL);
    go(scope, "\xff\xfe\x80", locker, NULL);
    go(scope, "\x1b[31mred\nline", locker, NULL);
    go(scope,
       "gr\xc3\xb6\xc3\x9f"
       "e",
       locker, NULL);
    go(scope, "chain", chain, (void *)(size_t)CHAIN); /* NOLINT(performance-no-int-to-ptr) */
    go(scope, "last", locker, NULL);
    for (int i = 0; i < 2 * CHAIN; i++)
        coir_yield();
    puts("parked");
    fflush(stdout);
    return coir_sleep_for(COIR_NEVER);
}

int main(void)
{
    coir_runtime *runtime;
    coir_config config = COIR_CONFIG;
    if (coir_runtime_new(&config, &runtime) < 0)
        return 1;
    return coir_runtime_run(runtime, start, NULL);
}

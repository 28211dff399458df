/* Dumps itself while a task waits for a lock; test/e2e/dumps links it in every way. */
#include <coir.h>
#include <stdio.h>

static coir_mutex lock = COIR_MUTEX_INIT;

static __attribute__((noinline)) int wait_for_the_lock(void)
{
    int rc = coir_mutex_lock(&lock);
    if (rc == 0)
        coir_mutex_unlock(&lock);
    return rc;
}

static int wait_in_a_task(void *arg)
{
    int rc = wait_for_the_lock();
    return arg ? 1 : rc; /* so that the call above is not the last one */
}

static int start(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    coir_mutex_lock(&lock);
    coir_go(scope, wait_in_a_task, NULL);
    coir_yield();
    int rc = coir_dump(1, COIR_DUMP_TEXT);
    coir_mutex_unlock(&lock);
    int ended = coir_scope_wait(scope);
    return rc < 0 ? rc : ended;
}

int main(void)
{
    return coir_main(start, NULL);
}

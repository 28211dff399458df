/* Deferred callbacks run when the fiber ends, however it ends: here it is cancelled in the
 * middle. */
#include <coir.h>
#include <stdio.h>
#include <stdlib.h>

static void say(void *arg)
{
    printf("cleaning up: %s\n", (const char *)arg);
}

static int work(void *arg)
{
    (void)arg;
    char *memory = malloc(100);
    coir_defer(free, memory);
    coir_defer(say, "registered last, run first");
    int rc = coir_sleep_for(3600 * COIR_S);
    printf("the sleep ended: %s\n", coir_strerror(rc));
    return rc;
}

static int start(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    coir_go(scope, work, NULL);
    coir_sleep_for(10 * COIR_MS);
    coir_scope_cancel(scope);
    return coir_scope_wait(scope);
}

int main(void)
{
    return coir_main(start, NULL);
}

/* Deferred callbacks run when the fiber ends, however it ends: here it is cancelled in the middle. */
#include <coir.h>
#include <stdio.h>
#include <stdlib.h>

struct job {
    coir_deferred free_memory, say_goodbye;
    char *memory;
};

static void say(void *arg)
{
    printf("cleaning up: %s\n", (const char *)arg);
}

static int work(void *arg)
{
    struct job *job = arg; /* outlives the fiber, so the registrations may lie in it */
    job->memory = malloc(100);
    coir_defer(&job->free_memory, free, job->memory);
    coir_defer(&job->say_goodbye, say, "registered last, run first");
    int rc = coir_sleep_for(3600 * COIR_S);
    printf("the sleep ended: %s\n", coir_strerror(rc));
    return rc;
}

static int start(void *arg)
{
    (void)arg;
    struct job job;
    COIR_SCOPE(scope);
    coir_go(scope, work, &job);
    coir_sleep_for(10 * COIR_MS);
    coir_scope_cancel(scope);
    return coir_scope_wait(scope);
}

int main(void)
{
    return coir_main(start, NULL);
}

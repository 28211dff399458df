/* Work that blocks or computes leaves the loop; the fiber comes back on its own worker. Meanwhile
 * others run. */
#include <coir.h>
#include <stdio.h>

struct job {
    unsigned long number, divisor;
};

static int factor(void *arg) /* on a thread of the pool */
{
    struct job *job = arg;
    for (job->divisor = 2; job->number % job->divisor; job->divisor++)
        continue;
    return 0;
}

static int tick(void *arg)
{
    int *ticks = arg, rc;
    while ((rc = coir_sleep_for(1 * COIR_MS)) == 0)
        ++*ticks;
    return rc;
}

static int start(void *arg)
{
    (void)arg;
    struct job job = {1000003UL * 10000019UL, 0};
    int ticks = 0;
    COIR_SCOPE(scope);
    coir_go(scope, tick, &ticks);
    int here = coir_worker_index(), rc = coir_offload(factor, &job);
    printf("%lu is divided by %lu\n", job.number, job.divisor);
    printf("%s\n", coir_worker_index() == here ? "back on the same worker" : "?");
    return rc;
}

int main(void)
{
    return coir_main(start, NULL);
}

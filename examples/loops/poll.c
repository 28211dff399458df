/* Fibers inside of a plain poll loop: it waits for the runtime's descriptor until its next time. */
#include <coir.h>
#include <poll.h>
#include <stdio.h>

static int nap(void *arg)
{
    (void)arg;
    return coir_sleep_for(5 * COIR_MS);
}

/* The first task runs on the host's thread, as worker 0; worker 1 has a thread of its own. */
static int start(void *arg)
{
    for (int i = 1; i <= 3; i++) {
        int rc = nap(arg);
        if (rc < 0 || (rc = coir_call_on(1, nap, arg)) < 0)
            return rc;
        printf("fiber: %d\n", i);
    }
    return 0;
}

/* How long poll may wait: the time is rounded up, as waking too early would be for nothing. */
static int timeout_of(coir_time next)
{
    coir_time now = coir_now();
    if (next == COIR_NEVER)
        return -1;
    return next <= now ? 0 : (int)((next - now + COIR_MS - 1) / COIR_MS);
}

int main(void)
{
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    config.workers = 2;
    if (coir_runtime_new(&config, &runtime) < 0 || coir_runtime_begin(runtime, start, NULL) < 0)
        return 1;
    struct pollfd watched = {.fd = coir_runtime_fd(runtime), .events = POLLIN};
    do
        poll(&watched, 1, timeout_of(coir_runtime_next(runtime)));
    while (coir_runtime_step(runtime));
    int rc = coir_runtime_end(runtime);
    coir_runtime_free(runtime);
    return rc < 0;
}

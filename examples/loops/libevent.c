/* Fibers inside of libevent's loop: an event for the runtime's descriptor, with its next time as
 * the timeout. */
#include <coir.h>
#include <event2/event.h>
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

static coir_runtime *runtime;
static struct event *work, *tick;
static int ticks;

/* Waits for the descriptor, until the next time. The kernel's clock is finer than libevent's: us.
 */
static void arm(void)
{
    coir_time next = coir_runtime_next(runtime), now = coir_now();
    coir_time left = next <= now ? 0 : (next - now + 999) / 1000;
    struct timeval timeout = {left / 1000000, left % 1000000};
    event_add(work, next == COIR_NEVER ? NULL : &timeout);
}

static void on_work(evutil_socket_t fd, short what, void *base)
{
    (void)fd, (void)what;
    if (coir_runtime_step(runtime))
        arm();
    else
        event_base_loopbreak(base);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what, (void)arg;
    ticks++;
}

int main(void)
{
    coir_config config = COIR_CONFIG;
    struct event_base *base = event_base_new();
    config.workers = 2;
    if (coir_runtime_new(&config, &runtime) < 0 || coir_runtime_begin(runtime, start, NULL) < 0)
        return 1;
    work = event_new(base, coir_runtime_fd(runtime), EV_READ, on_work, base);
    tick = event_new(base, -1, EV_PERSIST, on_tick, NULL);
    event_add(tick, &(struct timeval){0, 1000});
    arm();
    event_base_dispatch(base);
    printf("host: its timer ran beside them%s\n", ticks ? "" : " not");
    event_free(tick);
    event_free(work);
    event_base_free(base);
    int rc = coir_runtime_end(runtime);
    coir_runtime_free(runtime);
    return rc < 0;
}

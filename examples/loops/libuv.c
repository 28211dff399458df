/* Fibers inside of libuv's loop: a poll handle for the runtime's descriptor, a timer for its next
 * time. */
#include <coir.h>
#include <stdio.h>
#include <uv.h>

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
static uv_poll_t readable;
static uv_timer_t next_timer, host_timer;
static int ticks;

static void on_time(uv_timer_t *timer);

/* Runs what is ready, and asks for the next time. */
static void step(void)
{
    if (!coir_runtime_step(runtime)) {
        uv_poll_stop(&readable);
        uv_timer_stop(&next_timer);
        uv_timer_stop(&host_timer); /* nothing is left: uv_run returns */
        return;
    }
    coir_time left = coir_runtime_next(runtime) - coir_now(); /* COIR_NEVER: 292 years */
    uv_update_time(uv_default_loop());
    uv_timer_start(&next_timer, on_time,
                   left <= 0 ? 0 : (uint64_t)(left + COIR_MS - 1) / (uint64_t)COIR_MS, 0);
}

static void on_time(uv_timer_t *timer)
{
    if (timer == &host_timer)
        ticks++;
    else
        step();
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)poll, (void)status, (void)events;
    step();
}

int main(void)
{
    coir_config config = COIR_CONFIG;
    uv_loop_t *loop = uv_default_loop();
    config.workers = 2;
    if (coir_runtime_new(&config, &runtime) < 0 || coir_runtime_begin(runtime, start, NULL) < 0)
        return 1;
    uv_poll_init(loop, &readable, coir_runtime_fd(runtime));
    uv_poll_start(&readable, UV_READABLE, on_readable);
    uv_timer_init(loop, &next_timer);
    uv_timer_init(loop, &host_timer);
    uv_timer_start(&host_timer, on_time, 1, 1);
    uv_timer_start(&next_timer, on_time, 0, 0);
    uv_run(loop, UV_RUN_DEFAULT);
    printf("host: its timer ran beside them%s\n", ticks ? "" : " not");
    int rc = coir_runtime_end(runtime);
    coir_runtime_free(runtime);
    return rc < 0;
}

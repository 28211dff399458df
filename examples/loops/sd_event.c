/* Fibers inside of sd-event: a source for the runtime's descriptor, one for its next time. */
#include <coir.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <systemd/sd-event.h>
#include <time.h>

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
static sd_event_source *work, *timer;
static int others; /* what the host did beside them */

/* Runs what is ready, and asks for the next time. */
static int step(sd_event_source *source)
{
    if (!coir_runtime_step(runtime))
        return sd_event_exit(sd_event_source_get_event(source), 0);
    coir_time next = coir_runtime_next(runtime); /* COIR_NEVER: 292 years */
    sd_event_source_set_time(timer, (uint64_t)next / 1000 + 1);
    return sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
}

static int on_readable(sd_event_source *source, int fd, uint32_t events, void *arg)
{
    (void)fd, (void)events, (void)arg;
    return step(source);
}

static int on_time(sd_event_source *source, uint64_t time, void *arg)
{
    (void)time, (void)arg;
    return step(source);
}

static int on_host(sd_event_source *source, void *arg)
{
    (void)source, (void)arg;
    others++;
    return 0;
}

int main(void)
{
    coir_config config = COIR_CONFIG;
    sd_event *event;
    config.workers = 2;
    if (coir_runtime_new(&config, &runtime) < 0 || coir_runtime_begin(runtime, start, NULL) < 0)
        return 1;
    if (sd_event_new(&event) < 0 ||
        sd_event_add_io(event, &work, coir_runtime_fd(runtime), EPOLLIN, on_readable, NULL) < 0 ||
        sd_event_add_time(event, &timer, CLOCK_MONOTONIC, 0, 1, on_time, NULL) < 0 ||
        sd_event_add_defer(event, NULL, on_host, NULL) < 0)
        return 1;
    sd_event_loop(event);
    printf("host: it %s its own work\n", others ? "did" : "did not do");
    sd_event_source_unref(work);
    sd_event_source_unref(timer);
    sd_event_unref(event);
    int rc = coir_runtime_end(runtime);
    coir_runtime_free(runtime);
    return rc < 0;
}

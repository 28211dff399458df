/* Only the loop, with callbacks, for programs that want no more. */
#include <coir/loop.h>
#include <stdio.h>
#include <unistd.h>

static int ends[2];

static void on_readable(coir_loop *loop, coir_watch *watch, int events, void *arg)
{
    (void)arg;
    (void)events;
    char text[32];
    ssize_t n = read(ends[0], text, sizeof text);
    printf("read: %.*s\n", (int)n, text);
    coir_watch_stop(loop, watch); /* nothing is left: the loop returns */
}

static void on_timeout(coir_loop *loop, coir_timer *timer, void *arg)
{
    (void)timer;
    printf("%s\n", (const char *)arg);
    if (write(ends[1], "a message", 9) < 0)
        coir_loop_stop(loop);
}

int main(void)
{
    coir_loop *loop;
    coir_watch watch = {{0}};
    coir_timer timer = {{0}};
    if (pipe(ends) < 0 || coir_loop_new(&loop) < 0)
        return 1;
    coir_watch_start(loop, &watch, ends[0], COIR_READ, on_readable, NULL);
    coir_timer_start(loop, &timer, 5 * COIR_MS, on_timeout, "five milliseconds have passed");
    int rc = coir_loop_run(loop);
    coir_loop_free(loop);
    return rc < 0;
}

/* Only the poller: which of several descriptors are ready, and something of the program's own that
 * another thread makes ready. */
#include <coir.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { PIPE = 1, RESULT = 2 };

static coir_source result;
static int ends[2];

static void *compute(void *arg)
{
    (void)arg;
    ssize_t n = write(ends[1], "begun", 5);
    coir_source_set(&result, n == 5 ? COIR_READ : COIR_EVENT_ERROR);
    return NULL;
}

int main(void)
{
    coir_poller *poller;
    coir_poller_event events[8];
    pthread_t thread;
    if (pipe(ends) < 0 || coir_poller_new(&poller) < 0)
        return 1;
    coir_poller_add(poller, ends[0], PIPE, COIR_READ | COIR_EDGE);
    coir_source_add(&result, poller, RESULT);
    pthread_create(&thread, NULL, compute, NULL);
    int seen = 0;
    while (seen != (PIPE | RESULT)) {
        int n = coir_poller_wait(poller, events, 8, coir_in(10 * COIR_S));
        if (n <= 0)
            return 1;
        for (int i = 0; i < n; i++)
            seen |= (int)events[i].token;
    }
    char text[16];
    ssize_t len = read(ends[0], text, sizeof text);
    printf("the pipe says: %.*s; the thread has ended its work\n", (int)len, text);
    pthread_join(thread, NULL);
    coir_source_remove(&result);
    coir_poller_remove(poller, ends[0]);
    coir_poller_free(poller);
    return 0;
}

/* What libuv has of the operations of bench/micro.c: messages to a loop's thread, and timers. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

enum { MESSAGES = 1000000, ROUNDS = 9 };

static uv_loop_t loop;
static uv_async_t async;
static uv_mutex_t lock;
static struct message {
    struct message *next;
} * first, **last = &first;
static int received;

static double now(void)
{
    return (double)uv_hrtime();
}

static void on_async(uv_async_t *handle)
{
    uv_mutex_lock(&lock);
    struct message *message = first;
    first = NULL;
    last = &first;
    uv_mutex_unlock(&lock);
    while (message) {
        struct message *next = message->next;
        free(message);
        message = next;
        received++;
    }
    if (received == MESSAGES)
        uv_close((uv_handle_t *)handle, NULL);
}

static void *run_loop(void *arg)
{
    uv_run(&loop, UV_RUN_DEFAULT);
    return arg;
}

static double messages(void)
{
    pthread_t thread;
    received = 0;
    uv_loop_init(&loop);
    uv_mutex_init(&lock);
    uv_async_init(&loop, &async, on_async);
    pthread_create(&thread, NULL, run_loop, NULL);
    double start = now();
    for (int i = 0; i < MESSAGES; i++) {
        struct message *message = malloc(sizeof *message);
        message->next = NULL;
        uv_mutex_lock(&lock);
        *last = message;
        last = &message->next;
        uv_mutex_unlock(&lock);
        uv_async_send(&async);
    }
    pthread_join(thread, NULL);
    double result = (now() - start) / MESSAGES;
    uv_loop_close(&loop);
    uv_mutex_destroy(&lock);
    return result;
}

static void on_timer(uv_timer_t *timer)
{
    (void)timer;
}

static double timers(void)
{
    static uv_timer_t all[64];
    uv_loop_init(&loop);
    for (int i = 0; i < 64; i++)
        uv_timer_init(&loop, &all[i]);
    double start = now();
    for (int i = 0; i < MESSAGES; i++) {
        uv_timer_start(&all[i % 64], on_timer, (uint64_t)i * 7919 % 10000, 0);
        uv_timer_stop(&all[i % 64]);
    }
    double result = (now() - start) / MESSAGES;
    for (int i = 0; i < 64; i++)
        uv_close((uv_handle_t *)&all[i], NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    return result;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const char *name, double (*round)(void))
{
    double results[ROUNDS];
    round();
    for (int i = 0; i < ROUNDS; i++)
        results[i] = round();
    qsort(results, ROUNDS, sizeof *results, compare);
    printf("%-46s %8.1f   (%.1f to %.1f)\n", name, results[ROUNDS / 2], results[0],
           results[ROUNDS - 1]);
}

int main(void)
{
    measure("timer start + stop, warm", timers);
    measure("messages from thread to loop", messages);
    return 0;
}

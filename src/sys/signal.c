#include "sys/signal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

#include "base/atomic.h"
#include "sys/call.h"
#include "sys/lock.h"

static const int watched[] = {SIGINT, SIGTERM};
static struct sigaction before[ci_countof(watched)];
static ci_signal_fn *stop;
static void *stop_arg;

static void on_signal(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    ci_signal_fn *fn = ci_load(&stop);
    if (fn)
        fn(stop_arg);
    for (size_t i = 0; i < ci_countof(watched); i++) {
        if (watched[i] != number)
            continue;
        if (before[i].sa_flags & SA_SIGINFO)
            before[i].sa_sigaction(number, info, context);
        else if (before[i].sa_handler != SIG_DFL && before[i].sa_handler != SIG_IGN)
            before[i].sa_handler(number);
    }
    errno = saved;
}

void ci_signal_watch(ci_signal_fn *fn, void *arg)
{
    if (ci_load(&stop))
        return;
    stop_arg = arg;
    ci_store(&stop, fn);
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK | (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < ci_countof(watched); i++)
        sigaction(watched[i], &action, &before[i]);
}

void ci_signal_unwatch(void)
{
    if (!ci_load(&stop))
        return;
    for (size_t i = 0; i < ci_countof(watched); i++)
        sigaction(watched[i], &before[i], NULL);
    ci_store(&stop, NULL);
}

/* ---- sinks ---- */

enum { SINKS = 32, SIGNALS = 64 };
static struct ci_signal_sink *sinks[SINKS];
static struct sigaction chained[SIGNALS];
static bool caught[SIGNALS];
static int32_t inside; /* handlers that look at the sinks */
static pthread_mutex_t attach_lock = PTHREAD_MUTEX_INITIALIZER;

static void on_caught(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    uint64_t bit = (uint64_t)1 << number;
    ci_fetch_add(&inside, 1);
    for (int i = 0; i < SINKS; i++) {
        struct ci_signal_sink *sink = ci_load(&sinks[i]);
        if (sink && sink->wanted & bit && !(ci_fetch_or(&sink->pending, bit) & bit))
            ci_sys_eventfd_add(sink->eventfd);
    }
    ci_fetch_sub(&inside, 1);
    const struct sigaction *next = &chained[number];
    if (next->sa_flags & SA_SIGINFO)
        next->sa_sigaction(number, info, context);
    else if (next->sa_handler != SIG_DFL && next->sa_handler != SIG_IGN)
        next->sa_handler(number);
    errno = saved;
}

static int catch_signal(int number)
{
    struct sigaction action = {.sa_sigaction = on_caught, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    if (caught[number])
        return 0;
    if (sigaction(number, &action, &chained[number]) < 0)
        return -errno;
    caught[number] = true;
    return 0;
}

static bool is_wanted(int number)
{
    for (int i = 0; i < SINKS; i++)
        if (sinks[i] && sinks[i]->wanted >> number & 1)
            return true;
    return false;
}

/* Puts the handler back that was there, unless somebody has put another one in our place. */
static void let_go(int number)
{
    struct sigaction current;
    if (!caught[number] || is_wanted(number) || sigaction(number, NULL, &current) < 0 || current.sa_sigaction != on_caught)
        return;
    sigaction(number, &chained[number], NULL);
    caught[number] = false;
}

int ci_signal_attach(struct ci_signal_sink *sink)
{
    int rc = 0, place = 0;
    pthread_mutex_lock(&attach_lock);
    while (place < SINKS && sinks[place])
        place++;
    if (place == SINKS)
        rc = -ENOBUFS;
    for (int number = 1; rc == 0 && number < SIGNALS; number++)
        if (sink->wanted >> number & 1)
            rc = catch_signal(number);
    if (rc == 0)
        ci_store(&sinks[place], sink);
    pthread_mutex_unlock(&attach_lock);
    return rc;
}

void ci_signal_detach(struct ci_signal_sink *sink)
{
    pthread_mutex_lock(&attach_lock);
    for (int i = 0; i < SINKS; i++)
        if (sinks[i] == sink)
            ci_store(&sinks[i], NULL);
    for (int number = 1; number < SIGNALS; number++)
        if (sink->wanted >> number & 1)
            let_go(number);
    for (unsigned round = 0; ci_load(&inside); round++)
        ci_pause(round);
    pthread_mutex_unlock(&attach_lock);
}

void ci_signal_block_pipe(struct ci_signal_mask *ret_before)
{
    sigset_t pipe, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    ret_before->was_pending = sigismember(&pending, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &ret_before->mask);
}

void ci_signal_restore(const struct ci_signal_mask *saved)
{
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    while (!saved->was_pending && sigtimedwait(&pipe, NULL, &(struct timespec){0, 0}) == SIGPIPE)
        continue;
    pthread_sigmask(SIG_SETMASK, &saved->mask, NULL);
}

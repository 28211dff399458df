#include "sys/signal.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

#include "base/atomic.h"

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
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART | (int)SA_RESETHAND};
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

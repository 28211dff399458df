/* The handler that stands for SIG_DFL calls the guards, then gives the signal its default effect.
 */
#include "sys/signal_default.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "base/atomic.h"
#include "sys/fork.h"
#include "sys/lock.h"

enum { GUARDED_SIGNALS = 32 }; /* without those of real time */

static struct ci_signal_guard *guards; /* a list: handlers follow it */
static int32_t inside;                 /* how many are following it */

static void on_default(int number, siginfo_t *info, void *context);

bool ci_signal_is_default(const struct sigaction *action)
{
    return action->sa_handler == SIG_DFL ||
           (action->sa_flags & SA_SIGINFO && action->sa_sigaction == on_default);
}

static bool has_no_effect(int number)
{
    return number == SIGCHLD || number == SIGURG || number == SIGWINCH;
}

/* Whether the default effect ends or stops the process, or lets it go on. */
static bool is_guarded(int number)
{
    switch (number) {
    case SIGKILL:
    case SIGSTOP:
    case SIGTTIN: /* a process in the background has nothing to put in order */
    case SIGTTOU: return false;
    default: return number < GUARDED_SIGNALS && !has_no_effect(number);
    }
}

void ci_signal_put_default(int number)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigemptyset(&action.sa_mask);
    if (ci_load(&guards) && is_guarded(number)) {
        action.sa_sigaction = on_default;
        action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    }
    sigaction(number, &action, NULL);
}

/* ---- calling the guards ---- */

void ci_signal_leave(void)
{
    if (ci_forked())
        return;
    ci_fetch_add(&inside, 1);
    for (const struct ci_signal_guard *guard = ci_load(&guards); guard;
         guard = ci_load(&guard->next))
        guard->leave(guard->arg);
    ci_fetch_sub(&inside, 1);
}

void ci_signal_resume(void)
{
    if (ci_forked())
        return;
    ci_fetch_add(&inside, 1);
    for (const struct ci_signal_guard *guard = ci_load(&guards); guard;
         guard = ci_load(&guard->next))
        guard->resume(guard->arg);
    ci_fetch_sub(&inside, 1);
}

/* ---- the handler ---- */

/* Whether an instruction has raised the signal, and will do so again when the handler returns. */
static bool is_fault(int number, const siginfo_t *info)
{
    bool may_be = number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE;
    return may_be && info->si_code > 0;
}

void ci_signal_take_default(int number, const siginfo_t *info)
{
    sigset_t only;
    ci_signal_leave();
    signal(number, SIG_DFL);
    if (is_fault(number, info)) /* a core file shows the instruction then */
        return;
    sigemptyset(&only);
    sigaddset(&only, number);
    raise(number);
    pthread_sigmask(SIG_UNBLOCK, &only, NULL);
}

void ci_signal_do_default(int number, const siginfo_t *info)
{
    if (number == SIGCONT)
        ci_signal_resume();
    if (number == SIGCONT || has_no_effect(number))
        return;
    ci_signal_take_default(number, info);
    if (is_fault(number, info))
        return;
    /* It goes on: SIGTSTP may not have stopped it, and the kernel spares the first process of a
     * container. */
    ci_signal_put_default(number);
    ci_signal_resume();
}

static void on_default(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    (void)context;
    ci_signal_do_default(number, info);
    errno = saved;
}

/* ---- adding and removing ---- */

/* After the first guard was added, or the last one removed. */
static void put_all(void)
{
    struct sigaction now;
    for (int number = 1; number < GUARDED_SIGNALS; number++)
        if (is_guarded(number) && sigaction(number, NULL, &now) == 0 && ci_signal_is_default(&now))
            ci_signal_put_default(number);
}

int ci_signal_add_guard(struct ci_signal_guard *guard)
{
    static bool at_exit;
    if (!at_exit && atexit(ci_signal_leave) != 0)
        return -ENOMEM;
    at_exit = true;
    guard->next = guards;
    ci_store(&guards, guard);
    put_all();
    return 0;
}

void ci_signal_remove_guard(struct ci_signal_guard *guard)
{
    struct ci_signal_guard **at = &guards;
    while (*at && *at != guard)
        at = &(*at)->next;
    if (*at)
        ci_store(at, guard->next);
    if (!guards)
        put_all();
    for (unsigned round = 0; ci_load(&inside); round++) /* from here on no handler uses it */
        ci_pause(round);
}

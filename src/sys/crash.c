/* The handler of fatal signals. It is left in the chain if the program has installed one in front
 * of it, which may call it.
 *
 * A thread that crashes while another calls the watches waits for that one, since its own end would
 * end the process.
 */
#include "sys/crash.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>

#include "base/atomic.h"
#include "sys/fork.h"
#include "sys/lock.h"
#include "sys/signal.h"

static struct fatal {
    int number;
    struct sigaction before;
    bool installed;
} signals[] = {{.number = SIGSEGV}, {.number = SIGBUS}, {.number = SIGILL},
               {.number = SIGFPE},  {.number = SIGSYS}, {.number = SIGABRT}};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for writers; handlers do without it */
static struct ci_crash_watch *watches;                   /* a list: handlers follow it */
static int32_t inside;                                   /* how many are following it */
static int32_t crash_state;
enum { NOT_CRASHED, TELLS, TOLD };
static CI_THREAD_LOCAL bool tells_here;

static void tell(const char *what)
{
    int32_t none = NOT_CRASHED;
    if (ci_compare_exchange(&crash_state, &none, TELLS)) {
        struct ci_signal_mask before;
        ci_signal_block_write(&before); /* a watch that cannot write is no other way to die */
        tells_here = true;
        for (struct ci_crash_watch *watch = ci_load(&watches); watch; watch = ci_load(&watch->next))
            watch->fn(watch, what);
        tells_here = false;
        ci_signal_restore(&before);
        ci_store(&crash_state, TOLD);
        return;
    }
    for (unsigned round = 0; !tells_here && ci_load(&crash_state) == TELLS; round++)
        ci_pause(round);
}

/* Calls a handler as the kernel would. */
static void call_handler(const struct sigaction *action, int number, siginfo_t *info, void *context)
{
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, &action->sa_mask, &mask);
    if (action->sa_flags & SA_SIGINFO)
        action->sa_sigaction(number, info, context);
    else
        action->sa_handler(number);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

/* What would happen without this handler. A fault cannot be ignored: the instruction would raise it
 * again for ever. */
static void pass_on(const struct fatal *fatal, siginfo_t *info, void *context)
{
    const struct sigaction *before = &fatal->before;
    bool ignored =
        before->sa_handler == SIG_IGN && (info->si_code <= 0 || fatal->number == SIGABRT);
    if (!(before->sa_flags & SA_SIGINFO) && ignored)
        return;
    if (!(before->sa_flags & SA_SIGINFO) &&
        (before->sa_handler == SIG_DFL || before->sa_handler == SIG_IGN))
        ci_signal_take_default(fatal->number, info);
    else
        call_handler(before, fatal->number, info, context);
}

static void on_fatal(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    const struct fatal *fatal = signals;
    while (fatal->number != number)
        fatal++;
    ci_fetch_add(&inside, 1);
    if (!ci_forked())
        tell(ci_crash_name(number));
    ci_fetch_sub(&inside, 1);
    errno = saved;
    pass_on(fatal, info, context);
}

static void install(struct fatal *fatal)
{
    struct sigaction action = {.sa_sigaction = on_fatal,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    if (fatal->installed || sigaction(fatal->number, NULL, &fatal->before) < 0)
        return;
    fatal->installed = sigaction(fatal->number, &action, NULL) == 0;
}

static void uninstall(struct fatal *fatal)
{
    struct sigaction now;
    if (!fatal->installed || sigaction(fatal->number, NULL, &now) < 0 ||
        !(now.sa_flags & SA_SIGINFO) || now.sa_sigaction != on_fatal)
        return;
    sigaction(fatal->number, &fatal->before, NULL);
    fatal->installed = false;
}

void ci_crash_watch_add(struct ci_crash_watch *watch)
{
    pthread_mutex_lock(&lock);
    watch->next = watches;
    ci_store(&watches, watch);
    for (size_t i = 0; i < ci_countof(signals); i++)
        install(&signals[i]);
    pthread_mutex_unlock(&lock);
}

void ci_crash_watch_remove(struct ci_crash_watch *watch)
{
    pthread_mutex_lock(&lock);
    struct ci_crash_watch **at = &watches;
    while (*at != watch)
        at = &(*at)->next;
    ci_store(at, watch->next);
    for (size_t i = 0; !watches && i < ci_countof(signals); i++)
        uninstall(&signals[i]);
    for (unsigned round = 0; ci_load(&inside); round++)
        ci_pause(round);
    pthread_mutex_unlock(&lock);
}

#include "sys/quit.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>

#include "base/atomic.h"
#include "sys/fork.h"
#include "sys/signal.h"

static sem_t came;
static bool stopped;

static void on_quit(int number)
{
    int error = errno;
    if (ci_forked()) /* the thread that waits is the parent's */
        ci_signal_take_default(number, NULL);
    else
        sem_post(&came);
    errno = error;
}

bool ci_quit_begin(void)
{
    struct sigaction action = {.sa_handler = on_quit, .sa_flags = SA_RESTART | SA_ONSTACK}, now;
    if (sigaction(SIGQUIT, NULL, &now) < 0 || now.sa_flags & SA_SIGINFO ||
        now.sa_handler != SIG_DFL)
        return false;
    sigemptyset(&action.sa_mask);
    stopped = false;
    return sem_init(&came, 0, 0) == 0 && sigaction(SIGQUIT, &action, NULL) == 0;
}

bool ci_quit_wait(void)
{
    while (sem_wait(&came) < 0 && errno == EINTR)
        continue;
    return !ci_load(&stopped); /* pairs with the store in ci_quit_stop */
}

void ci_quit_stop(void)
{
    ci_store(&stopped, true); /* pairs with the load in ci_quit_wait */
    sem_post(&came);
}

/* The semaphore stays: the program may have kept our handler behind its own. */
void ci_quit_end(void)
{
    struct sigaction now;
    if (sigaction(SIGQUIT, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
        now.sa_handler == on_quit)
        signal(SIGQUIT, SIG_DFL);
}

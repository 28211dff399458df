/* sys/quit.h: SIGQUIT of a simulated process (ci_ksignal_raise), for the thread that waits for it.
 */
#include "sys/quit.h"

#include "sim/kernel/kernel.h"

bool ci_quit_begin(void)
{
    struct ci_kprocess *process = ci_k.process;
    ci_kcall();
    if (process->quits.awaited)
        return false;
    process->quits.awaited = true;
    process->quits.stopped = false;
    process->quits.came = 0;
    return true;
}

static bool has_come(void *arg)
{
    return ((const struct ci_kprocess *)arg)->quits.came;
}

bool ci_quit_wait(void)
{
    struct ci_kprocess *process = ci_k.process;
    ci_kcall();
    ci_kthread_wait("SIGQUIT", -1, has_come, process, COIR_NEVER);
    process->quits.came--;
    return !process->quits.stopped;
}

void ci_quit_stop(void)
{
    ci_k.process->quits.stopped = true;
    ci_k.process->quits.came++;
}

void ci_quit_end(void)
{
    ci_kcall();
    ci_k.process->quits.awaited = false;
}

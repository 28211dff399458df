/* sys/crash.h: a simulated process that gets a fatal signal (ci_kcrash) goes on afterwards, as one
 * with a handler of its own does. Real signals of this kind are failures of the seed. */
#include "sys/crash.h"

#include "sim/kernel/kernel.h"
#include "sys/lock.h"

void ci_crash_watch_add(struct ci_crash_watch *watch)
{
    ci_kcall();
    watch->next = ci_k.process->crash_watches;
    ci_k.process->crash_watches = watch;
}

void ci_crash_watch_remove(struct ci_crash_watch *watch)
{
    struct ci_crash_watch **at = &ci_k.process->crash_watches;
    while (*at != watch)
        at = &(*at)->next;
    *at = watch->next;
    while (ci_k.process->crashing)
        ci_pause(0);
}

bool ci_kcrash(int number)
{
    struct ci_kprocess *process = ci_k.process;
    const char *what = ci_crash_name(number);
    if (!what || !process->crash_watches)
        return false;
    while (process->crashing) /* a thread that tells may end the process */
        ci_pause(0);
    if (process->crashed)
        return true;
    process->crashed = process->crashing = true;
    for (struct ci_crash_watch *watch = process->crash_watches; watch; watch = watch->next)
        watch->fn(watch, what);
    process->crashing = false;
    return true;
}

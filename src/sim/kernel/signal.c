/* sys/signal.h: a process of the simulated world gets the signals that ci_ksignal_raise sends it;
 * none come from outside. */
#include "sys/signal.h"

#include <errno.h>

#include "sim/kernel/kernel.h"
#include "sys/call.h"

void ci_signal_watch(struct ci_signal_stop *stop)
{
    stop->next = ci_k.process->stops;
    ci_k.process->stops = stop;
}

void ci_signal_unwatch(struct ci_signal_stop *stop)
{
    struct ci_signal_stop **at = &ci_k.process->stops;
    while (*at && *at != stop)
        at = &(*at)->next;
    if (*at)
        *at = stop->next;
}

int ci_signal_attach(struct ci_signal_sink *sink)
{
    struct ci_kprocess *process = ci_k.process;
    if (sink->wanted & ((uint64_t)1 << SIGKILL | (uint64_t)1 << SIGSTOP))
        return -EINVAL;
    for (size_t i = 0; i < CI_KSINKS; i++)
        if (!process->sinks[i]) {
            process->sinks[i] = sink;
            return 0;
        }
    return -ENOBUFS;
}

void ci_signal_detach(struct ci_signal_sink *sink)
{
    for (size_t i = 0; i < CI_KSINKS; i++)
        if (ci_k.process->sinks[i] == sink)
            ci_k.process->sinks[i] = NULL;
}

/* Runs as the process: ci_kprocess_as. Events do it too, so it makes no system call. */
void ci_ksignal_raise(struct ci_kprocess *process, int number)
{
    uint64_t bit = (uint64_t)1 << number, one = 1;
    for (size_t i = 0; i < CI_KSINKS; i++) {
        struct ci_signal_sink *sink = process->sinks[i];
        struct ci_kfile *eventfd = sink ? ci_kfd_find(sink->eventfd) : NULL;
        if (eventfd && sink->wanted & bit && ci_signal_count(sink, number))
            eventfd->type->write(eventfd, &(struct iovec){&one, sizeof one}, 1);
    }
    process->quits.came += number == SIGQUIT && process->quits.awaited;
    for (const struct ci_signal_stop *stop = process->stops;
         stop && (number == SIGINT || number == SIGTERM); stop = stop->next)
        stop->fn(stop->arg);
}

/* Only terminals have guards. */
void ci_signal_leave(void)
{
}

void ci_signal_take_default(int number, const siginfo_t *info)
{
    (void)info;
    signal(number, SIG_DFL); /* a crash of the simulator itself */
}

void ci_signal_block_pipe(struct ci_signal_mask *ret_before)
{
    *ret_before = (struct ci_signal_mask){0};
}

void ci_signal_block_write(struct ci_signal_mask *ret_before)
{
    ci_signal_block_pipe(ret_before);
}

void ci_signal_restore(const struct ci_signal_mask *saved)
{
    (void)saved;
}

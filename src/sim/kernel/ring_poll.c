/* How a simulated ring's requests wait for files: poll.c of Linux 6.1 to 6.18.
 *
 * - A wake-up that names only events that were not requested is ignored. Errors, hang-ups and the
 *   peer's end are always requested (IO_POLL_UNMASK).
 * - If an event holds already, a single poll completes at once; a multishot poll reports it by task
 *   work (__io_arm_poll_handler).
 */
#include <errno.h>

#include "sim/kernel/ring.h"

static const unsigned always = POLLERR | POLLHUP | POLLNVAL | POLLRDHUP;

static bool wake(struct ci_kwaiter *waiter, unsigned key)
{
    struct ci_krequest *request = ci_container_of(waiter, struct ci_krequest, waiter);
    if (key && !(key & request->events & ~(unsigned)POLLPRI))
        return false;
    if (request->wakes++)
        return true;
    if (key && !request->multi)
        ci_kwaiter_remove(waiter);
    request->mask = key;
    ci_kring_queue_work(request);
    return true;
}

bool ci_kring_poll_arm(struct ci_krequest *request, unsigned events, unsigned *ret_mask)
{
    request->events = events | always;
    request->wakes = request->mask = 0;
    *ret_mask = ci_kfile_poll(request->file) & request->events;
    if (!request->file->type->poll)
        return false;
    request->waiter =
        (struct ci_kwaiter){.wake = wake, .exclusive = request->opcode == IORING_OP_ACCEPT};
    ci_kwaiter_add(&request->waiter, request->file);
    ci_krequest_enter(request, CI_KREQUEST_POLLING);
    if (*ret_mask && request->multi) {
        request->wakes = 1;
        request->mask = *ret_mask;
        ci_kring_queue_work(request);
    }
    return true;
}

enum ci_kring_try ci_kring_poll_add(struct ci_krequest *request)
{
    unsigned mask;
    bool armed = ci_kring_poll_arm(request, (unsigned)request->flags, &mask);
    if (armed && (!mask || request->multi))
        return CI_KRING_WAITS;
    request->result = mask ? (int)mask : -EINVAL;
    return CI_KRING_DONE;
}

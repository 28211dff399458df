/* How a simulated ring's requests wait for files: poll.c of Linux 6.1 to 6.18.
 *
 * 1. A wake-up that names events which are not asked for is none. Errors, hang-ups and the peer's
 * end are always asked for (IO_POLL_UNMASK).
 * 2. The first wake-up's events are kept, and believed when task work runs (io_poll_check_events):
 * they may not hold any more. After more than one, or one that names none, the file is asked.
 * 3. A poll that ends with its first event ends at once where an event holds already; one that goes
 * on is told of it by task work (__io_arm_poll_handler).
 */
#include <errno.h>

#include "sim/kernel/ring.h"

enum { TRIES = 128 }; /* APOLL_MAX_RETRY, since 6.3 and 6.1.15; before, one */
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

/* *ret_mask: what holds already. False: the file cannot be polled. */
static bool arm(struct ci_krequest *request, unsigned events, unsigned *ret_mask)
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

void ci_kring_poll_disarm(struct ci_krequest *request)
{
    ci_kwaiter_remove(&request->waiter);
}

enum ci_kring_try ci_kring_poll_add(struct ci_krequest *request)
{
    unsigned mask;
    bool armed = arm(request, (unsigned)request->flags, &mask);
    if (armed && (!mask || request->multi))
        return CI_KRING_WAITS;
    request->result = mask ? (int)mask : -EINVAL;
    return CI_KRING_DONE;
}

static void try_again(struct ci_krequest *request)
{
    ci_krequest_enter(request, CI_KREQUEST_RETRYING);
    ci_kring_queue_work(request);
}

/* A request that goes on by itself waits for as long as it lives, and a connect is under way only
 * once. */
static bool has_tried_enough(const struct ci_krequest *request)
{
    int most = ci_kring_traits.version >= 1 ? TRIES : 1;
    if (request->multi || request->opcode == IORING_OP_CONNECT || !request->polled)
        return false;
    return (request->tries >= most && !(most == 1 && request->done)) ||
           ci_kone_in(ci_kring_traits.worker_one_in);
}

/* io_arm_poll_handler */
void ci_kring_wait_for_file(struct ci_krequest *request)
{
    unsigned events = ci_kring_poll_events(request), mask = 0;
    if (!events || !request->file->type->poll || has_tried_enough(request)) {
        ci_kring_worker_queue(request);
        return;
    }
    request->polled = true;
    request->tries++;
    bool connects = request->opcode == IORING_OP_CONNECT;
    if (!request->multi && !connects && ci_kone_in(ci_kring_traits.race_one_in)) {
        /* ready for a moment */
        try_again(request);
        return;
    }
    arm(request, events | POLLPRI | POLLERR, &mask);
    if (mask && !request->multi) {
        ci_kring_poll_disarm(request);
        try_again(request);
    }
}

/* An event of a poll that goes on. False: the request has ended. */
static bool tell(struct ci_krequest *request)
{
    if (request->opcode == IORING_OP_POLL_ADD) {
        request->result = (int32_t)request->mask;
        request->cqe_flags = 0;
        if (!ci_kone_in(ci_kring_traits.cut_one_in) &&
            ci_kring_post_more(request->ring, request->name, request->result, 0))
            return true;
        request->failed = true; /* there is no room: it ends */
        ci_krequest_end(request);
        return false;
    }
    enum ci_kring_try outcome = ci_kring_perform(request, CI_KRING_POLL);
    if (outcome == CI_KRING_DONE)
        ci_krequest_end(request);
    if (outcome == CI_KRING_AGAIN) { /* IOU_REQUEUE */
        request->wakes = 1;
        request->mask = 0;
        ci_kring_queue_work(request);
    }
    return outcome == CI_KRING_WAITS;
}

/* IOU_POLL_REISSUE: tried again for nothing, it then waits as the newest. */
static void reissue(struct ci_krequest *request)
{
    ci_kring_poll_disarm(request);
    request->state = CI_KREQUEST_TRYING;
    ci_krequest_try(request, CI_KRING_SUBMIT);
}

static void end_poll(struct ci_krequest *request)
{
    ci_kring_poll_disarm(request);
    if (request->opcode == IORING_OP_POLL_ADD) {
        request->result = (int32_t)request->mask;
        ci_krequest_end(request);
    } else {
        reissue(request);
    }
}

/* io_poll_check_events */
void ci_kring_poll_work(struct ci_krequest *request)
{
    unsigned wakes;
    if (request->cancelled) {
        ci_krequest_fail(request, -ECANCELED);
        return;
    }
    do {
        wakes = request->wakes;
        if (wakes != 1 || !request->mask)
            request->mask = ci_kfile_poll(request->file);
        request->mask &= request->events;
        if (!request->mask && !request->multi && ci_kring_traits.version >= 3) {
            reissue(request);
            return;
        }
        if (request->mask && !request->multi) {
            end_poll(request);
            return;
        }
        bool looks_again = wakes != 1 && request->mask & (POLLHUP | POLLRDHUP) &&
                           request->opcode != IORING_OP_POLL_ADD;
        if (looks_again && ci_kring_traits.version >= 18)
            wakes--; /* the end may have come with bytes */
        if (request->mask && !tell(request))
            return;
        request->mask = 0;
        request->wakes -= wakes;
    } while (request->wakes);
}

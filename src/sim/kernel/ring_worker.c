/* Threads of the simulated kernel that carry out requests on files that cannot be polled, or that
 * polls did not complete: io-wq.c and io_wq_submit_work of Linux 6.1.
 *
 * - Operations may sleep there, except those that honour O_NONBLOCK (connect, accept, sendmsg,
 *   recvmsg).
 * - A request that has not begun is cancelled at once. One that runs is sent a signal, and the
 *   cancel returns -EALREADY: it ends with -EINTR if it waits for a file to be ready; disk
 *   operations run to their end.
 * - Its completion is posted by task work.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/kernel/ring.h"

enum { REFUSALS_MOST = 1000 }; /* in a row */
static const coir_time begin_most = 30 * COIR_US, wake_most = 10 * COIR_US;
static const coir_time pause_least = COIR_MS; /* between refusals that are not of one row */

static void carry_on(void *arg, size_t serial);

/* Wakes the kernel thread that waits for a file. */
static bool wake(struct ci_kwaiter *waiter, unsigned key)
{
    struct ci_krequest *request = ci_container_of(waiter, struct ci_krequest, waiter);
    if (key && !(key & request->events))
        return false;
    ci_kwaiter_remove(waiter);
    ci_kschedule(ci_kafter((uint64_t)wake_most), carry_on, request, request->serial);
    return true;
}

static void sleep_for_file(struct ci_krequest *request)
{
    request->events = ci_kring_poll_events(request) | POLLERR | POLLHUP;
    request->waiter = (struct ci_kwaiter){.wake = wake};
    ci_kwaiter_add(&request->waiter, request->file);
    if (ci_kfile_poll(request->file) & request->events)
        wake(&request->waiter, 0);
}

/* A program that submits again at once what was refused sleeps a little in between each time, so
 * that nothing else notices that it spins. */
static void refuse(struct ci_krequest *request)
{
    struct ci_kring *ring = request->ring;
    if (ci_know() - ring->refused_at > pause_least) /* it has waited for something else */
        ring->refusals = 0;
    ring->refused_at = ci_know();
    if (++ring->refusals > REFUSALS_MOST && ci_k.settings.awake_most) {
        fprintf(stderr,
                "%s.%d spins: %u requests of its ring were refused, and none was carried out\n",
                ring->process->node->name, ring->owner, ring->refusals);
        abort();
    }
    ci_krequest_finish_with(request, -EAGAIN);
}

static void try_it(struct ci_krequest *request)
{
    enum ci_kring_try outcome = ci_kring_perform(request, CI_KRING_WORKER);
    if (outcome == CI_KRING_DONE) {
        request->ring->refusals = 0;
        ci_krequest_finish(request);
    } else if (request->cancelled) {
        ci_krequest_finish_with(request, -EINTR);
    } else if (!ci_kring_poll_events(request) ||
               (ci_kring_heeds_nonblock(request) && !request->file->blocking)) {
        refuse(request);
    } else {
        sleep_for_file(request);
    }
}

static void carry_on(void *arg, size_t serial)
{
    struct ci_krequest *request = arg;
    if (request->serial != serial || request->state != CI_KREQUEST_WORKING || request->ring->closed)
        return;
    struct ci_kprocess *before = ci_k.process;
    ci_k.process = request->ring->process;
    try_it(request);
    ci_k.process = before;
}

static void begin(void *arg, size_t serial)
{
    struct ci_krequest *request = arg;
    if (request->serial != serial || request->state != CI_KREQUEST_QUEUED)
        return;
    request->state = CI_KREQUEST_WORKING;
    if (ci_kring_on_disk(request))
        ci_kschedule(ci_time_after(ci_know(), ci_kdisk_time(&request->call)), carry_on, request,
                     serial);
    else
        carry_on(request, serial);
}

void ci_kring_worker_queue(struct ci_krequest *request)
{
    ci_krequest_enter(request, CI_KREQUEST_QUEUED);
    ci_ktrace("kernel thread", request->opcode, (int64_t)request->name);
    ci_kschedule(ci_kafter((uint64_t)begin_most), begin, request, request->serial);
}

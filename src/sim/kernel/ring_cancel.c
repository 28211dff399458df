/* Cancels of a simulated ring: cancel.c and poll.c (io_poll_remove) of Linux 6.1 to 6.18;
 * io_uring_enter(2), IORING_OP_ASYNC_CANCEL.
 *
 * A cancel finds requests in kernel threads, and requests that wait for a file. It does not find
 * (-ENOENT) requests in task work that are to be tried again, or whose completion is not posted
 * yet.
 */
#include <errno.h>

#include "sim/kernel/ring.h"

/* io_poll_cancel_req */
static void cancel_poll(struct ci_krequest *request)
{
    request->cancelled = true;
    if (!request->wakes++)
        ci_kring_queue_work(request);
}

/* Cancels a kernel thread's request: at once if it has not begun, otherwise by a signal. */
static int cancel_worker(struct ci_krequest *request)
{
    if (request->state == CI_KREQUEST_QUEUED) {
        ci_krequest_finish_with(request, -ECANCELED);
        return 0;
    }
    request->cancelled = true;
    if (request->waiter.file) /* it sleeps */
        request->waiter.wake(&request->waiter, 0);
    return -EALREADY;
}

static struct ci_krequest *find(struct ci_kring *ring, uint64_t name, uint32_t states)
{
    struct ci_list *bucket = ci_kring_named(ring, name);
    ci_list_for_each (node, bucket) {
        struct ci_krequest *request = ci_container_of(node, struct ci_krequest, link);
        if (request->name == name && states & 1u << request->state)
            return request;
    }
    return NULL;
}

/* io_try_cancel: looks at the requests of kernel threads, then at those that wait for files. */
int ci_kring_cancel(struct ci_kring *ring, uint64_t name)
{
    struct ci_krequest *request =
        find(ring, name, 1u << CI_KREQUEST_QUEUED | 1u << CI_KREQUEST_WORKING);
    int rc = request ? cancel_worker(request) : -ENOENT;
    if (rc == 0)
        return 0;
    request = find(ring, name, 1u << CI_KREQUEST_POLLING);
    if (!request)
        return rc;
    cancel_poll(request);
    return 0;
}

/* A poll that has been woken, but whose event is not posted yet, is not removed: -EALREADY
 * (io_poll_disarm). */
int ci_kring_poll_remove(struct ci_kring *ring, uint64_t name)
{
    struct ci_krequest *request = find(ring, name, 1u << CI_KREQUEST_POLLING);
    if (!request || request->opcode != IORING_OP_POLL_ADD)
        return -ENOENT;
    if (request->wakes++)
        return -EALREADY;
    if (ci_kring_traits.version < 12) {
        ci_krequest_fail(request, -ECANCELED);
        return 0;
    }
    ci_kwaiter_remove(&request->waiter);
    request->result = -ECANCELED;
    request->state = CI_KREQUEST_ENDING;
    ci_kring_queue_work(request);
    return 0;
}

struct search {
    struct ci_kring *ring;
    uint64_t name;
};

static bool has_ended(void *arg)
{
    const struct search *search = arg;
    return !find(search->ring, search->name, 1u << CI_KREQUEST_WORKING);
}

/* io_sync_cancel: waits only for requests that a kernel thread is carrying out. */
int ci_kring_cancel_sync(struct ci_kring *ring, const struct io_uring_sync_cancel_reg *reg)
{
    if (reg->flags || reg->timeout.tv_sec != -1 || reg->timeout.tv_nsec != -1)
        ci_kunknown("this kind of IORING_REGISTER_SYNC_CANCEL");
    int rc = ci_kring_cancel(ring, reg->addr);
    if (rc != -EALREADY)
        return rc;
    struct search search = {ring, reg->addr};
    ci_kthread_wait("the end of a request", -1, has_ended, &search, COIR_NEVER);
    return ci_kone_in(ci_k.settings.interrupt_one_in) ? -EINTR : 0;
}

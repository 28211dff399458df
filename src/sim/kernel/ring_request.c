/* A simulated ring's requests, and its task work: io_uring.c (io_queue_sqe, io_run_local_work) of
 * Linux 6.1 to 6.18. ring.h 1 to 3. */
#include <errno.h>
#include <stdlib.h>

#include "sim/kernel/ring.h"

enum { AT_ONCE = 64, WORK_MOST = 20 }; /* WORK_MOST: IO_LOCAL_TW_DEFAULT_MAX, since 6.14 */
static const coir_time soon = 5 * COIR_US;

/* ---- memory: kept from run to run, for events may point at a request that has ended ---- */

static struct ci_list spares = {&spares, &spares};

static void make_spares(void)
{
    struct ci_krequest *requests = calloc(AT_ONCE, sizeof *requests);
    ci_check(requests);
    for (size_t i = 0; i < AT_ONCE; i++)
        ci_list_push(&spares, &requests[i].link);
}

struct ci_krequest *ci_krequest_new(struct ci_kring *ring)
{
    if (ci_list_empty(&spares))
        make_spares();
    struct ci_krequest *request = ci_container_of(ci_list_pop(&spares), struct ci_krequest, link);
    *request =
        (struct ci_krequest){.ring = ring, .serial = ++ci_k.serial, .thread = ci_k.thread->number};
    ci_list_init(&request->link);
    ci_list_init(&request->work_link);
    request->iov = request->iovs;
    return request;
}

void ci_krequest_drop(struct ci_krequest *request)
{
    ci_kring_poll_disarm(request);
    ci_list_remove(&request->work_link);
    ci_list_remove(&request->link);
    if (request->iov != request->iovs)
        free(request->iov);
    request->serial = 0;
    if (request->file && request->ring->entered) {
        ci_list_push(&request->ring->puts, &request->link);
        return;
    }
    ci_list_insert_before(spares.next, &request->link);
    if (request->file)
        ci_kfile_unref(request->file); /* which may be the last reference */
}

/* The task that enters the ring gives files back as it leaves the kernel, or is about to sleep
 * (fput). */
void ci_kring_put_files(struct ci_kring *ring)
{
    struct ci_list *node;
    while ((node = ci_list_pop(&ring->puts))) {
        struct ci_krequest *request = ci_container_of(node, struct ci_krequest, link);
        ci_list_insert_before(spares.next, &request->link);
        ci_kfile_unref(request->file);
    }
}

static struct ci_list *bucket(struct ci_kring *ring, uint64_t name)
{
    return &ring->table[((uint32_t)name * 0x9e3779b1u + (uint32_t)(name >> 32)) >> 26];
}

void ci_krequest_enter(struct ci_krequest *request, enum ci_krequest_state state)
{
    request->state = (uint8_t)state;
    if (ci_list_empty(&request->link))
        ci_list_insert_before(bucket(request->ring, request->name)->next, &request->link);
}

struct ci_list *ci_kring_named(struct ci_kring *ring, uint64_t name)
{
    return bucket(ring, name);
}

/* ---- ending and trying ---- */

void ci_krequest_end(struct ci_krequest *request)
{
    if (!request->skips || request->failed || request->result < 0)
        ci_kring_post(request->ring, request->name, request->result, request->cqe_flags);
    ci_krequest_drop(request);
}

/* What a send or receive has done before is told instead of the error, since 6.1
 * (io_sendrecv_fail). */
void ci_krequest_fail(struct ci_krequest *request, int error)
{
    request->failed = true;
    request->result = request->done && ci_kring_traits.version >= 1 ? (int)request->done : error;
    request->cqe_flags = 0;
    ci_krequest_end(request);
}

/* io_queue_async */
static void on_again(struct ci_krequest *request)
{
    if (!request->nowait) {
        ci_kring_wait_for_file(request);
        return;
    }
    ci_krequest_fail(request, -EAGAIN);
}

void ci_krequest_try(struct ci_krequest *request, enum ci_kring_from from)
{
    switch (ci_kring_perform(request, from)) {
    case CI_KRING_DONE: ci_krequest_end(request); break;
    case CI_KRING_AGAIN: on_again(request); break;
    case CI_KRING_WAITS: break;
    }
}

/* ---- task work ---- */

static bool is_deferred(const struct ci_kring *ring)
{
    return ring->setup & IORING_SETUP_DEFER_TASKRUN;
}

static bool is_cooperative(const struct ci_kring *ring)
{
    return ring->setup & IORING_SETUP_COOP_TASKRUN;
}

static bool owner_sleeps(const struct ci_kring *ring)
{
    ci_list_for_each (node, &ci_k.threads) {
        const struct ci_kthread *thread = ci_container_of(node, struct ci_kthread, link);
        if (thread->number == ring->owner)
            return thread->waits_for;
    }
    return true;
}

/* The thread is interrupted; a cooperative one only while it sleeps in the kernel. */
static void run_soon(void *arg, size_t number)
{
    (void)number;
    struct ci_kring *ring = arg;
    struct ci_kprocess *before = ci_k.process;
    ring->will_run = false;
    if (ring->closed || (is_cooperative(ring) && !owner_sleeps(ring)))
        return;
    ci_k.process = ring->process;
    ci_kring_run_work(ring, UINT32_MAX);
    ci_k.process = before;
}

void ci_kring_queue_work(struct ci_krequest *request)
{
    struct ci_kring *ring = request->ring;
    ci_check(ci_list_empty(&request->work_link));
    ci_list_push(&ring->work, &request->work_link);
    if (ring->closed)
        return;
    if (ring->setup & IORING_SETUP_TASKRUN_FLAG)
        ci_kring_set_flag(ring, IORING_SQ_TASKRUN, true);
    if (!is_deferred(ring) && !ring->will_run) {
        ring->will_run = true;
        ci_kschedule(ci_kafter((uint64_t)soon), run_soon, ring, 0);
    }
}

static void run_one(struct ci_krequest *request)
{
    switch ((enum ci_krequest_state)request->state) {
    case CI_KREQUEST_POLLING: ci_kring_poll_work(request); break;
    case CI_KREQUEST_RETRYING: ci_krequest_try(request, CI_KRING_SUBMIT); break;
    case CI_KREQUEST_ENDING: ci_krequest_end(request); break;
    default: ci_kunknown("task work of a request that has none");
    }
}

/* What is there as it begins; what comes meanwhile only while fewer than `wanted` have run. */
void ci_kring_run_work(struct ci_kring *ring, uint32_t wanted)
{
    ci_kring_run_some_work(ring, wanted, wanted > WORK_MOST ? wanted : WORK_MOST);
}

/* No more than `most`, since 6.14. */
void ci_kring_run_some_work(struct ci_kring *ring, uint32_t wanted, uint32_t most)
{
    if (ci_list_empty(&ring->work))
        return;
    uint32_t run = 0;
    if (ci_kring_traits.version < 14 || !is_deferred(ring))
        most = UINT32_MAX;
    struct ci_list *node, batch;
    if (ring->setup & IORING_SETUP_TASKRUN_FLAG)
        ci_kring_set_flag(ring, IORING_SQ_TASKRUN, false);
    do {
        ci_list_take(&batch, &ring->work);
        for (; run < most && (node = ci_list_pop(&batch)); run++)
            run_one(ci_container_of(node, struct ci_krequest, work_link));
        while (!ci_list_empty(&batch)) {
            node = batch.prev;
            ci_list_remove(node);
            ci_list_insert_before(ring->work.next, node);
        }
    } while (run < wanted && run < most && !ci_list_empty(&ring->work));
    if (!ci_list_empty(&ring->work) && ring->setup & IORING_SETUP_TASKRUN_FLAG)
        ci_kring_set_flag(ring, IORING_SQ_TASKRUN, true);
}

/* ---- threads ---- */

static void run_if_cooperative(struct ci_kring *ring, int thread)
{
    if (is_cooperative(ring) && ring->owner == thread)
        ci_kring_run_work(ring, UINT32_MAX);
}

void ci_kring_before_call(void)
{
    if (ci_kring_traits.version < 1) /* newer ones are asked for DEFER_TASKRUN */
        ci_kring_each(run_if_cooperative, ci_k.thread->number);
}

static void cancel_of_thread(struct ci_kring *ring, int thread)
{
    for (size_t i = 0; i < CI_KRING_BUCKETS; i++)
        for (struct ci_list *node = ring->table[i].next, *next; node != &ring->table[i];
             node = next) {
            next = node->next;
            struct ci_krequest *request = ci_container_of(node, struct ci_krequest, link);
            if (request->thread == thread)
                ci_krequest_fail(request, -ECANCELED);
        }
}

/* io_uring_cancel_generic: what a thread has submitted ends with it. */
void ci_kring_thread_ended(int thread)
{
    ci_kring_each(cancel_of_thread, thread);
}

/* A simulated ring's task work, and how requests are tried again: io_uring.c (io_queue_sqe,
 * io_run_local_work) and poll.c (io_arm_poll_handler, io_poll_check_events) of Linux 6.1 to 6.18.
 * ring.h 1 and 3.
 *
 * - The events of the first wake-up are kept, and used when task work runs (io_poll_check_events),
 *   although they may not hold any more. After several wake-ups, or one without events, the file is
 *   polled.
 */
#include <errno.h>

#include "sim/kernel/ring.h"

enum { WORK_MOST = 20 }; /* IO_LOCAL_TW_DEFAULT_MAX, since 6.14 */
enum { TRIES = 128 };    /* APOLL_MAX_RETRY, since 6.3 and 6.1.15; before, one */

/* ---- waiting for the file of a request that got -EAGAIN ---- */

static void try_again(struct ci_krequest *request)
{
    ci_krequest_enter(request, CI_KREQUEST_RETRYING);
    ci_kring_queue_work(request);
}

/* Whether the request has used up its polls. Multishot requests may poll without limit, and a
 * connect is started only once. */
static bool has_tried_enough(const struct ci_krequest *request)
{
    int most = ci_kring_traits.version >= 1 ? TRIES : 1;
    if (request->multi || request->opcode == IORING_OP_CONNECT || !request->polled)
        return false;
    return (request->tries >= most && !(most == 1 && request->done)) ||
           ci_kone_in(ci_kring_traits.worker_one_in);
}

/* io_arm_poll_handler */
static void wait_for_file(struct ci_krequest *request)
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
        /* it became ready in between */
        try_again(request);
        return;
    }
    ci_kring_poll_arm(request, events | POLLPRI | POLLERR, &mask);
    if (mask && !request->multi) {
        ci_kwaiter_remove(&request->waiter);
        request->state = CI_KREQUEST_TRYING;
        try_again(request);
    }
}

/* ---- trying ---- */

/* io_queue_async */
static void on_again(struct ci_krequest *request)
{
    if (!request->nowait) {
        wait_for_file(request);
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

/* ---- handling a wake-up ---- */

/* Posts an event of a multishot poll. False: the request has ended. */
static bool tell(struct ci_krequest *request)
{
    if (request->opcode == IORING_OP_POLL_ADD) {
        request->result = (int32_t)request->mask;
        request->cqe_flags = 0;
        if (!ci_kone_in(ci_kring_traits.cut_one_in) &&
            ci_kring_post_more(request->ring, request->name, request->result, 0))
            return true;
        request->failed = true; /* no room in the ring: the request ends */
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

/* IOU_POLL_REISSUE: tried again; if it has to wait again, it is now the newest waiter of the
 * file. */
static void reissue(struct ci_krequest *request)
{
    ci_kwaiter_remove(&request->waiter);
    request->state = CI_KREQUEST_TRYING;
    ci_krequest_try(request, CI_KRING_SUBMIT);
}

static void end_poll(struct ci_krequest *request)
{
    ci_kwaiter_remove(&request->waiter);
    if (request->opcode == IORING_OP_POLL_ADD) {
        request->result = (int32_t)request->mask;
        ci_krequest_end(request);
    } else {
        reissue(request);
    }
}

/* io_poll_check_events */
static void poll_work(struct ci_krequest *request)
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
        if (looks_again)
            wakes--; /* the stream's end may have arrived with bytes: docs/simulation.md */
        if (request->mask && !tell(request))
            return;
        request->mask = 0;
        request->wakes -= wakes;
    } while (request->wakes);
}

/* ---- running it ---- */

static void run_one(struct ci_krequest *request)
{
    switch ((enum ci_krequest_state)request->state) {
    case CI_KREQUEST_POLLING: poll_work(request); break;
    case CI_KREQUEST_RETRYING:
        request->state = CI_KREQUEST_TRYING;
        ci_krequest_try(request, CI_KRING_SUBMIT);
        break;
    case CI_KREQUEST_ENDING: ci_krequest_end(request); break;
    default: ci_kunknown("task work of a request that has none");
    }
}

/* Runs the task work that is queued at the start; work that is queued in between only while fewer
 * than `wanted` items have run. */
void ci_kring_run_work(struct ci_kring *ring, uint32_t wanted)
{
    ci_kring_run_some_work(ring, wanted, wanted > WORK_MOST ? wanted : WORK_MOST);
}

/* Runs at most `most` items, since 6.14. */
void ci_kring_run_some_work(struct ci_kring *ring, uint32_t wanted, uint32_t most)
{
    if (ci_list_empty(&ring->work))
        return;
    uint32_t run = 0;
    ci_check(!ci_kring_is_deferred(ring) || ci_kring_may_enter(ring), "kernel/ring.h 3");
    if (ci_kring_traits.version < 14 || !ci_kring_is_deferred(ring))
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

static bool is_cooperative(const struct ci_kring *ring)
{
    return ring->setup & IORING_SETUP_COOP_TASKRUN;
}

static const struct ci_kthread *find_thread(const struct ci_list *threads, int number)
{
    ci_list_for_each (node, threads) {
        const struct ci_kthread *thread = ci_container_of(node, struct ci_kthread, link);
        if (thread->number == number)
            return thread;
    }
    return NULL;
}

static bool owner_sleeps(const struct ci_kring *ring)
{
    const struct ci_kthread *owner = find_thread(&ci_k.threads, ring->owner);
    return owner ? owner->waits_for != NULL : !find_thread(&ci_k.ended_threads, ring->owner);
}

/* Runs task work by interrupting the thread; with COOP_TASKRUN only while it sleeps in the
 * kernel. */
void ci_kring_run_soon(void *arg, size_t number)
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

/* ---- threads ---- */

static void run_if_cooperative(struct ci_kring *ring, int thread)
{
    if (is_cooperative(ring) && ring->owner == thread)
        ci_kring_run_work(ring, UINT32_MAX);
}

void ci_kring_before_call(void)
{
    if (ci_kring_traits.version < 1) /* on newer kernels the library uses DEFER_TASKRUN */
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

/* io_uring_cancel_generic: a thread's requests end with the thread. */
void ci_kring_thread_ended(int thread)
{
    ci_kring_each(cancel_of_thread, thread);
}

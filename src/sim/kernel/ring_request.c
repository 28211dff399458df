/* A simulated ring's requests: how they begin, end and are put into task work. ring.h 1 to 3. */
#include <errno.h>
#include <stdlib.h>

#include "sim/kernel/ring.h"

enum { AT_ONCE = 64 };
static const coir_time soon = 5 * COIR_US;

/* ---- memory: kept from run to run, because events may point at a request that has ended ---- */

static struct ci_list spares = {&spares, &spares};

static void make_spares(void)
{
    struct ci_krequest *requests = calloc(AT_ONCE, sizeof *requests);
    ci_check(requests, "kernel/kernel.h 5");
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
    ci_kwaiter_remove(&request->waiter);
    ci_list_remove(&request->work_link);
    ci_list_remove(&request->link);
    if (request->iov != request->iovs)
        free(request->iov);
    free((char *)(uintptr_t)request->call.path);
    free((char *)(uintptr_t)request->call.to_path);
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
    ci_check(request->state == CI_KREQUEST_TRYING, "kernel/ring.h 1");
    request->state = (uint8_t)state;
    if (ci_list_empty(&request->link))
        ci_list_insert_before(bucket(request->ring, request->name)->next, &request->link);
}

struct ci_list *ci_kring_named(struct ci_kring *ring, uint64_t name)
{
    return bucket(ring, name);
}

/* ---- ending ---- */

void ci_krequest_end(struct ci_krequest *request)
{
    if (!request->skips || request->failed || request->result < 0)
        ci_kring_post(request->ring, request->name, request->result, request->cqe_flags);
    ci_krequest_drop(request);
}

/* A send or receive that has transferred a part reports that instead of the error, since 6.1
 * (io_sendrecv_fail). */
void ci_krequest_fail(struct ci_krequest *request, int error)
{
    request->failed = true;
    request->result = request->done && ci_kring_traits.version >= 1 ? (int)request->done : error;
    request->cqe_flags = 0;
    ci_krequest_end(request);
}

/* ---- task work ---- */

void ci_kring_queue_work(struct ci_krequest *request)
{
    struct ci_kring *ring = request->ring;
    ci_check(!ci_list_empty(&request->link), "kernel/ring.h 2");
    ci_check(ci_list_empty(&request->work_link), "kernel/ring.h 3");
    ci_list_push(&ring->work, &request->work_link);
    if (ring->closed)
        return;
    if (ring->setup & IORING_SETUP_TASKRUN_FLAG)
        ci_kring_set_flag(ring, IORING_SQ_TASKRUN, true);
    if (!ci_kring_is_deferred(ring) && !ring->will_run) {
        ring->will_run = true;
        ci_kschedule(ci_kafter((uint64_t)soon), ring->run_soon, ring, 0);
    }
}

/* ---- the end of a kernel thread's request is posted by task work ---- */

void ci_krequest_finish(struct ci_krequest *request)
{
    ci_kwaiter_remove(&request->waiter);
    request->state = CI_KREQUEST_ENDING;
    ci_kring_queue_work(request);
}

void ci_krequest_finish_with(struct ci_krequest *request, int error)
{
    request->result = request->done ? (int32_t)request->done : error;
    request->failed = true;
    ci_krequest_finish(request);
}

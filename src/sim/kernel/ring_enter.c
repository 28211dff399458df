/* io_uring_enter of the simulated kernel: io_uring_enter(2); io_uring.c (io_uring_enter,
 * io_submit_sqes, io_cqring_wait) of Linux 6.1 to 6.18.
 *
 * - Entries are taken in order. If one cannot be taken, the submission ends: the call returns the
 *   number taken before, without waiting; -EAGAIN if there was none.
 * - Only the ring's owner may wait (-EEXIST). A wait runs task work first, and after each wake-up.
 * - An error of the wait is returned only if no entry was taken.
 */
#include <errno.h>
#include <string.h>

#include "sim/kernel/ring.h"

/* ---- submitting ---- */

/* Overwrites a submitted slot: it belongs to the program again, and the kernel must not read it any
 * more. */
static void scribble(struct io_uring_sqe *sqe)
{
    memset(sqe, 0xa5, sizeof *sqe);
}

static void submit_one(struct ci_kring *ring, struct io_uring_sqe *sqe)
{
    struct ci_krequest *request = ci_krequest_new(ring);
    request->name = sqe->user_data;
    request->opcode = sqe->opcode;
    int rc = ci_kring_prepare(request, sqe);
    ci_ktrace("submit", sqe->opcode, (int64_t)sqe->user_data);
    scribble(sqe);
    ci_kring_entry_taken(ring);
    if (rc < 0)
        ci_krequest_fail(request, rc);
    else
        ci_krequest_try(request, CI_KRING_SUBMIT);
}

/* How many of `there` entries there is memory for: io_alloc_req. */
static uint32_t lack_memory(struct ci_kring *ring, uint32_t there)
{
    if (there && ring->refused_calls) {
        ring->refused_calls--;
        return 0;
    }
    if (!there || !ci_kone_in(ci_kring_traits.refuse_one_in))
        return there;
    return (uint32_t)ci_kbelow(there);
}

static int submit(struct ci_kring *ring, uint32_t count)
{
    uint32_t there = ci_kring_entries_tail(ring) - ring->head,
             wanted = count < there ? count : there, most = lack_memory(ring, wanted);
    if (wanted && !most)
        return -EAGAIN;
    if (most && !(ring->setup & IORING_SETUP_SUBMIT_ALL))
        ci_kunknown("a ring without IORING_SETUP_SUBMIT_ALL");
    for (uint32_t i = 0; i < most; i++)
        submit_one(ring, ci_kring_entry(ring));
    return (int)most;
}

/* ---- waiting ---- */

struct waiting {
    struct ci_kring *ring;
    uint32_t wanted;
};

static bool has_work(void *arg)
{
    const struct waiting *waiting = arg;
    const struct ci_kring *ring = waiting->ring;
    return !ci_list_empty(&ring->work) || !ci_list_empty(&ring->overflow) ||
           ci_kring_completions(ring) >= waiting->wanted;
}

/* The time at which a signal interrupts the sleep; COIR_NEVER: none does. */
static coir_time choose_interrupt(coir_time deadline)
{
    if (!ci_kone_in(ci_k.settings.interrupt_one_in))
        return COIR_NEVER;
    coir_time when = ci_kafter(COIR_MS);
    return when < deadline ? when : COIR_NEVER;
}

static int sleep_for_completions(struct waiting *waiting, coir_fd fd, coir_time deadline)
{
    struct ci_kring *ring = waiting->ring;
    coir_time interrupt = choose_interrupt(deadline);
    for (;;) {
        ci_kring_put_files(ring);
        bool woken = ci_kthread_wait("completions", fd, has_work, waiting,
                                     interrupt < deadline ? interrupt : deadline);
        if (woken)
            ci_kthread_be_late();
        uint32_t there = ci_kring_completions(ring),
                 missing = waiting->wanted > there ? waiting->wanted - there : 0;
        ci_kring_run_some_work(ring, missing, missing);
        ci_kring_flush(ring);
        if (ci_kring_completions(ring) >= waiting->wanted)
            return 0;
        if (!woken)
            return interrupt < deadline ? -EINTR : -ETIME;
    }
}

static int wait_for_completions(struct ci_kring *ring, coir_fd fd, uint32_t wanted,
                                coir_time deadline)
{
    if (ring->setup & IORING_SETUP_DEFER_TASKRUN && !ci_kring_may_enter(ring))
        return -EEXIST;
    struct waiting waiting = {ring,
                              wanted < ring->completion_count ? wanted : ring->completion_count};
    ci_kring_run_work(ring, waiting.wanted);
    bool flushed = ci_kring_flush(ring);
    if (ci_kring_completions(ring) >= waiting.wanted)
        return flushed || ci_kone_in(2) ? 0 : -EBUSY; /* io_uring_enter(2); since 6.2: 0 */
    int rc = sleep_for_completions(&waiting, fd, deadline);
    return ci_kring_completions(ring) ? 0 : rc;
}

/* Reads the deadline of the wait from the call's argument. */
static int read_deadline(unsigned flags, const void *arg, size_t arg_size, coir_time *ret_deadline)
{
    *ret_deadline = COIR_NEVER;
    if (!(flags & IORING_ENTER_EXT_ARG)) {
        if (arg)
            ci_kunknown("a signal mask of io_uring_enter");
        return 0;
    }
    const struct io_uring_getevents_arg *events = arg;
    if (arg_size != sizeof *events || events->pad)
        return -EINVAL;
    if (events->sigmask)
        ci_kunknown("a signal mask of io_uring_enter");
    if (!events->ts)
        return 0;
    const struct __kernel_timespec *time = (const struct __kernel_timespec *)(uintptr_t)events->ts;
    coir_time timeout =
        time->tv_sec > INT64_MAX / COIR_S - 1 ? COIR_NEVER : time->tv_sec * COIR_S + time->tv_nsec;
    *ret_deadline = ci_kdeadline(timeout < 0 ? 0 : timeout);
    return 0;
}

static int enter(struct ci_kring *ring, coir_fd fd, unsigned count, unsigned wanted, unsigned flags,
                 const void *arg, size_t arg_size)
{
    int taken = 0, rc = 0;
    if (count) {
        if (!ci_kring_may_enter(ring))
            return -EEXIST;
        taken = submit(ring, count);
        if (taken != (int)count)
            return taken;
        if (flags & IORING_ENTER_GETEVENTS && ring->setup & IORING_SETUP_DEFER_TASKRUN)
            /* before the wait, which runs the task work that these entries cause */
            ci_kring_run_work(ring, wanted);
    }
    if (!(flags & IORING_ENTER_GETEVENTS))
        return taken;
    coir_time deadline;
    rc = read_deadline(flags, arg, arg_size, &deadline);
    if (rc == 0)
        rc = wait_for_completions(ring, fd, wanted, deadline);
    return taken ? taken : rc;
}

int ci_ring_call_enter(coir_fd fd, unsigned count, unsigned wanted, unsigned flags, const void *arg,
                       size_t arg_size)
{
    struct ci_kring *ring;
    ci_kcall();
    int rc = ci_kring_find(fd, &ring);
    if (rc < 0)
        return rc;
    if (flags & ~(IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG))
        ci_kunknown("a flag of io_uring_enter");
    if (ring->disabled)
        return -EBADFD;
    ci_kfile_ref(&ring->file);
    ring->entered = true;
    rc = enter(ring, fd, count, wanted, flags, arg, arg_size);
    ring->entered = false;
    ci_kring_put_files(ring);
    ci_ktrace("enter", (int64_t)count << 16 | wanted, rc);
    ci_kfile_unref(&ring->file);
    return rc;
}

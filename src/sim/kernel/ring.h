/* The simulated kernel's io_uring: io_uring/ of Linux 6.0 to 6.18; io_uring_setup(2), _enter(2),
 * _register(2). A function of the kernel is named beside what models it.
 *
 *   ring.c           a ring's set-up and end, what is registered; ring_call.h's functions but enter
 *   ring_memory.c    what it shares with the program
 *   ring_enter.c     io_uring_enter: submitting, waiting
 *   ring_cqe.c       completions, and those that the ring has no room for
 *   ring_request.c   a request's life
 *   ring_work.c      task work, and how requests are tried again
 *   ring_op.c        what each operation does
 *   ring_net.c       sends and receives
 *   ring_file.c      calls on files
 *   ring_buffers.c   buffers that are provided in a ring
 *   ring_poll.c      polls, of programs and of requests
 *   ring_worker.c    io-wq: threads of the kernel
 *   ring_cancel.c    cancels
 *
 * 1. A request is in one state at a time:
 *      TRYING -> ended          (completed at once)
 *      TRYING -> POLLING        (-EAGAIN; or a poll)
 *      TRYING -> RETRYING       (-EAGAIN, but ready by now: to be tried again by task work)
 *      TRYING -> QUEUED         (no poll, or too many: a kernel thread is to do it)
 *      POLLING, RETRYING -> TRYING (woken: by task work)
 *      QUEUED -> WORKING -> ENDING -> ended
 * 2. A request that is not TRYING is in its ring's table, by its name (user_data). It is freed with
 *    its last completion.
 * 3. Waking a request only queues its task work. Task work runs in an enter of the owner that asks
 *    for events (DEFER_TASKRUN), in any system call of the owner (COOP_TASKRUN), or soon (neither).
 *
 * What an entry points at is copied when the entry is taken, except the bytes that are sent or
 * received, which belong to the kernel until the completion.
 */
#ifndef CI_SIM_KERNEL_RING_H
#define CI_SIM_KERNEL_RING_H

#include <netinet/in.h>

#include "sim/kernel/kernel.h"
#include "sys/ring_call.h"

enum { CI_KRING_BUCKETS = 64, CI_KREQUEST_IOVS = 8 };

enum ci_krequest_state {
    CI_KREQUEST_TRYING,
    CI_KREQUEST_POLLING,
    CI_KREQUEST_RETRYING,
    CI_KREQUEST_QUEUED,
    CI_KREQUEST_WORKING,
    CI_KREQUEST_ENDING
};

/* Where an operation is tried from. */
enum ci_kring_from { CI_KRING_SUBMIT, CI_KRING_POLL, CI_KRING_WORKER };

/* The outcome of a try. AGAIN: to be tried again when the file is ready. WAITS: it is POLLING, and
 * stays so. DONE: `result` is set. */
enum ci_kring_try { CI_KRING_DONE, CI_KRING_AGAIN, CI_KRING_WAITS };

struct ci_krequest {
    struct ci_list link;      /* of its ring's table */
    struct ci_list work_link; /* in its ring's task work; not in a list: none is queued */
    struct ci_kring *ring;
    struct ci_kfile *file; /* with a reference; NULL: none */
    uint64_t serial, name; /* name: user_data */
    int thread;            /* the one that submitted it */
    uint8_t opcode, state;
    bool skips;   /* CQE_SKIP_SUCCESS */
    bool failed;  /* a completion is posted in spite of `skips` */
    bool nowait;  /* REQ_F_NOWAIT: -EAGAIN is final */
    bool multi;   /* multishot */
    bool selects; /* takes a buffer of `group` */
    bool cancelled;
    bool polls_first; /* IORING_RECVSEND_POLL_FIRST */
    bool polled;      /* REQ_F_POLLED */
    bool in_progress; /* a connect */
    bool of_file;     /* a stat with an empty path */
    uint16_t group;
    int32_t result;
    uint32_t cqe_flags;

    /* POLLING */
    struct ci_kwaiter waiter;
    /* requested; of the first wake-up; wake-ups since task work last ran */
    unsigned events, mask, wakes;
    int tries; /* polls after which the operation still could not be done */

    /* operands */
    char *buf;
    size_t len, done;
    int64_t offset;
    int flags; /* MSG_*, or of the accept */
    struct msghdr message, *user_message;
    struct iovec iovs[CI_KREQUEST_IOVS], *iov; /* iov: allocated if there are more than fit */
    struct sockaddr_storage address;
    struct ci_file_call call; /* its paths: allocated */
};

struct ci_kring {
    struct ci_kfile file;
    struct ci_list link; /* of all rings */
    struct ci_kprocess *process;
    uint32_t setup;        /* IORING_SETUP_* */
    int owner;             /* the thread's number; 0: any may enter */
    bool disabled, closed; /* disabled: not enabled yet; closed: no descriptor is left */
    bool will_run;         /* an event that will run its task work is scheduled */
    bool entered;          /* a thread is inside of io_uring_enter */
    ci_call_fn *run_soon;  /* the event: ci_kring_run_soon */
    /* ended requests, whose references to files are still to be dropped */
    struct ci_list puts;
    char *rings; /* the memory of both rings, shared with the program */
    struct io_uring_sqe *entries;
    uint32_t entry_count, completion_count;
    uint32_t head;           /* submissions taken so far */
    uint32_t tail;           /* completions posted so far */
    uint32_t refused_calls;  /* the next ones, because memory is out; set by tests */
    uint32_t refusals;       /* of kernel threads (-EAGAIN), since one carried a request out */
    coir_time refused_at;    /* the last of them */
    struct ci_list overflow; /* completions that wait for room */
    struct ci_list work;     /* task work, oldest first */
    struct ci_list table[CI_KRING_BUCKETS];
    struct ci_kring_buffers *groups;
};

/* Traits of the kernel version and of the machine, for the whole run. */
struct ci_kring_traits {
    uint32_t version;       /* of Linux, minor: 6.0 to 6.18 */
    uint32_t race_one_in;   /* of -EAGAINs, find the file ready at once */
    uint32_t refuse_one_in; /* of submissions, stop because memory is out */
    uint32_t size_most;     /* the largest submission ring; 0: as requested */
    /* buffers of each group that are never returned, as if another file held them */
    uint32_t withheld;
    /* of failed polls, pass the request to a kernel thread, in addition to the version's own
     * rule */
    uint32_t worker_one_in;
    uint32_t cut_one_in; /* of multishot completions, end the request although more could follow */
};
extern struct ci_kring_traits ci_kring_traits;

/* ring_memory.c */
extern struct ci_list ci_krings; /* all of this run, open or not */
void ci_kring_make_memory(struct ci_kring *ring, struct io_uring_params *params);
struct ci_kring *ci_kring_of(struct ci_kfile *file); /* NULL: it is no ring */
int ci_kring_find(coir_fd fd, struct ci_kring **ret_ring);
/* for each open ring */
void ci_kring_each(void (*fn)(struct ci_kring *ring, int number), int number);
void ci_kring_set_flag(struct ci_kring *ring, uint32_t flag, bool on); /* IORING_SQ_* */
uint32_t ci_kring_entries_tail(const struct ci_kring *ring);
struct io_uring_sqe *ci_kring_entry(const struct ci_kring *ring); /* the next one */
void ci_kring_entry_taken(struct ci_kring *ring);
uint32_t ci_kring_completions_head(const struct ci_kring *ring);
struct io_uring_cqe *ci_kring_completion(const struct ci_kring *ring, uint32_t index);
void ci_kring_write_completion(struct ci_kring *ring, const struct io_uring_cqe *completion);

static inline bool ci_kring_may_enter(const struct ci_kring *ring)
{
    return !ring->owner || (ci_k.thread && ring->owner == ci_k.thread->number);
}

static inline bool ci_kring_is_deferred(const struct ci_kring *ring)
{
    return ring->setup & IORING_SETUP_DEFER_TASKRUN;
}

/* ring_cqe.c. post_more: false, there is no room: the multishot has to end. */
void ci_kring_post(struct ci_kring *ring, uint64_t name, int32_t result, uint32_t flags);
bool ci_kring_post_more(struct ci_kring *ring, uint64_t name, int32_t result, uint32_t flags);
uint32_t ci_kring_completions(const struct ci_kring *ring); /* how many the program has not seen */
/* whether no completion waits for room any more */
bool ci_kring_flush(struct ci_kring *ring);
void ci_kring_drop_overflow(struct ci_kring *ring);
/* buffers in completions that the program has not seen */
uint32_t ci_kring_untold_buffers(const struct ci_kring *ring);

/* ring_request.c */
struct ci_krequest *ci_krequest_new(struct ci_kring *ring);
/* and into the table */
void ci_krequest_enter(struct ci_krequest *request, enum ci_krequest_state state);
/* posts `result`, frees */
void ci_krequest_end(struct ci_krequest *request);
void ci_krequest_fail(struct ci_krequest *request, int error);
void ci_krequest_drop(struct ci_krequest *request); /* without a completion */
/* ends it by task work: with `result`, with an error */
void ci_krequest_finish(struct ci_krequest *request);
void ci_krequest_finish_with(struct ci_krequest *request, int error);
/* where requests of this name are, newest first */
struct ci_list *ci_kring_named(struct ci_kring *ring, uint64_t name);
void ci_kring_queue_work(struct ci_krequest *request);
void ci_kring_put_files(struct ci_kring *ring);

/* ring_op.c. prepare: 0 or a negative errno. */
int ci_kring_prepare(struct ci_krequest *request, const struct io_uring_sqe *sqe);
enum ci_kring_try ci_kring_perform(struct ci_krequest *request, enum ci_kring_from from);
/* 0: the operation is not polled for */
unsigned ci_kring_poll_events(const struct ci_krequest *request);
bool ci_kring_heeds_nonblock(const struct ci_krequest *request); /* also in a kernel thread */

/* ring_net.c */
int ci_kring_prepare_bytes(struct ci_krequest *request, const struct io_uring_sqe *sqe);
int ci_kring_prepare_message(struct ci_krequest *request, const struct io_uring_sqe *sqe);
enum ci_kring_try ci_kring_send(struct ci_krequest *request, enum ci_kring_from from);
enum ci_kring_try ci_kring_receive(struct ci_krequest *request, enum ci_kring_from from);
enum ci_kring_try ci_kring_set(struct ci_krequest *request, ssize_t result);

/* ring_file.c. is_call: the operation is a call on a file, of any kind. */
bool ci_kring_is_call(uint8_t opcode);
bool ci_kring_call_has_path(uint8_t opcode); /* and so no file of its own */
int ci_kring_prepare_call(struct ci_krequest *request, const struct io_uring_sqe *sqe);
enum ci_kring_try ci_kring_call(struct ci_krequest *request, enum ci_kring_from from);
bool ci_kring_on_disk(const struct ci_krequest *request);
void ci_kring_probe(struct io_uring_probe *probe, unsigned count);

/* ring_buffers.c */
int ci_kring_buffers_register(struct ci_kring *ring, const struct io_uring_buf_reg *reg);
bool ci_kring_buffer_choose(struct ci_kring *ring, uint16_t group, struct io_uring_buf *ret_buf);
void ci_kring_buffer_use(struct ci_kring *ring, uint16_t group); /* the one that was chosen */
void ci_kring_buffers_audit(struct ci_kring *ring);              /* when the ring is closed */
void ci_kring_buffers_free(struct ci_kring *ring);

/* ring_poll.c. *ret_mask: what holds already. False: the file cannot be polled. */
bool ci_kring_poll_arm(struct ci_krequest *request, unsigned events, unsigned *ret_mask);
enum ci_kring_try ci_kring_poll_add(struct ci_krequest *request);

/* ring_worker.c */
void ci_kring_worker_queue(struct ci_krequest *request);

/* ring_work.c. The last two are ci_k.before_call and ci_k.thread_ended. */
void ci_krequest_try(struct ci_krequest *request, enum ci_kring_from from);
void ci_kring_run_work(struct ci_kring *ring, uint32_t wanted);
void ci_kring_run_some_work(struct ci_kring *ring, uint32_t wanted, uint32_t most);
void ci_kring_run_soon(void *ring, size_t number);
void ci_kring_before_call(void);
void ci_kring_thread_ended(int number); /* cancels what the thread has submitted */

/* ring_cancel.c */
int ci_kring_cancel(struct ci_kring *ring, uint64_t name);
int ci_kring_poll_remove(struct ci_kring *ring, uint64_t name);
int ci_kring_cancel_sync(struct ci_kring *ring, const struct io_uring_sync_cancel_reg *reg);

#endif

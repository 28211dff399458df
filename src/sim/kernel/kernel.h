/* A simulated Linux: it implements what sys/ needs of the system, driven by a seed. The build
 * coir_simulated takes the files of this folder instead of those of src/sys/ that make system calls
 * (CMakeLists.txt has the list); replace/ comes first on its include path.
 *
 * 1. One thread of the real system runs everything. A simulated thread runs until it makes a system
 *    call, waits for a lock, or reaches an atomic operation that the seed has chosen
 *    (replace/base/point.h): there another thread may continue.
 * 2. A system call takes 100 to 1,600 ns, runs the events that are due, then acts; from then on it
 *    is atomic, except where it sleeps. Events do not nest, and never switch threads.
 * 3. A thread sleeps until its predicate holds or its deadline has passed. When no thread can run,
 *    time moves to the next event or deadline. If there is none, the run ends with an error
 *    (-EDEADLK), and what each thread waits for is printed.
 * 4. An open file lives as long as references exist: from descriptors, and from requests in flight.
 *    A waiter without a reference is told when the file is freed.
 * 5. If the simulated kernel's own memory runs out, the program ends.
 *
 * Wherever Linux has a choice, the seed chooses: ci_kone_in, ci_kbelow. No order depends on a
 * memory address. All of this runs on the stacks of the program's fibers, so frames must be small
 * (the build enforces a limit).
 */
#ifndef CI_SIM_KERNEL_KERNEL_H
#define CI_SIM_KERNEL_KERNEL_H

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/check.h"
#include "base/list.h"
#include "base/sanitizer.h"
#include "sim/event.h"
#include "sim/fault.h"
#include "sim/link.h"
#include "sim/node.h"
#include "sim/trace.h"
#include "sys/context.h"

/* ---- threads ---- */

enum { CI_KTHREAD_LOCALS = 4 };

struct ci_kthread {
    struct ci_list link; /* of ci_k.threads, oldest first; of ci_k.ended_threads */

    /* while it sleeps; with the link in one cache line, for each choice looks at every thread */
    const char *waits_for; /* NULL: it can run */
    bool (*ready)(void *arg);
    void *ready_arg;
    coir_time deadline;

    coir_time spins_until; /* 0: it does not spin */

    struct ci_kprocess *process;
    int number;
    void *(*fn)(void *arg);
    void *arg;
    void *locals[CI_KTHREAD_LOCALS]; /* thread-locals, while it does not run */
    void *kept;                      /* ci_kthread_exchange's, while it does not run */
    struct ci_context context;
    /* of its own stack; of the stack that it was on at its last switch */
    struct ci_stack_view own, left;
    char *stack;

    coir_fd waits_fd; /* while it sleeps; -1: for no descriptor */
    uint32_t awake;   /* system calls since it last slept */
    bool ended;
    bool detached;
};

/* Set by tests of a library that keeps something for each real thread, as OpenSSL its errors: at
 * each switch it puts back what it has kept of the thread that comes (NULL: nothing), and returns
 * what it keeps of the one that leaves. */
extern void *(*ci_kthread_exchange)(void *kept);

/* Set by tests of what is printed: then each process begins with the numbers 0 to 2, and what is
 * written to them goes there. It takes no time. */
extern void (*ci_kconsole)(const void *bytes, size_t len);

/* Sleeps until ready(arg) holds (true) or `deadline` has passed (false). `what` and `fd` are for
 * dumps. */
bool ci_kthread_wait(const char *what, coir_fd fd, bool (*ready)(void *arg), void *arg,
                     coir_time deadline);

void ci_kthread_sleep(const char *what, coir_time until);

/* The deadline of a call that waits `timeout` (negative: without end): timers have slack. */
coir_time ci_kdeadline(coir_time timeout);

/* After a sleep that an event ended: the thread may be delayed further (coir_faults.late). */
void ci_kthread_be_late(void);

/* Switches to another thread, if the seed chooses so. */
void ci_kthread_may_yield(void);

/* ---- processes ---- */

enum { CI_KSINKS = 32 };

/* A host's program: its threads and its table of descriptors. */
struct ci_kprocess {
    struct ci_kprocess *next;
    struct ci_node *node;
    struct ci_kfile **files; /* by descriptor */
    size_t file_room;
    unsigned cpus;
    struct ci_kthread *first;
    int threads;                             /* that have not ended */
    int detached;                            /* of them, those that nobody joins */
    bool ended;                              /* its first thread has */
    struct ci_signal_sink *sinks[CI_KSINKS]; /* signal.c's */
    struct ci_signal_stop *stops;
    struct ci_crash_watch *crash_watches; /* crash.c's */
    bool crashed, crashing;               /* the watches have been told; they are being told */
    struct {
        bool awaited, stopped;
        unsigned came;
    } quits; /* quit.c's */
};

/* ---- the kernel ---- */

struct ci_kernel {
    struct ci_world *world; /* NULL: no kernel is running */
    struct ci_kprocess *processes;
    struct ci_kprocess *process; /* whose calls are being made */
    struct ci_kthread *thread;   /* the running thread; NULL: the scenario itself */
    struct ci_list threads;
    struct ci_list ended_threads; /* that nobody has joined */
    struct ci_context outside;
    struct ci_stack_view outside_own, outside_left;
    int thread_count;
    /* why control returned to the scenario: a process has ended (0), -EDEADLK, -ETIME */
    int outcome;
    coir_time time_max;
    /* atomic operations until the next point at which another thread may run */
    uint32_t points_left;
    struct ci_ksettings {          /* of this seed */
        uint32_t yield_one_in;     /* one in so many system calls lets another thread run */
        uint32_t point_one_in;     /* as yield_one_in, of atomic operations; 0: none */
        uint32_t interrupt_one_in; /* of sleeps in a system call, end with -EINTR */
        /* of state changes, also wake waiters for events that have not changed */
        uint32_t spurious_one_in;
        uint32_t at_once_one_in; /* of segments over a fast link, arrive within the sending call */
        uint32_t spin_most;      /* ns that a pause of a spinning thread takes */
        uint32_t late_one_in;    /* of acknowledgements, are delayed */
        uint32_t part_one_in;    /* of deliveries, arrive in parts */
        /* socket buffers: 2 KiB, doubled fewer than this many times; 0: 208 KiB */
        uint32_t buffer_sizes;
        /* datagrams that a Unix socket holds: one more than net.unix.max_dgram_qlen */
        uint32_t datagrams_most;
        /* system calls of a thread that does not sleep in between: with more, it spins; 0: any */
        uint32_t awake_most;
        bool adopts;    /* programs are the reapers of orphans that descend from them */
        bool no_reaper; /* process 1 does not wait for the orphans that it adopts */
        /* Linux 6.15: tells how a process has ended also after it was waited for */
        bool tells_of_reaped;
        /* names that need time are looked up by getaddrinfo(3), in which threads sleep; else the
         * world's answers reach the library without it */
        bool lookups_block;
    } settings;
    struct ci_ksocket *sockets; /* all that were made in this run, closed or not */
    struct ci_kwatch_queue *watch_queues;
    uint32_t watch_pairs;
    struct ci_kchild *children; /* child.h */
    /* hooks of rings: at the start of a system call, and when a thread ends; NULL: no rings */
    void (*before_call)(void);
    void (*thread_ended)(int number);
    uint64_t serial;
    bool runs_events; /* kernel.h 2 */
};
extern struct ci_kernel ci_k;

/* The seed's choices. ci_kone_in(0) is false. */
static inline uint64_t ci_kbelow(uint64_t bound)
{
    return ci_random_below(&ci_k.world->random, bound);
}

static inline bool ci_kone_in(uint64_t n)
{
    return n && ci_random_below(&ci_k.world->random, n) == 0;
}

/* The settings of a loopback on a quiet machine, for tests that are not about delays. */
void ci_kcalm(void);

/* The start of each system call: kernel.h 2. */
void ci_kcall(void);

/* Adds a line to the trace and its hash; cheap while the trace is not printed. */
void ci_ktrace(const char *what, int64_t a, int64_t b);

/* Memory, zeroed. */
void *ci_kalloc(size_t size);

/* Ends the program with a message: `what` is not modelled. */
CI_COLD CI_NORETURN void ci_kunknown(const char *what);

/* ---- open files ---- */

struct ci_kfile {
    const struct ci_kfile_type *type;
    uint32_t refs;
    bool blocking;          /* without O_NONBLOCK: operations sleep instead of returning -EAGAIN */
    uint64_t serial;        /* in the order of opening, for the trace */
    struct ci_list waiters; /* those that are not exclusive first */
};

/* The operations of a kind of file. NULL: the operation fails with the error in brackets. None of
 * them sleeps: they return -EAGAIN instead. */
struct ci_kfile_type {
    const char *name;
    bool is_socket; /* the file is a struct ci_ksocket's (socket.h) */
    bool is_unix;   /* of a Unix socket */
    /* POLL* that hold now. [no epoll: -EPERM; poll: always ready] */
    unsigned (*poll)(struct ci_kfile *file);
    /* [-EINVAL] */
    ssize_t (*read)(struct ci_kfile *file, const struct iovec *iov, int count);
    /* [-EINVAL] */
    ssize_t (*write)(struct ci_kfile *file, const struct iovec *iov, int count);
    /* [-ENOTSOCK] */
    ssize_t (*receive)(struct ci_kfile *file, struct msghdr *message, int flags);
    /* [-ENOTSOCK] */
    ssize_t (*send)(struct ci_kfile *file, const struct msghdr *message, int flags);
    /* [-ENOTSOCK] */
    int (*accept)(struct ci_kfile *file, struct ci_kfile **ret_file);
    /* [-ENOTSOCK] */
    int (*connect)(struct ci_kfile *file, const struct sockaddr *address, socklen_t len);
    /* [-ENOTSOCK] */
    int (*shutdown)(struct ci_kfile *file, int how);
    /* frees the file, after the last reference was dropped */
    void (*release)(struct ci_kfile *file);
};

/* with one reference */
void ci_kfile_init(struct ci_kfile *file, const struct ci_kfile_type *type);
struct ci_kfile *ci_kfile_ref(struct ci_kfile *file);
void ci_kfile_unref(struct ci_kfile *file);

/* POLL* that hold now. */
unsigned ci_kfile_poll(struct ci_kfile *file);

/* The table of ci_k.process. install returns the lowest free number and takes over the reference;
 * if a fault makes it fail with -EMFILE or -ENFILE, the reference remains the caller's. find: NULL,
 * none. */
int ci_kfd_install(struct ci_kfile *file);
struct ci_kfile *ci_kfd_find(coir_fd fd);
int ci_kfd_close(coir_fd fd);
int ci_kfd_copy(coir_fd from, coir_fd to); /* dup2(2) */

/* -EMFILE or -ENFILE if a fault happens here; otherwise 0. */
int ci_kfd_refused(void);

/* ---- waiting for files ---- */

/* A callback on changes of a file. `key` has the POLL* events that may have begun to hold; 0:
 * anything may have changed. wake returns whether it woke a thread: after one exclusive waiter that
 * did, no other exclusive one is called. */
struct ci_kwaiter {
    struct ci_list link;
    struct ci_kfile *file;
    bool (*wake)(struct ci_kwaiter *waiter, unsigned key);
    /* The last reference to the file was dropped: removes the waiter. NULL: the waiter holds a
     * reference itself. */
    void (*gone)(struct ci_kwaiter *waiter);
    /* ci_k.process closes a descriptor of the file. May remove the waiter. May be NULL. */
    void (*closed)(struct ci_kwaiter *waiter, coir_fd fd);
    bool exclusive;
};

void ci_kwaiter_add(struct ci_kwaiter *waiter, struct ci_kfile *file);
void ci_kwaiter_remove(struct ci_kwaiter *waiter); /* also one that was removed before */

/* Calls the waiters: with a key, at most one exclusive waiter that wakes a thread; with 0, all. */
void ci_kfile_wake(struct ci_kfile *file, unsigned key);

/* ---- events ---- */

/* Calls fn(arg, number) at `when`. Nothing cancels it: `arg` lives until the kernel ends, or fn
 * looks. */
void ci_kschedule(coir_time when, ci_call_fn *fn, void *arg, size_t number);

static inline coir_time ci_know(void)
{
    return ci_k.world->now;
}

static inline coir_time ci_kafter(uint64_t most)
{
    return ci_time_after(ci_k.world->now, (coir_time)ci_kbelow(most));
}

/* ---- what the files of this folder are for each other ---- */

/* Calls on files of a disk, which take effect at once; `file`: what call->fd stands for, or NULL.
 */
bool ci_kdisk_is(const struct ci_kfile *file);
int ci_kdisk_call(struct ci_kfile *file, const struct ci_file_call *call);
int ci_kdisk_enter(const char *directory);                /* as chdir(2), but nothing changes */
coir_time ci_kdisk_time(const struct ci_file_call *call); /* how long one that begins now takes */

void ci_kthreads_open(void **const *locals, int local_count);
void ci_kthreads_close(void);
int ci_kthreads_run(void);
void ci_kthreads_dump(void);
struct ci_kthread *ci_kthread_start(struct ci_kprocess *process, void *(*fn)(void *arg), void *arg);

struct ci_kprocess *ci_kprocess_start(struct ci_node *node, void *(*fn)(void *arg), void *arg);
bool ci_kprocess_ended(const struct ci_kprocess *process);
enum { CI_KUSER = 1000 }; /* of every process, and its group */
int ci_kprocess_id(const struct ci_kprocess *process);
void ci_kprocess_as(struct ci_kprocess *process, void (*fn)(void *arg), void *arg);
void ci_kprocess_audit(const struct ci_kprocess *process);
void ci_kprocesses_free(void);

void ci_kchildren_audit(const struct ci_kprocess *host);
void ci_kchildren_free(void);
/* As waitpid(2) without blocking, of any of the program's children in a group; 0: in any. */
pid_t ci_kchildren_wait(pid_t group);

int ci_kpipe(coir_fd ret_fds[2]);
/* One of the two is an end of a pipe, the other one a socket; otherwise -EINVAL. */
ssize_t ci_kpipe_splice(struct ci_kfile *from, struct ci_kfile *to, size_t len);
void ci_ksignal_raise(struct ci_kprocess *process, int number);
/* A fatal signal of the calling thread. False: nobody watches for it. */
bool ci_kcrash(int number);
void ci_ksocket_free_all(void);

void ci_krings_open(void);
void ci_krings_calm(void);
void ci_krings_free(void);

#endif

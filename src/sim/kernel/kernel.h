/* A simulated Linux: what sys/ asks of the system, answered from a seed. A build that wants it
 * takes all sources of the library less
 * src/sys/{call,eventpoll,ring_call,clock,thread,pause,signal,cpu}.c, and the files of this folder
 * instead; replace/ comes first on its include path.
 *
 * 1. One thread of the real system runs everything. A simulated thread runs until it makes a system
 *    call, waits for a lock, or passes an atomic operation that the seed has chosen
 * (replace/base/point.h): there another one may go on.
 * 2. A system call takes 100 to 1,600 ns, runs the events that are due, then acts; from then on it
 * is atomic, but where it sleeps. Events do not nest, and never switch threads.
 * 3. A thread sleeps until its predicate holds or its deadline has passed. When none can run, time
 * moves to the next event or deadline; where there is none, nothing will ever happen again, which
 * is an error (-EDEADLK) that names who waits for what.
 * 4. An open file lives as long as it is referred to: by descriptors, and by requests under way.
 * Who waits for it without a reference hears that it goes.
 * 5. The simulated kernel's own memory does not run out: that ends the program.
 *
 * Wherever Linux may choose, the seed does: ci_kone_in, ci_kbelow. No order depends on an address.
 * All this runs on the stacks of the program's fibers: frames are small (the build has a limit).
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
    struct ci_list link; /* of ci_k.threads, oldest first */
    struct ci_kprocess *process;
    int number;
    void *(*fn)(void *arg);
    void *arg;
    void *locals[CI_KTHREAD_LOCALS]; /* thread-locals, while it does not run */
    struct ci_context context;
    /* of its own stack; of the one that it was on when it was left */
    struct ci_stack_view own, left;
    char *stack;

    /* while it sleeps */
    const char *waits_for; /* NULL: it can run */
    coir_fd waits_fd;      /* -1: for no descriptor */
    bool (*ready)(void *arg);
    void *ready_arg;
    coir_time deadline;

    bool ended, spins;
};

/* Sleeps until ready(arg) holds (true) or `deadline` has passed (false). `what` and `fd` are for
 * people. */
bool ci_kthread_wait(const char *what, coir_fd fd, bool (*ready)(void *arg), void *arg,
                     coir_time deadline);

void ci_kthread_sleep(const char *what, coir_time until);

/* The deadline of a call that waits `timeout` (negative: without end): timers have slack. */
coir_time ci_kdeadline(coir_time timeout);

/* After a sleep in which something came: the thread may be told of it late (coir_faults.late). */
void ci_kthread_be_late(void);

/* Lets others run, if the seed says so. */
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
    bool ended;                              /* its first thread has */
    struct ci_signal_sink *sinks[CI_KSINKS]; /* signal.c's */
    struct ci_signal_stop *stops;
};

/* ---- the kernel ---- */

struct ci_kernel {
    struct ci_world *world; /* NULL: none runs */
    struct ci_kprocess *processes;
    struct ci_kprocess *process; /* whose calls are being made */
    struct ci_kthread *thread;   /* that runs; NULL: the scenario itself */
    struct ci_list threads;
    struct ci_context outside;
    struct ci_stack_view outside_own, outside_left;
    int thread_count;
    int outcome; /* why the scenario goes on: a process has ended (0), -EDEADLK, -ETIME */
    coir_time time_max;
    /* atomic operations until the next at which another thread may run */
    uint32_t points_left;
    struct ci_ksettings {          /* of this seed */
        uint32_t yield_one_in;     /* system calls, about, after which another thread may run */
        uint32_t point_one_in;     /* atomic operations likewise; 0: none */
        uint32_t interrupt_one_in; /* sleeps in a system call that end with -EINTR */
        /* state changes after which waiters hear of what has not changed */
        uint32_t spurious_one_in;
        uint32_t at_once_one_in; /* things sent over a fast link that arrive within the call */
        uint32_t late_one_in;    /* acknowledgements that are delayed */
        uint32_t part_one_in;    /* deliveries of which only a part comes at first */
        /* of sockets: 2 KiB doubled less than so many times; 0: 208 KiB */
        uint32_t buffer_sizes;
    } settings;
    struct ci_ksocket *sockets; /* all there ever were in this run */
    /* what rings do at the beginning of a call, and when a thread ends; NULL: there are none */
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

/* How each system call begins. */
void ci_kcall(void);

/* Something for people and for the trace's hash; cheap while nobody reads the trace. */
void ci_ktrace(const char *what, int64_t a, int64_t b);

/* Memory, zeroed. */
void *ci_kalloc(size_t size);

/* What is not modelled fails loudly. */
CI_COLD CI_NORETURN void ci_kunknown(const char *what);

/* ---- open files ---- */

struct ci_kfile {
    const struct ci_kfile_type *type;
    uint32_t refs;
    bool blocking;          /* operations are to sleep rather than answer -EAGAIN */
    uint64_t serial;        /* of opening, for the trace */
    struct ci_list waiters; /* those that are not exclusive first */
};

/* What a kind of file can do. NULL: that fails with the error in brackets. No operation sleeps: it
 * answers -EAGAIN, or takes no time of the world (a disk's is the caller's to let pass: delay). */
struct ci_kfile_type {
    const char *name;
    bool is_socket; /* the file is a struct ci_ksocket's (socket.h) */
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
    /* [-ESPIPE] */
    ssize_t (*read_at)(struct ci_kfile *file, void *buf, size_t len, int64_t offset);
    ssize_t (*write_at)(struct ci_kfile *file, const void *data, size_t len, int64_t offset);
    int (*sync)(struct ci_kfile *file);                   /* [-EINVAL] */
    coir_time (*delay)(struct ci_kfile *file, bool sync); /* how long the disk takes now */
    /* the last reference has gone: frees it */
    void (*release)(struct ci_kfile *file);
};

/* with one reference */
void ci_kfile_init(struct ci_kfile *file, const struct ci_kfile_type *type);
struct ci_kfile *ci_kfile_ref(struct ci_kfile *file);
void ci_kfile_unref(struct ci_kfile *file);

/* POLL* that hold now; a file that is always ready says so. */
unsigned ci_kfile_poll(struct ci_kfile *file);

/* The table of ci_k.process. install gives the lowest free number and takes the reference over;
 * -EMFILE or -ENFILE where a fault wants it (the reference stays the caller's). find: NULL,
 * none. */
int ci_kfd_install(struct ci_kfile *file);
struct ci_kfile *ci_kfd_find(coir_fd fd);
int ci_kfd_close(coir_fd fd);
int ci_kfd_copy(coir_fd from, coir_fd to); /* dup2(2) */

/* -EMFILE or -ENFILE where a fault wants it; else 0. */
int ci_kfd_refused(void);

/* ---- waiting for files ---- */

/* Hears of changes. `key` has the POLL* that may have begun to hold; 0: anything may have changed.
 * wake answers whether it woke somebody: one exclusive waiter that did is enough. */
struct ci_kwaiter {
    struct ci_list link;
    struct ci_kfile *file;
    bool (*wake)(struct ci_kwaiter *waiter, unsigned key);
    /* The last reference to the file has gone: removes the waiter. NULL: it holds one itself. */
    void (*gone)(struct ci_kwaiter *waiter);
    /* ci_k.process closes a descriptor of the file. May remove the waiter. NULL: no matter. */
    void (*closed)(struct ci_kwaiter *waiter, coir_fd fd);
    bool exclusive;
};

void ci_kwaiter_add(struct ci_kwaiter *waiter, struct ci_kfile *file);
void ci_kwaiter_remove(struct ci_kwaiter *waiter); /* also one that was removed before */

/* Tells the waiters: with a key, of whom one exclusive one is enough; with 0, all. */
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

void ci_kthreads_open(void **const *locals, int local_count);
void ci_kthreads_close(void);
int ci_kthreads_run(void);
void ci_kthreads_dump(void);
struct ci_kthread *ci_kthread_start(struct ci_kprocess *process, void *(*fn)(void *arg), void *arg);

struct ci_kprocess *ci_kprocess_start(struct ci_node *node, void *(*fn)(void *arg), void *arg);
bool ci_kprocess_ended(const struct ci_kprocess *process);
void ci_kprocess_as(struct ci_kprocess *process, void (*fn)(void *arg), void *arg);
void ci_kprocess_audit(const struct ci_kprocess *process);
void ci_kprocesses_free(void);

int ci_kpipe(coir_fd ret_fds[2]);
void ci_ksignal_raise(struct ci_kprocess *process, int number);
void ci_ksocket_free_all(void);

void ci_krings_open(void);
void ci_krings_calm(void);
void ci_krings_free(void);

#endif

/* A runtime: its workers, their configuration, and starting it from plain code. */
#ifndef COIR_RUNTIME_H
#define COIR_RUNTIME_H

#include <coir/base.h>
#include <coir/loop.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A runtime. It is made by coir_runtime_new, or by coir_main for the time of a program. */
typedef struct coir_runtime coir_runtime;

/* A task's function: returns 0 or a negative error, which goes to the task's scope. A positive
 * result is for the task's handle alone; where there is none it is dropped, which debug builds
 * (without NDEBUG, or with a sanitizer) log as a warning. */
typedef int coir_task_fn(void *arg);

/* What a runtime does when nothing can ever run again. That is so when every task waits, and there
 * is no timer, no operation in flight, no offloaded call, no waker, no plain thread that has woken
 * a task before or holds the runtime (coir_runtime_hold), and no coir_block_on. A run that another
 * event loop drives (coir_runtime_begin) is never taken for dead: the loop may send at any time. */
enum coir_deadlock {
    COIR_DEADLOCK_IGNORE, /* the run goes on sleeping */
    COIR_DEADLOCK_REPORT, /* so it does, after the waiting tasks were logged with what each waits
                             for */
    COIR_DEADLOCK_END     /* they are logged and cancelled, and the run ends with -EDEADLK */
};

/* Which variables of the environment come before what a program has set: bits for
 * coir_config.environment. The environment fills in what a configuration leaves open in any
 * case. */
enum coir_environment {
    COIR_ENVIRONMENT_WORKERS = 1, /* COIR_WORKERS=N */
    COIR_ENVIRONMENT_DRIVER = 2   /* COIR_DRIVER=NAME */
};

/* The configuration of a runtime, initialised with COIR_CONFIG. Every field but `size` may be left
 * 0: then the value in brackets is used. */
typedef struct coir_config {
    size_t size; /* sizeof(coir_config), set by COIR_CONFIG */
    /* [one per CPU that affinity and cgroup quotas leave; 1,024 at most] threads that run tasks */
    size_t workers;
    /* [the best that works] what waits for the kernel: "io_uring", "epoll" or "poll" */
    const char *driver;
    bool pin_workers; /* [false] tie worker i to the i-th available CPU */
    /* [64 KiB, four times that under sanitizers] virtual bytes of a fiber's stack; at most 1 GiB */
    size_t stack_size;
    /* [COIR_UNLIMITED] live tasks that a worker has spawned, and as many again that it has spawned
     * to run elsewhere (COIR_ANYWHERE, another worker) or into another worker's scope; a spawn past
     * it gets -EAGAIN */
    size_t tasks_max;
    size_t budget; /* [128; COIR_UNLIMITED: any number] operations a fiber may finish without
                      parking before it yields by itself */
    /* [5 s; COIR_NEVER: none] for the deferred callbacks of a cancelled fiber */
    coir_time defer_timeout;
    const coir_allocator *allocator; /* [malloc] copied; must outlive the runtime */
    coir_log_fn *log;                /* [none] */
    void *log_arg;
    bool report_overflow; /* [false] install a chained SIGSEGV handler that names the task whose
                             stack overflowed; frames larger than a page are only caught for certain
                             in code compiled with -fstack-clash-protection */
    bool stop_signals; /* [false] SIGINT and SIGTERM cancel the tasks of every runtime that asks for
                          this and runs; a second signal ends the program; if that is the
                          first process of a container, by an exit with 128 + its number */
    size_t offload_threads_max; /* [32; COIR_UNLIMITED: 65,536, the most] threads for coir_offload;
                                   started as they are needed, gone when idle */
    /* [COIR_UNLIMITED] calls of coir_offload that may wait for a thread; another one is refused. It
     * does not count calls on files, for which file_calls_max holds */
    size_t offload_queue_max;
    /* [COIR_DEADLOCK_IGNORE] what to do when nothing can ever run again */
    enum coir_deadlock deadlock;
    /* [10 s; COIR_NEVER: until they end] how long background tasks may go on after a stop */
    coir_time drain_timeout;
    /* [0] enum coir_environment, added up: which variables come before what is set here */
    unsigned environment;
    /* ["system"] what finds the addresses of names (coir/name.h): "system", or "c-ares" where coir
     * was built with it: only name servers and /etc/hosts, no threads, and answers are kept for as
     * long as they say. Borrowed until the runtime is freed */
    const char *resolver;
    /* [those of /etc/resolv.conf] for c-ares: "192.0.2.1:53,[2001:db8::1]:53". Borrowed until the
     * runtime is freed */
    const char *name_servers;
    /* [8; COIR_UNLIMITED: 1,024, the most] threads that ask the system for names (coir/name.h) */
    size_t name_threads_max;
    /* [1,024; COIR_UNLIMITED] answers about names that are kept, the ones used last */
    size_t name_cache_max;
    /* [10 s; COIR_NEVER] how long an answer is kept that does not say how long it holds: the
     * system's do not */
    coir_time name_cache_time;
    /* [256; COIR_UNLIMITED] calls on files (coir/file.h) that a worker has in flight, with the
     * kernel or on threads of the pool; the others wait for their turn, and none is refused */
    size_t file_calls_max;
    /* [COIR_NEVER: none are reported] how long a worker may run tasks and callbacks without a look
     * at its events. While that takes longer, a warning with the task's name and its stack is
     * logged, from a thread of its own: see coir_loop_watchdog_start. It brings report_overflow
     * with it, and reads the clock before each callback */
    coir_time slow_turn;
    /* [false; COIR_STACK_USE=1 in the environment] measure how much of their stacks fibers use, by
     * the names of tasks, for coir_metrics_text: a system call whenever a fiber parks or ends, and
     * stacks are zeroed when they are given back. Generators are left out */
    bool stack_use;
    /* [COIR_NEVER: none are reported] look so often, and at least every 10 ms apart, for what a
     * dump (coir/dump.h) would find wrong: tasks that have waited for each other for so long, locks
     * whose holder has ended, scopes left open, tasks that wait for a lock while its holder
     * computes without a wait. Each is logged once, as a warning with the tasks and places, of
     * 1,024 at a time. Every look halts the workers, which are waited for 2 ms at most, while it
     * passes all tasks: some 400 instructions and 16 bytes for each, so about a millisecond for
     * 10,000 of them. It copies those that wait for a lock which a task holds, without their
     * stacks; only of what it is about to log a second look takes them, of 128 tasks at most. Looks
     * are so far apart that workers are halted for 1 % of the time at most. It sets slow_turn, too,
     * where that is not set */
    coir_time report_stalls;
} coir_config;

#define COIR_CONFIG                                                                \
    {                                                                              \
        sizeof(coir_config), 0, 0, false, 0, 0, 0, 0, 0, 0, 0, false, false, 0, 0, \
            COIR_DEADLOCK_IGNORE, 0, 0, 0, 0, 0, 0, 0, 0, 0, false, 0              \
    }

/* Makes a runtime; starts nothing. `config` may be NULL: all defaults. Where no driver is named,
 * io_uring is tried, and epoll where that does not work: all workers have the same, and the log
 * says why.
 * Suspends: no.  Threads: any.  Owns: *ret_runtime is the caller's, freed by coir_runtime_free.
 * Errors: -EINVAL a number out of its bounds, bad configuration or unknown driver: the log says
 * which; -ENOMEM; -EMFILE; -COIR_EUNSIZED; -COIR_ENEWER; what kept a driver that was named from
 * working. */
COIR_API int coir_runtime_new(const coir_config *config, coir_runtime **ret_runtime);

/* Runs a runtime, with `fn(arg)` as the first task, until all tasks have ended. The calling thread
 * is worker 0; the others get threads of their own. Returns the result of that task, once it and
 * all background tasks (those spawned with a NULL scope) have ended. If it is an error, the
 * background tasks are cancelled. One run at a time; a runtime whose run has ended may be run
 * again. The run ends, for all workers at once, when the last task ends. What would start another
 * one from then on (a spawn by a posted call, coir_runtime_post, coir_block_on) is refused with
 * -COIR_EENDED. Either all workers have threads, or `fn` is not started.
 * Suspends: no (it blocks).  Threads: a plain one.
 * Errors: the first task's; -EDEADLK (COIR_DEADLOCK_END); -EBUSY a run is in progress, or a worker
 * calls; -EAGAIN a thread could not be started; -EINVAL no function; -ENOMEM. */
COIR_API int coir_runtime_run(coir_runtime *runtime, coir_task_fn *fn, void *arg);

/* Asks the run of a runtime to end. Its first task is cancelled at once, and the background tasks
 * when drain_timeout is over; until then they go on, and more may be spawned. Called again, it
 * cancels them at once. While no run is in progress it is meant for the next one: that one's first
 * task is cancelled before it starts. Safe in a signal handler.
 * Suspends: no.  Threads: any. */
COIR_API void coir_runtime_stop(coir_runtime *runtime);

/* Begins a run in a program that has an event loop of its own. It starts `fn(arg)` as the first
 * task and the threads of the other workers; the caller drives worker 0. It calls
 * coir_runtime_step when coir_runtime_fd is readable or the time coir_runtime_next has come, until
 * that returns 0, and then coir_runtime_end. Worker 0 is on epoll where no driver is named.
 * Suspends: no.  Threads: a plain one, and the same for all of these calls.
 * Errors: those of coir_runtime_run but -EDEADLK; -ENOTSUP the driver has no descriptor to wait
 * for. */
COIR_API int coir_runtime_begin(coir_runtime *runtime, coir_task_fn *fn, void *arg);

/* The descriptor that is readable when coir_runtime_step has something to do. Before the run has
 * begun it chooses worker 0's driver.
 * Suspends: no.  Threads: that of coir_runtime_begin.
 * Errors: -ENOTSUP the driver has none; -ENOMEM; -EMFILE. */
COIR_API coir_fd coir_runtime_fd(coir_runtime *runtime);

/* The time at which coir_runtime_step has something to do, even if the descriptor is not readable.
 * 0: now; COIR_NEVER: only when the descriptor is readable.
 * Suspends: no.  Threads: that of coir_runtime_begin. */
COIR_API coir_time coir_runtime_next(coir_runtime *runtime);

/* Runs what is ready on worker 0, and never waits. Returns 1, or 0 when no task is left, or no run
 * was begun.
 * Suspends: no.  Threads: that of coir_runtime_begin.
 * Errors: none. */
COIR_API int coir_runtime_step(coir_runtime *runtime);

/* Ends a run that coir_runtime_begin began, and returns its result. It is called after
 * coir_runtime_step has returned 0, and waits for the threads of the other workers.
 * Suspends: no (it blocks).  Threads: that of coir_runtime_begin.
 * Errors: the first task's; -EBUSY a task is left; -EINVAL no run was begun. */
COIR_API int coir_runtime_end(coir_runtime *runtime);

/* Holds a runtime: while it is held, it is not taken for dead when all of its tasks wait. Call it
 * from a plain thread that will send to the runtime later. coir_runtime_free waits until the
 * runtime has been released as often as it was held.
 * Suspends: no.  Threads: any. */
COIR_API void coir_runtime_hold(coir_runtime *runtime);

/* Takes one coir_runtime_hold back.
 * Suspends: no.  Threads: any. */
COIR_API void coir_runtime_release(coir_runtime *runtime);

/* Frees a runtime that does not run. It waits until every hold has been released, and makes the
 * calls that were posted to a runtime that never ran. Takes NULL.
 * Suspends: no (it blocks).  Threads: a plain one. */
COIR_API void coir_runtime_free(coir_runtime *runtime);

/* The runtime of the calling worker, or NULL on other threads.
 * Suspends: no.  Threads: any. */
COIR_API coir_runtime *coir_runtime_current(void);

/* How many workers a runtime has.
 * Suspends: no.  Threads: any. */
COIR_API size_t coir_worker_count(const coir_runtime *runtime);

/* The index of the calling worker in its runtime.
 * Suspends: no.  Threads: any.
 * Errors: -ESRCH the calling thread is no worker. */
COIR_API int coir_worker_index(void);

/* The loop of the calling worker, or NULL on other threads. It takes watches, timers and hooks
 * (coir/loop.h) as any other loop does; their functions are called between tasks, must not block,
 * and cannot suspend. They do not keep a run going. What is started when a run ends stays so for
 * the next one; it is stopped before the runtime is freed.
 * Suspends: no.  Threads: any. */
COIR_API coir_loop *coir_worker_loop(void);

/* Calls `fn(arg)` on a worker, outside of any task. It must not block, and cannot suspend. The
 * calls of one sender are made in their order. A call posted before the run starts is made when it
 * starts. One that is still waiting when the run has ended, or when a runtime that never ran is
 * freed, is made then, on no worker.
 * Suspends: no.  Threads: any.
 * Errors: -COIR_EENDED the last run has ended, and no other has begun; -EINVAL no such worker;
 * -ENOMEM. */
COIR_API int coir_runtime_post(coir_runtime *runtime, int index, void (*fn)(void *arg), void *arg);

/* Runs `start(arg)` as the first task of a whole program. Its runtime has the default
 * configuration, overflow reports, stop signals, an end to deadlocks and a log to standard error.
 * In the environment, COIR_WORKERS=N and COIR_DRIVER=NAME choose workers and driver, and
 * COIR_LOG=LEVEL the least important lines that are logged: none, error, warning, info [the
 * default] or debug. Where the standard input, output or error is closed, its number is kept from
 * other descriptors: using it fails with -EBADF. SIGQUIT has a dump of all tasks (coir/dump.h)
 * written to standard error, and the program goes on; one that handles or ignores SIGQUIT before
 * the call, or later, keeps that. Returns an exit status: 0, or 1 after logging the error (being
 * cancelled by a stop signal is no error).
 * Suspends: no (it blocks).  Threads: main.
 * Errors: none: the status says it. */
COIR_API int coir_main(coir_task_fn *start, void *arg);

/* Logs a line, cut at 511 bytes, by the log function of the calling worker's runtime. Without
 * either it does nothing.
 * Suspends: no.  Threads: any. */
COIR_API void coir_log(enum coir_log_level level, const char *format, ...) COIR_PRINTF(2, 3);

/* What a runtime counts since it was made, summed over its workers; coir_counters_get fills it
 * in. */
typedef struct coir_counters {
    size_t size;            /* sizeof(coir_counters), set by COIR_COUNTERS: so much is filled in */
    uint64_t tasks_started; /* since the runtime was made */
    uint64_t tasks_live;    /* that have not ended */
    uint64_t stacks_live;   /* that a fiber or generator uses */
    uint64_t stacks_cached; /* that are kept for the next one */
    uint64_t resumes;       /* times a task was given the CPU */
    uint64_t driver_waits;  /* times a worker asked its driver for events */
    uint64_t wakeups_sent;  /* times a worker was woken out of its sleep by another thread */
    uint64_t task_errors;   /* tasks of serving scopes that ended with an error */
} coir_counters;

#define COIR_COUNTERS                                 \
    {                                                 \
        sizeof(coir_counters), 0, 0, 0, 0, 0, 0, 0, 0 \
    }

/* Reads the counters of a runtime, as many as fit `ret_counters->size`; approximate while it runs.
 * Suspends: no.  Threads: any.
 * Errors: -COIR_EUNSIZED. */
COIR_API int coir_counters_get(const coir_runtime *runtime, coir_counters *ret_counters);

#ifdef __cplusplus
}
#endif

#endif

/* Tasks, fibers, scopes, workers and the runtime: their shapes. What they do is in the files of
 * their names.
 *
 * 1. Only its worker touches a task, from its start to its end; before and after, the worker that
 * spawned it and its scope's home worker do, one after the other (remote.c).
 * 2. A task's record goes when its scope has taken its result; a fiber's stack goes before that,
 * when its function has returned.
 * 3. worker->runnable and worker->fiber say what runs now; fiber is NULL while the worker's own
 * stack runs.
 */
#ifndef CI_TASK_TASK_H
#define CI_TASK_TASK_H

#include <signal.h>

#include "base/list.h"
#include "base/options.h"
#include "base/pool.h"
#include "coir/deadline.h"
#include "coir/fiber.h"
#include "coir/runtime.h"
#include "coir/scope.h"
#include "loop/loop.h"
#include "sys/context.h"
#include "sys/fork.h"
#include "sys/gate.h"
#include "sys/lock.h"
#include "sys/misuse.h"
#include "sys/signal.h"
#include "sys/stack.h"
#include "task/offload.h"
#include "task/waiter.h"
#include "task/waker.h"

/* ---- cancel scopes: what a runnable is inside of, innermost first ---- */

enum ci_cancel_scope_kind {
    CI_CANCEL_SCOPE_DEADLINE = 1,
    CI_CANCEL_SCOPE_SHIELD,
    CI_CANCEL_SCOPE_TASKS
};

struct ci_cancel_scope {
    struct ci_cancel_scope *outer;
    struct ci_runnable *runnable; /* NULL: entered outside of a fiber, does nothing */
    uint8_t kind;
    bool expired; /* a deadline that has passed */
};

struct ci_deadline {
    struct ci_cancel_scope cancel_scope;
    struct ci_timer timer;
};
CI_LEAVES_SPARE_WORDS(struct ci_deadline, coir_cancel_scope);

/* ---- stackful calls: a future that runs a function on a stack of its own ---- */

struct ci_call {
    coir_future future;
    /* the root of a task without a stack: NULL, and `arg` is the task's outermost future */
    coir_task_fn *fn;
    void *arg;
};
CI_LEAVES_SPARE_WORDS(struct ci_call, coir_call);

extern const coir_future_kind ci_call_kind;

/* A call to be awaited by a stackless frame, or the root of a fiber's task. */
static inline coir_future *ci_call_init(struct ci_call *call, coir_task_fn *fn, void *arg)
{
    *call = (struct ci_call){{&ci_call_kind, NULL, 0, 0}, fn, arg};
    return &call->future;
}

/* ---- tasks ---- */

struct ci_task {
    struct ci_runnable runnable;

    /* set at each spawn */
    struct ci_scope *scope;
    struct ci_list sibling;
    /* its future is constant, but for a task without a stack that has not been polled */
    struct ci_call root;

    /* zero in a record that is not used */
    struct ci_handle *handle;
    const char *name;
    struct ci_local *locals;
    bool remote;     /* a struct ci_remote_task */
    uint16_t copied; /* bytes of the argument that were copied at spawn */

    /* set when the record is made */
    coir_future end; /* what the task's root returns to */
    struct ci_worker *worker;
};

/* A task of which not everything is on one worker: see remote.c. */
struct ci_remote_task {
    struct ci_task task;
    struct ci_worker *origin; /* where it was spawned */

    /* between the origin and the worker that runs it */
    struct ci_message cancel;
    bool cancel_sent;   /* the origin's */
    bool cancel_seen;   /* the runner's, until it has sent the end */
    bool ended;         /* the runner's */
    bool awaits_answer; /* the origin's: the end has come, the cancel message is still on its way */
    int32_t reason;

    /* between the origin and the home of its scope, where that is another worker */
    struct ci_message membership;
    bool away;            /* from the spawn until the home has released it */
    bool over;            /* the origin's: it has ended */
    int32_t scope_reason; /* the home's: why it was asked to end */
};

struct ci_handle {
    coir_future future; /* of the one who joins */
    struct ci_runnable *waiter;
    struct ci_task *task; /* NULL: ended, or never used */
    int32_t result;
    bool used;
};
CI_LEAVES_SPARE_WORDS(struct ci_handle, coir_handle);
_Static_assert(offsetof(struct ci_task, runnable) == 0, "see ci_runnable_is_branch");

struct ci_local {
    struct ci_local *next;
    const void *key;
    void *value;
    uint32_t refs;
};

/* ---- fibers ---- */

/* A callback for the fiber's end; from the worker's pool, as the fiber's own frames are gone by
 * then. */
struct ci_deferred {
    struct ci_deferred *next;
    void (*fn)(void *arg);
    void *arg;
};

enum { CI_FIBER_OP_WORDS = 20 };

struct ci_fiber {
    struct ci_stack_free free; /* the stack cache's */
    struct ci_context context; /* these two also begin a generator */
    coir_future back;          /* what the fiber's calls return to */
    struct ci_runnable *runnable;
    struct ci_call *call;             /* the stackful call that it runs */
    struct ci_deferred *deferred;     /* newest first */
    struct coir_generator *generator; /* the innermost one that runs on it, or NULL */
    void (*before_park)(void *arg);   /* called each time before it parks; must not suspend */
    void *before_park_arg;
    uint64_t op[CI_FIBER_OP_WORDS]; /* the future of the straight-line call in progress */
    struct ci_stack_view view;
};

extern const coir_future_kind ci_fiber_kind;

/* The place for that future; each type is checked where it is defined. */
#define CI_FIBER_OP(fiber, type) ((type *)(void *)(fiber)->op)
#define CI_FIBER_OP_FITS(type) \
    _Static_assert(sizeof(type) <= CI_FIBER_OP_WORDS * sizeof(uint64_t), #type " does not fit")

/* A sleep, for those that embed one. */
struct ci_sleep_op {
    coir_future future;
    struct ci_runnable *runnable;
    struct ci_timer timer;
};

static inline struct ci_fiber *ci_fiber_of(coir_future *back)
{
    return ci_container_of(back, struct ci_fiber, back);
}

/* ---- scopes ---- */

struct ci_scope {
    struct ci_cancel_scope cancel_scope;
    struct ci_worker *home; /* NULL: not open */
    struct ci_list tasks;
    size_t live;
    int32_t arriving; /* spawned by other workers, and not in `tasks` yet */
    uint64_t errors;
    int32_t error;     /* the first one */
    int32_t interrupt; /* why everything in it was asked to end, when that came from outside */
    bool serving, cancelled, root;
    coir_future *waiter;
};
CI_LEAVES_SPARE_WORDS(struct ci_scope, coir_scope);

static inline struct ci_scope *ci_scope_of(coir_scope *scope)
{
    return (struct ci_scope *)(void *)scope;
}

void ci_scope_init(struct ci_scope *scope, struct ci_worker *home, bool serving);

/* Asks every task of the scope to end, because what is around it was: -ECANCELED or -ETIME. */
void ci_scope_interrupt(struct ci_scope *scope, int reason);

/* Starts `fn(arg)` on each worker of the runtime. */
int ci_go_on_every_worker(coir_scope *scope, const char *name, coir_task_fn *fn, void *arg);

/* The end of a task whose result is in task->end, on its worker. */
void ci_task_end(struct ci_task *task);

/* Puts a task into a scope, or takes one off that has ended; on the scope's home worker. */
void ci_scope_add(struct ci_scope *scope, struct ci_task *task);
void ci_scope_remove(struct ci_scope *scope, struct ci_task *task);

void ci_task_make_record(struct ci_task *task, struct ci_worker *worker);

/* Hands the result to the task's handle and frees its copied argument; on the worker that spawned
 * it. */
void ci_task_give_result(struct ci_task *task);
void ci_task_free_argument(struct ci_task *task, struct ci_worker *origin);

/* Remote tasks: taken, placed, ended; cancelled by who spawned one, and by its scope. */
struct ci_task *ci_remote_task_take(struct ci_worker *origin);
void ci_remote_task_drop(struct ci_task *task); /* instead of being placed */
void ci_remote_task_start(struct ci_task *task, int placement);
void ci_remote_task_end(struct ci_task *task);
void ci_remote_task_cancel(struct ci_task *task, int reason);
void ci_remote_member_cancel(struct ci_task *task, int reason);

/* Starts a task whose outermost future may free itself: it leaves its result with its caller. */
int ci_go_future(coir_scope *scope, const char *name, coir_future *root, struct ci_task **ret_task);

/* ---- interruption ---- */

/* Asks a runnable of the calling worker to end: its suspending calls return `reason` from now on,
 * and what it waits for is withdrawn. */
void ci_runnable_cancel(struct ci_runnable *runnable, int reason);

/* What interrupts a runnable from inside of its cancel scope `outer`; with NULL, or one of another
 * runnable: altogether. */
int ci_runnable_interrupted_inside(const struct ci_runnable *runnable,
                                   const struct ci_cancel_scope *outer);

void ci_cancel_scope_enter(struct ci_cancel_scope *cancel_scope, struct ci_runnable *runnable,
                           enum ci_cancel_scope_kind kind);
void ci_cancel_scope_leave(struct ci_cancel_scope *cancel_scope);

/* ---- workers ---- */

struct ci_posts {
    struct ci_pool own;
    void *foreign; /* of one other worker, to be sent home */
    unsigned foreign_count;
};

struct ci_warnings {
    struct ci_timer timer; /* started while warnings are suppressed */
    coir_time since;       /* start of the second in which `lines` were logged */
    unsigned lines;
    uint64_t suppressed;
};

void ci_warnings_init(struct ci_warnings *warnings);
void ci_warnings_done(struct ci_worker *worker);

void ci_posts_init(struct ci_posts *posts, const coir_allocator *allocator);

struct ci_worker {
    struct coir_loop loop;

    /* the scheduler's */
    CI_CACHE_ALIGNED struct ci_runnable *ready;
    struct ci_runnable **ready_tail;
    struct ci_runnable *runnable; /* what runs; NULL between turns */
    struct ci_fiber *fiber;       /* the one on whose stack it runs, or NULL */
    int32_t budget;               /* operations that it may still finish without parking */
    int32_t budget_max;           /* what it is set to at each resume */
    int32_t switches_left;        /* before the loop looks at the clock */
    /* what it is set to; 0: every switch goes by the worker's own stack */
    int32_t switches_max;
    /* what a fiber that ended leaves for the worker's own stack to go on with */
    coir_future *handover;
    struct ci_context context;
    struct ci_stack_view view;         /* of the thread's stack */
    uint32_t rotation;                 /* where the next coir_any begins */
    uint64_t polled_at, poll_interval; /* ticks of the processor's clock */
    uint64_t resumes;

    /* pools */
    struct ci_stacks stacks;
    struct ci_timer trim; /* of stacks and pools, after a burst */
    /* there may be something to trim: the timer is set after tasks have run */
    bool grown;
    bool trimmed; /* the last look put something aside */
    struct ci_pool tasks, remote_tasks, locals, copies, deferred;
    struct ci_posts posts;

    struct ci_scope root;  /* tasks without another scope: see background.c */
    struct ci_timer drain; /* after a stop, until they are cancelled */
    struct ci_warnings warnings;
    bool was_stopped, told_deadlock, told_dropped;
    int32_t blind; /* why its driver cannot wait any more; 0: it can */
    bool stuck;    /* it sleeps, and nothing of its own will ever wake it */
    uint64_t tasks_started, task_errors;
    struct coir_runtime *runtime;
    int index;
    struct ci_thread thread;
    void *signal_stack;                     /* of the report of overflows */
    stack_t signal_stack_before;            /* what the thread had under it */
    struct ci_worker *next_watched;         /* overflow.c's */
    struct ci_worker_extension *extensions; /* what upper layers keep per worker */
};

extern CI_THREAD_LOCAL struct ci_worker *ci_worker_current;

/* What an upper layer keeps per worker: found by key, freed with the worker. */
struct ci_worker_extension {
    struct ci_worker_extension *next;
    const void *key;
    void (*free)(struct ci_worker_extension *extension, const coir_allocator *allocator);
    /* gives back what a burst needed. NULL: nothing */
    enum ci_trim (*trim)(struct ci_worker_extension *extension);
    /* objects of its pools that are in use, for the audit */
    size_t (*live)(const struct ci_worker_extension *extension);
    const char *what; /* and what they are */
};

struct ci_worker_extension *ci_worker_find_extension(struct ci_worker *worker, const void *key);
void ci_worker_add_extension(struct ci_worker *worker, struct ci_worker_extension *extension);

/* What an upper layer keeps per runtime: found by key, freed with the runtime, after every task and
 * before the workers. */
struct ci_runtime_extension {
    struct ci_runtime_extension *next;
    const void *key;
    void (*free)(struct ci_runtime_extension *extension);
    /* whether a task waits for a thread of its */
    bool (*is_awaited)(struct ci_runtime_extension *extension);
};

/* From any worker. If there is one of that key already, add leaves it, and answers with it. */
struct ci_runtime_extension *ci_runtime_find_extension(coir_runtime *runtime, const void *key);
struct ci_runtime_extension *ci_runtime_add_extension(coir_runtime *runtime,
                                                      struct ci_runtime_extension *extension);
bool ci_runtime_extensions_awaited(coir_runtime *runtime);

/* The calling thread's stack is the worker's own from now on. */
void ci_worker_adopt_thread(struct ci_worker *worker);

void ci_worker_init(struct ci_worker *worker, struct coir_runtime *runtime, int index,
                    struct ci_driver *driver);
void ci_worker_done(struct ci_worker *worker);

/* What a worker's thread does, from the begin of a run to its end. */
void ci_worker_run(struct ci_worker *worker);

/* One turn as the calling thread's worker; waits until `deadline` at most. */
void ci_worker_turn(struct ci_worker *worker, coir_time deadline);

/* Makes a stack's record, fresh or used by a generator, one that fibers can use. */
void ci_fiber_init(void *record);

/* A fiber about to run `call`, on a stack of its own; NULL when memory is out. */
struct ci_fiber *ci_fiber_new(struct ci_worker *worker, struct ci_call *call);

/* The same for a runnable whose innermost future is a call that has not begun. */
struct ci_fiber *ci_fiber_for(struct ci_worker *worker, struct ci_runnable *runnable);

/* COIR_ON_WORKER of any number: of one that no worker can have, a place that is refused. */
static inline int ci_place_of(int index)
{
    return index >= 0 && index < COIR_FIRST_WORKER ? COIR_ON_WORKER(index) : INT32_MIN;
}

/* Why a call is refused that needs a worker: no misuse for certain, for a posted call may be made
 * when its run has ended, on no worker. */
CI_COLD int ci_no_worker(void);

/* One that needs a fiber. */
CI_COLD int ci_no_fiber_in(const char *call, const void *place);
#define ci_no_fiber() ci_no_fiber_in(CI_CALL, CI_PLACE)

/* Slow paths of the inline functions below. */

/* A function of the program's has returned in a child after fork(): everything around it is the
 * parent's. */
CI_COLD CI_NORETURN void ci_exit_child(int rc);
CI_COLD int ci_refuse(struct ci_worker *worker);
void ci_budget_yield(struct ci_worker *worker);

/* ---- task-locals ---- */

/* Those of the task on whose behalf this thread runs a call outside of any task; NULL otherwise. */
extern CI_THREAD_LOCAL struct ci_local *ci_carried_locals;

struct ci_local *ci_local_inherit(struct ci_local *locals);
void ci_local_drop(struct ci_worker *worker, struct ci_local *locals);

/* ---- the runtime ---- */

struct coir_runtime {
    coir_config config; /* defaults filled in */
    coir_allocator allocator;
    int worker_count;
    struct ci_worker *workers;
    uint32_t run;       /* the state of its run, in one word: see run.c */
    bool asked_to_stop; /* by coir_runtime_stop, in this run or before it */
    bool simulated;

    struct ci_handle first; /* of the run's first task */
    struct ci_offload offload;
    struct ci_wakers *wakers;
    struct ci_runtime_extension *extensions; /* newest first */
    /* threads that are sending and are not of this runtime */
    int32_t visitors;
    int32_t holds;          /* plain threads that are going to send */
    bool was_visited;       /* one has, and may do so again */
    uint32_t stuck_changes; /* how often a worker got stuck or ceased to be */
    int32_t deadlocked;     /* a word: not every processor exchanges bytes */
    int32_t told;           /* workers that have logged their tasks */
    struct ci_signal_stop stop;
    int started;          /* threads, in a run; 0 outside of one */
    struct ci_gate start; /* where they wait until all of them are there */

    struct ci_lock shared_lock; /* guards `shared` and who runs its tasks */
    struct ci_runnable *shared; /* tasks that any worker may take, oldest first */
    struct ci_runnable **shared_tail;
    int32_t shared_count;
};

/* Makes a runtime on drivers of `open`'s making; neither the machine nor the environment is asked.
 * No allocator: malloc. */
typedef int ci_open_driver_fn(void *arg, int worker, const coir_allocator *allocator,
                              struct ci_driver **ret_driver);
int ci_runtime_new_on(const coir_config *config, const coir_allocator *allocator,
                      ci_open_driver_fn *open, void *arg, coir_runtime **ret_runtime);

/* Whether a configuration has the right size and only numbers within their bounds: 0 or -EINVAL. */
int ci_config_check(const coir_config *config);

/* Calls `leave` for each kind of object of which some are in use though no task is left: see
 * task/audit.c. */
typedef void ci_leave_fn(void *arg, const char *what, size_t count);
void ci_runtime_audit(const coir_runtime *runtime, ci_leave_fn *leave, void *arg);

/* What `run` adds up to: a phase, whether a stop was asked for (of this run, or outside of one for
 * the next), whether it is not to wait for the background, and how many root scopes have tasks. */
enum {
    CI_RUN_CREATED,
    CI_RUN_RUNNING,
    CI_RUN_ENDED,
    CI_RUN_SETTLED,
    CI_RUN_PHASE = 3,
    CI_RUN_STOP = 4,
    CI_RUN_STOP_AT_ONCE = 8,
    CI_RUN_ROOT = 16
};

/* No task is left, and none will start before the next run. */
static inline bool ci_run_ended(const coir_runtime *runtime)
{
    return ci_load(&runtime->run) & CI_RUN_ENDED;
}

/* Called as root scopes get their first task and lose their last. False: the run has ended, the
 * task is refused. */
bool ci_run_add_root(coir_runtime *runtime);
void ci_run_remove_root(coir_runtime *runtime);

/* Cancels everything in the run in progress, if it is, without a time for draining;
 * coir_runtime_stop outside of one stops the next. */
void ci_run_cancel(coir_runtime *runtime);

/* After its end, when no thread of the runtime is left: delivers what was sent to it. */
void ci_run_settle(coir_runtime *runtime);

/* Before it is freed: nobody sends any more, and nothing lies in an inbox. */
void ci_run_close(coir_runtime *runtime);

/* Starts the first task; afterwards the workers' turns are run until the run has ended. */
int ci_runtime_begin(coir_runtime *runtime, coir_task_fn *fn, void *arg);
void ci_runtime_alert_all(coir_runtime *runtime);
int ci_runtime_result(coir_runtime *runtime);

/* Calls `line` for each task of the runtime, children after their parents: its name and what it
 * waits for. */
typedef void ci_dump_fn(void *arg, int depth, const char *name, const char *waits_for,
                        int cancelled);
void ci_runtime_dump(const coir_runtime *runtime, ci_dump_fn *line, void *arg);
void ci_worker_dump(const struct ci_worker *worker, ci_dump_fn *line, void *arg);

/* Writes what a suspended runnable waits for, cut at `size`. */
void ci_runnable_waits_for(const struct ci_runnable *runnable, char *text, size_t size);

/* The background scope of a worker: when that is made, at the begin of a run, at a stop (at_once:
 * the second, or one that does not wait), and for a task of it that failed. */
void ci_background_init(struct ci_worker *worker);
void ci_background_begin(struct ci_worker *worker);
void ci_background_stop(struct ci_worker *worker, bool at_once);
void ci_background_failed(struct ci_task *task, int error);

/* May the worker sleep without end? Not if that was the last one, and it is decided what to do
 * about it. For the loop. */
bool ci_deadlock_may_sleep(struct coir_loop *loop);

/* A worker that was stuck has been woken. */
void ci_deadlock_awake(struct ci_worker *worker);

/* Logs the worker's tasks and what they wait for; the last worker then does what is to be done
 * about it. */
void ci_deadlock_tell(struct ci_worker *worker);

/* Sends to a worker from any thread, also from one that does not keep the runtime alive: a task of
 * it waits for the message. */
void ci_runtime_send(struct ci_worker *worker, struct ci_message *message);

/* The same where nobody may be waiting. -COIR_EENDED: the run has ended, the message was not sent.
 */
int ci_run_send(struct ci_worker *worker, struct ci_message *message);

/* Takes a task that any worker may run, if there is one. */
bool ci_runtime_take_shared(struct ci_worker *worker);

void ci_log(const coir_runtime *runtime, enum coir_log_level level, const char *format, ...)
    COIR_PRINTF(3, 4);

/* The number of a negative error, for the log: beside its text, which may be that of an unknown
 * one. */
static inline unsigned ci_error_number(int error)
{
    return 0u - (unsigned)error;
}

/* Logs a warning, rate-limited. Only on the worker's thread. */
CI_COLD void ci_warn(struct ci_worker *worker, const char *format, ...) COIR_PRINTF(2, 3);

/* The generator that resumed this one, which runs; NULL: its fiber did. Safe in a signal handler.
 */
const struct coir_generator *ci_generator_outer(const struct coir_generator *generator);

/* Installs the report of overflowed stacks for the calling worker's thread. */
int ci_overflow_watch(struct ci_worker *worker);
void ci_overflow_unwatch(struct ci_worker *worker);

/* ---- waiting: the verbs of waiter.h ---- */

/* Puts a runnable at the end of the run queue. */
static inline void ci_ready(struct ci_worker *worker, struct ci_runnable *runnable)
{
    runnable->next = NULL;
    *worker->ready_tail = runnable;
    worker->ready_tail = &runnable->next;
}

/* Queues a suspended runnable whose leaf has its result. Only on the runnable's worker. */
static inline void ci_wake(struct ci_worker *worker, struct ci_runnable *runnable,
                           coir_future *leaf)
{
    runnable->inner = leaf->caller;
    ci_ready(worker, runnable);
}

/* In a fiber: goes on with other work until `future`, which has suspended with the fiber as its
 * caller, is woken. */
void ci_park(struct ci_worker *worker);

/* In a fiber: polls `future`, parks until it is complete, and gives its result. */
int64_t ci_await(struct ci_worker *worker, coir_future *future);

/* What a suspending call does first. NULL: not in a fiber of this process, *ret_error says why. */
static inline struct ci_fiber *ci_fiber_enter_in(int *ret_error, const char *call,
                                                 const void *place)
{
    struct ci_worker *worker = ci_worker_current;
    if (ci_unlikely(!worker || !worker->fiber)) {
        *ret_error = ci_no_fiber_in(call, place);
        return NULL;
    }
    if (ci_unlikely(worker->runnable->interrupt)) {
        *ret_error = ci_refuse(worker);
        return NULL;
    }
    return worker->fiber;
}
#define ci_fiber_enter(ret_error) ci_fiber_enter_in(ret_error, CI_CALL, CI_PLACE)

/* A whole suspending call: ci_await, after it has been seen that the caller is a fiber and may
 * wait. */
static inline int64_t ci_await_in_fiber_in(coir_future *future, const char *call, const void *place)
{
    int rc = 0;
    return ci_fiber_enter_in(&rc, call, place) ? ci_await(ci_worker_current, future) : rc;
}
#define ci_await_in_fiber(future) ci_await_in_fiber_in(future, CI_CALL, CI_PLACE)

/* What a leaf's poll does first: whether it is refused, with its result set. */
static inline bool ci_leaf_refused(const struct ci_worker *worker, coir_future *leaf)
{
    leaf->result = worker->runnable->interrupt;
    return leaf->result != 0;
}

/* What the poll of a leaf that is complete answers: pays for it, and lets others run first when the
 * runnable has had its share. */
static inline coir_future *ci_leaf_complete(struct ci_worker *worker, coir_future *leaf)
{
    if (ci_likely(--worker->budget > 0))
        return leaf->caller;
    ci_wake(worker, worker->runnable, leaf);
    return NULL;
}

/* The poll of a leaf that suspends: the runnable is its own to wake. */
static inline struct ci_runnable *ci_leaf_suspend(const struct ci_worker *worker, coir_future *leaf)
{
    worker->runnable->inner = leaf;
    return worker->runnable;
}

/* What an operation of a fiber that finished without parking does last: the same. */
static inline void ci_spend(struct ci_worker *worker)
{
    if (ci_unlikely(--worker->budget <= 0))
        ci_budget_yield(worker);
}

#endif

/* The trace of a worker: a ring of its newest events. Turns and wake-ups are recorded between
 * turns, so they cost nothing where it is off: a traced worker has no direct switches left
 * (worker.h, switches_max), so that all its turns end on the worker's own stack or in
 * ci_next_fiber_traced. What a turn has woken is what it has added to the run queue, and what the
 * loop has woken is what is there when the next turn begins. Operations that wait are recorded
 * where they begin and end (trace_point.h), by one branch where it is off.
 *
 * The clock is read at the end of each turn, and when the loop has waited. What is recorded in
 * between gets the time that is read next.
 *
 * 1. Only its worker writes to a trace.
 */
#ifndef CI_TASK_TRACE_H
#define CI_TASK_TRACE_H

#include "coir/trace.h"
#include "task/stats.h"
#include "task/worker.h"

enum ci_trace_kind {
    CI_TRACE_GOES_ON,    /* the loop has waited; turns follow */
    CI_TRACE_RAN,        /* a task whose root is a function: to `at`, from the event before that has
                            a time */
    CI_TRACE_RAN_FUTURE, /* a task without a stack */
    CI_TRACE_RAN_NAMED,  /* a task of either kind that has a name */
    CI_TRACE_NAMED,      /* the task of the turn that follows: one that has no entry in stats */
    CI_TRACE_WOKE,       /* in the turn before, or by the loop */
    CI_TRACE_SPAWNED,
    CI_TRACE_TAKEN, /* from the queue that the workers share */
    CI_TRACE_WAITS, /* for an object that tasks share: after the turn */
    /* An operation that waits, from its begin to its end or withdrawal. */
    CI_TRACE_IO_BEGAN,
    CI_TRACE_IO_ENDED,
    CI_TRACE_OFFLOAD_BEGAN,
    CI_TRACE_OFFLOAD_ENDED
};

/* What an operation is. */
union ci_trace_detail {
    struct {           /* IO */
        uint32_t kind; /* enum ci_op_kind */
        int32_t value; /* BEGAN: the descriptor; ENDED: the result */
    };
    const char *what; /* WAITS: the name of the kind of future */
    coir_task_fn *fn; /* OFFLOAD */
};

struct ci_trace_event {
    union {
        struct {
            uint64_t kind : 4;
            uint64_t at : 60; /* ticks of the clock; 0: not read yet; of NAMED nothing */
        };
        uint64_t stamp; /* both, written in one go */
    };
    const void *task; /* as long as it lives it is its identity */
    union {
        struct {                /* RAN */
            const void *root;   /* its function, or the name of its outermost future's kind, or its
                                   own in the worker's stats, which stays */
            const char *awaits; /* what it waits for now; NULL: it has ended */
        };
        const void *by;     /* WOKE, SPAWNED: the task that did; NULL: the loop */
        char name[16];      /* NAMED: the beginning of it */
        struct {            /* operations */
            const void *op; /* its record, which is its identity until it ends; or the object */
            union ci_trace_detail detail;
        };
    };
};
_Static_assert(sizeof(struct ci_trace_event) == 32, "two in a cache line");

/* The turn that is being recorded. */
struct ci_trace_turn {
    struct ci_task *task; /* NULL: none is */
    const struct ci_worker *worker;
    struct ci_runnable **tail; /* of the run queue, when it began */
    const void *root;
    const void *fn; /* the task's function, or NULL; for probes */
    uint64_t began; /* ticks */
    const char *name;
    struct ci_stats_name *stats; /* by that name, or NULL */
    uint8_t kind;                /* enum ci_trace_kind */
    bool remote;                 /* the task is (remote.c) */
};

struct ci_trace {
    struct ci_trace_event *events;
    size_t size; /* a power of two */
    /* events ever recorded; the newest is events[(count - 1) % size]. Its worker writes it */
    uint64_t count;
    uint64_t now; /* ticks at the end of the last turn: one look at the clock a turn is enough */
    uint64_t undated; /* events before this one have their time */
    /* where the run queue ended when the loop went to wait: what comes after it was woken by the
     * loop */
    struct ci_runnable **tail;
    const struct ci_task *ended;      /* the remote task that has ended in this turn */
    int32_t switches_max;             /* the worker's, when it is not traced */
    uint64_t slow_turn, slow_request; /* ticks after which `recorder` is told; 0: never */
    struct ci_stats *stats;           /* the worker's */
    bool counted;                     /* they know of everything that is queued */
    bool probed;                      /* a probe was attached when the loop went on */
    bool by_probes;                   /* it lasts as long as a probe is attached */
    struct ci_trace *before;          /* replaced in this turn: freed after it */
    struct ci_recorder *recorder;     /* NULL: none */
    int (*tell)(struct ci_recorder *recorder, const char *reason);
    struct ci_trace_turn turn;
};

/* Before a runnable has its turn, and after it. */
void ci_trace_begin_turn(struct ci_trace *trace, const struct ci_worker *worker,
                         const struct ci_runnable *runnable);
void ci_trace_end_turn(struct ci_trace *trace);

static inline bool ci_trace_is_in_turn(const struct ci_trace *trace)
{
    return trace->turn.task;
}

/* An operation: see trace_point.h. */
CI_COLD void ci_trace_note(const struct ci_worker *worker, enum ci_trace_kind kind,
                           const struct ci_task *task, const void *op,
                           union ci_trace_detail detail);

/* After the loop has waited, before the first turn; and after the last one. */
void ci_trace_goes_on(struct ci_worker *worker);
void ci_trace_waits(struct ci_worker *worker);

/* The calling worker begins and ends to trace. */
int ci_trace_begin(struct ci_worker *worker, size_t size);
void ci_trace_end(struct ci_worker *worker);

/* Between turns: it begins when a probe was attached (task/probe.h), unless it traces already. */
CI_COLD void ci_trace_begin_for_probes(struct ci_worker *worker);

void ci_trace_free(struct ci_worker *worker);

/* All workers, in a fiber. -EBUSY they trace already; as coir_trace_start. */
enum ci_tracing {
    CI_TRACING_NONE,
    CI_TRACING_LEFT, /* some workers may trace: neither a start nor its end was complete */
    CI_TRACING_ASKED,
    CI_TRACING_RECORDER,
    CI_TRACING_CHANGES /* a task begins or ends it, worker by worker, or a recorder stops */
};
int ci_trace_begin_all(size_t size, enum ci_tracing by);
/* The state is `ended` then; an error: `failed`, as some workers still trace, and it may be tried
 * again. */
int ci_trace_end_all(enum ci_tracing failed, enum ci_tracing ended);

/* ---- the text (trace_text.c) ---- */

/* The events of a worker, the oldest first. */
struct ci_trace_copy {
    struct ci_trace_event *events;
    size_t count;
    int worker;
};

/* When the copies were made, on both clocks, for the conversion of ticks. */
struct ci_trace_time {
    uint64_t ticks;
    coir_time now;
    double ticks_per_us;
};

/* Writes the events of all workers as JSON: 0, or an error of write(2). */
int ci_trace_text(coir_fd fd, const struct ci_trace_copy *copies, size_t count,
                  struct ci_trace_time time);

/* The same in steps, which a signal handler may make: the memory is the caller's, of
 * ci_trace_space_size(the most events of a worker). The steps between begin and end may be left
 * out. */
struct ci_trace_space;
size_t ci_trace_space_size(size_t events);
void ci_trace_text_begin(struct ci_trace_space *space, size_t events, coir_fd fd,
                         struct ci_trace_time time);
int ci_trace_text_worker(struct ci_trace_space *space, const struct ci_trace_copy *copy);
/* Something that has happened now; `task`: the name of the task that runs, or NULL. */
void ci_trace_text_note(struct ci_trace_space *space, int worker, const char *what,
                        const char *task);
int ci_trace_text_end(struct ci_trace_space *space);

/* What a trace holds, copied by any thread while its worker goes on: the newest event, which may
 * not be complete, and the oldest, which may be overwritten meanwhile, are left out. The number of
 * events; `events` has room for trace->size of them. */
size_t ci_trace_peek(const struct ci_trace *trace, struct ci_trace_event *events);

#endif

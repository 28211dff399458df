/* The tasks of workers that are halted, copied: the tree of scopes and tasks, with the asynchronous
 * stack of each. What is written from it needs nothing of the runtimes any more. */
#ifndef CI_TASK_SNAPSHOT_H
#define CI_TASK_SNAPSHOT_H

#include "sys/frame_table.h"
#include "task/describe.h"
#include "task/halt.h"

enum { CI_SNAPSHOT_NAME = CI_HALT_NAME };

enum ci_task_state {
    CI_TASK_RUNS,      /* it calls for the dump */
    CI_TASK_READY,     /* it was woken */
    CI_TASK_NOT_BEGUN, /* its function or future has not run */
    CI_TASK_WAITS,
    CI_TASK_TRAVELS, /* it is a message between workers */
    CI_TASK_RESTS,   /* all tasks of a scope that are at rest (rest.h): the name says how many */
    CI_TASK_UNKNOWN  /* the worker that runs it does not answer: nothing else is known of it */
};

enum ci_line_kind {
    CI_LINE_FRAME,  /* of a fiber: an address of code */
    CI_LINE_FUTURE, /* a future that awaits the one before: its kind, and the kind's poll */
    CI_LINE_MEMBER  /* begins the stack of a member of a group or set, which is one deeper */
};

struct ci_snapshot_line {
    uint8_t kind, depth;
    bool exact;          /* of a frame: it goes on there; otherwise a call returns there */
    const void *address; /* of the code */
    const void *future;
    const char *name; /* of the future's kind */
};

struct ci_snapshot_task {
    const void *id;
    uint32_t number;
    const void *spawned_at; /* where the call that spawned it returns to; NULL: in the library */
    const void *scope;
    int parent;        /* the index of the task that has opened the scope, or -1: it is a root */
    int depth;         /* how many there are above it */
    int worker;        /* index in `workers`: the one in whose tree it is */
    int runner;        /* index in its runtime: the one that runs it, or -1: it is not known */
    bool has_children; /* it has scopes open */
    uint8_t state;
    char name[CI_SNAPSHOT_NAME]; /* "": it has none */
    const char *root;            /* the kind of its outermost future; NULL: it runs a function */
    const void *fn;              /* that function, or the poll of that future */
    const char *waits_for;       /* the kind of the innermost future */
    struct ci_wait_note note;
    bool left_a_scope_open; /* the function that opened one has returned */
    const void *opened_at;  /* by which call; NULL: not known any more */
    int holder;             /* the index of the task that holds what is waited for, or -1 */
    bool holder_lives;      /* it was passed, whether or not it was copied */
    coir_time waited;       /* how long it has waited */
    int32_t cancelled;      /* the reason, or 0 */
    bool has_time;          /* what it waits for has a time: in `left` ns */
    coir_time left;
    coir_time deadline; /* how long from now, or COIR_NEVER */
    size_t first_line, line_count;
};

/* A task that was passed. */
struct ci_snapshot_seen {
    const void *id;
    uint32_t number;
    int32_t index; /* of its copy; -1: it was not copied */
};

struct ci_snapshot_worker {
    int runtime, index;
    bool answered;
    int trace_error; /* of `traced`, if it has not answered */
    struct ci_traced traced;
    struct ci_holder running; /* what it runs, with its stack */
    const void *running_fn;
    char running_name[CI_HALT_NAME];
};

/* Grows as it is filled. */
struct ci_snapshot_array {
    void *items;
    size_t count, size;
};

struct ci_snapshot {
    struct ci_snapshot_array tasks, lines, workers, seen, findings, parties;
    bool whole; /* every task was passed: every worker has answered, and no task is on its way */
    /* Copies only tasks that wait for a lock that a task holds, and those that have let a scope
     * open; and those that are wanted. Only these with their stacks. */
    bool lean;
    const struct ci_holder *wanted;
    size_t wanted_count;
    uint64_t wanted_bits; /* of their addresses */
    int runtimes_left_out;
    int error; /* -ENOMEM */
    /* Whether the thread of a worker that does not answer may be interrupted for its stack; NULL:
     * yes. */
    bool (*may_interrupt)(const struct ci_worker *worker, void *arg);
    void *arg;
    coir_time stack_time; /* that such workers have to answer, all at once */
    struct ci_frame_tables tables;
    struct ci_frame_rows rows;
};

static inline struct ci_snapshot_task *ci_snapshot_task(const struct ci_snapshot *snapshot,
                                                        size_t index)
{
    return (struct ci_snapshot_task *)snapshot->tasks.items + index;
}

static inline const struct ci_snapshot_line *ci_snapshot_line(const struct ci_snapshot *snapshot,
                                                              size_t index)
{
    return (const struct ci_snapshot_line *)snapshot->lines.items + index;
}

static inline struct ci_snapshot_worker *ci_snapshot_worker(const struct ci_snapshot *snapshot,
                                                            size_t index)
{
    return (struct ci_snapshot_worker *)snapshot->workers.items + index;
}

/* An item at the end of the array, set to zero; NULL: out of memory, which becomes its error. */
void *ci_snapshot_add(struct ci_snapshot *snapshot, struct ci_snapshot_array *array,
                      size_t item_size);

/* Before the halt: what need not be done in it. Of a library that is loaded after this, frames are
 * found by frame pointers. */
void ci_snapshot_init(struct ci_snapshot *snapshot);

/* The same for a lean one, which may have been used before: its memory stays. `wanted` too, until
 * it was taken. */
void ci_snapshot_init_lean(struct ci_snapshot *snapshot, const struct ci_holder *wanted,
                           size_t wanted_count);

/* Copies everything; of workers that did not answer, the stack of the thread. 0 or -ENOMEM. */
int ci_snapshot_take(struct ci_snapshot *snapshot, const struct ci_halted *halted);
void ci_snapshot_done(struct ci_snapshot *snapshot);

#endif

/* What the library's own futures say about their wait: which object that tasks share they wait for,
 * such as a lock, in traces; and more, in a dump. */
#ifndef CI_TASK_DESCRIBE_H
#define CI_TASK_DESCRIBE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "coir/future.h"

struct ci_task;

enum { CI_NOTE_TEXT = 192 };

/* The task that holds a lock. Its record may be another task's by now, of another number. */
struct ci_holder {
    const struct ci_task *task; /* NULL: no task, or it is not known */
    uint32_t number;
};

struct ci_wait_note {
    const void *object; /* what is waited for; NULL: it has no address of its own */
    const char *name;   /* of that object, which stays; NULL: it has none */
    const void *task;   /* the task that it takes; NULL: any */
    struct ci_holder holder;
    coir_time until;         /* 0: not known */
    bool decided;            /* it has its result, and will be woken */
    char text[CI_NOTE_TEXT]; /* "" or more about it */
};

/* Called on another thread, while the worker on which the future waits is halted, but others may
 * run: it reads, and neither waits nor takes a lock. */
typedef void ci_describe_fn(const coir_future *future, struct ci_wait_note *note);

struct ci_described_kind {
    coir_future_kind future;  /* of a size that no kind of the program's has */
    size_t object_at;         /* where the future's struct has the object's address; 0: nowhere */
    ci_describe_fn *describe; /* NULL: there is no more to say */
    bool is_lock;             /* the object may be held by a task, which `describe` tells */
};
enum { CI_DESCRIBED_SIZE = sizeof(coir_future_kind) | 1 };
_Static_assert(sizeof(coir_future_kind) % 2 == 0, "task/describe.h");

#define CI_DESCRIBED_KIND(name, poll, cancel, at, describe)                \
    {                                                                      \
        {CI_DESCRIBED_SIZE, (name), poll, (cancel)}, (at), describe, false \
    }

static inline const struct ci_described_kind *ci_described_kind_of(const coir_future *future)
{
    return future->kind->size == CI_DESCRIBED_SIZE
               ? (const struct ci_described_kind *)(const void *)future->kind
               : NULL;
}

/* The object that a suspended future waits for; NULL: none. */
static inline const void *ci_object_of(const coir_future *future)
{
    const struct ci_described_kind *kind = ci_described_kind_of(future);
    return kind && kind->object_at
               ? *(const void *const *)(const void *)((const char *)future + kind->object_at)
               : NULL;
}

/* Whether the future may wait for what another task holds. */
static inline bool ci_waits_for_lock(const coir_future *future)
{
    const struct ci_described_kind *kind = ci_described_kind_of(future);
    return kind && kind->is_lock;
}

static inline void ci_describe(const coir_future *future, struct ci_wait_note *note)
{
    const struct ci_described_kind *kind = ci_described_kind_of(future);
    note->object = ci_object_of(future);
    if (kind && kind->describe)
        kind->describe(future, note);
    if (note->decided) /* the holder may be this task: nobody keeps it waiting */
        note->holder = (struct ci_holder){NULL, 0};
}

#endif

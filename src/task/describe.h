/* What a future of the library says about its wait, in a dump: more than that it waits for an
 * object (task/object.h). */
#ifndef CI_TASK_DESCRIBE_H
#define CI_TASK_DESCRIBE_H

#include "base/compiler.h"
#include "coir/future.h"
#include "task/object.h"

enum { CI_NOTE_TEXT = 192 };

struct ci_wait_note {
    const void *object;      /* what is waited for; NULL: it has no address of its own */
    const void *task;        /* the task that it takes; NULL: any */
    coir_time until;         /* 0: not known */
    char text[CI_NOTE_TEXT]; /* "" or more about it */
};

/* Called on another thread, while the worker on which the future waits is halted: it reads, and
 * neither waits nor takes a lock. */
typedef void ci_describe_fn(const coir_future *future, struct ci_wait_note *note);

/* A kind that can be described. The size, which is odd, tells it from the program's own, and from
 * that of an object. */
struct ci_described_kind {
    coir_future_kind future;
    ci_describe_fn *describe;
};
enum { CI_DESCRIBED_SIZE = sizeof(struct ci_described_kind) | 1 };
_Static_assert((int)CI_DESCRIBED_SIZE != (int)CI_OBJECT_SIZE, "task/describe.h");

#define CI_DESCRIBED_KIND(name, poll, cancel, describe)   \
    {                                                     \
        {CI_DESCRIBED_SIZE, name, poll, cancel}, describe \
    }

static inline void ci_describe(const coir_future *future, struct ci_wait_note *note)
{
    note->object = ci_object_of(future);
    if (future->kind->size == CI_DESCRIBED_SIZE)
        ((const struct ci_described_kind *)(const void *)future->kind)->describe(future, note);
}

#endif

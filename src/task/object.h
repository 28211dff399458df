/* Futures of the library that wait for an object which tasks share, such as a lock: a trace says
 * which one it is. */
#ifndef CI_TASK_OBJECT_H
#define CI_TASK_OBJECT_H

#include <stddef.h>

#include "coir/future.h"

struct ci_object_kind {
    coir_future_kind future; /* of a size that no other kind has */
    size_t object_at;        /* where the future's struct has the address of the object */
};
enum { CI_OBJECT_SIZE = sizeof(coir_future_kind) | 1 };
#define CI_OBJECT_KIND(name, poll, cancel, at)       \
    {                                                \
        {CI_OBJECT_SIZE, (name), poll, (cancel)}, at \
    }
_Static_assert(sizeof(coir_future_kind) % 2 == 0, "task/object.h");

/* The object that a suspended future waits for; NULL: it is of another kind. */
static inline const void *ci_object_of(const coir_future *future)
{
    if (future->kind->size != CI_OBJECT_SIZE)
        return NULL;
    const struct ci_object_kind *kind = (const struct ci_object_kind *)(const void *)future->kind;
    return *(const void *const *)(const void *)((const char *)future + kind->object_at);
}

#endif

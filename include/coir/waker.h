/* Waking a task from anywhere: other threads, foreign event loops, callbacks of libraries.
 *
 * A task makes a parker and hands out wakers of it. coir_parker_wait waits until one of them has
 * woken it since the last time. A wake-up before the wait is kept; several are one. A waker that
 * is used when its parker is gone does nothing. */
#ifndef COIR_WAKER_H
#define COIR_WAKER_H

#include <coir/select.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coir_waker coir_waker;

/* The functions of a kind of wakers; initialise it with COIR_WAKER_VTABLE. All may be called from
 * any thread, and never suspend. */
typedef struct coir_waker_vtable {
    size_t size;                     /* sizeof(coir_waker_vtable) */
    coir_waker (*clone)(void *data); /* another waker of the same, to be used up like any */
    void (*wake)(void *data);        /* wakes, and uses the waker up */
    void (*wake_by_ref)(void *data); /* wakes; the waker stays */
    void (*drop)(void *data);        /* uses the waker up without waking */
} coir_waker_vtable;

#define COIR_WAKER_VTABLE(clone, wake, wake_by_ref, drop)         \
    {                                                             \
        sizeof(coir_waker_vtable), clone, wake, wake_by_ref, drop \
    }

/* A waker: two words, to be kept and copied by any executor. It, and each clone of it, is used up
 * once: woken or dropped. */
struct coir_waker {
    const coir_waker_vtable *vtable; /* its functions */
    void *data;                      /* what they get */
};

/* Another waker of the same: each is woken or dropped once.
 * Suspends: no.  Threads: any.  Owns: the result is the caller's, to be woken or dropped. */
static inline coir_waker coir_waker_clone(const coir_waker *waker)
{
    return waker->vtable->clone(waker->data);
}

/* Wakes the task that a waker is for, and uses the waker up.
 * Suspends: no.  Threads: any.  Owns: the waker is the call's. */
static inline void coir_waker_wake(coir_waker waker)
{
    waker.vtable->wake(waker.data);
}

/* Wakes the task that a waker is for, and keeps the waker.
 * Suspends: no.  Threads: any. */
static inline void coir_waker_wake_by_ref(const coir_waker *waker)
{
    waker->vtable->wake_by_ref(waker->data);
}

/* Gives a waker up without waking.
 * Suspends: no.  Threads: any.  Owns: the waker is the call's. */
static inline void coir_waker_drop(coir_waker waker)
{
    waker.vtable->drop(waker.data);
}

/* Whether two wakers wake the same.
 * Suspends: no.  Threads: any. */
static inline bool coir_waker_will_wake(const coir_waker *a, const coir_waker *b)
{
    return a->vtable == b->vtable && a->data == b->data;
}

/* What a task waits at until a waker of it wakes the task: coir_parker_init. */
typedef struct coir_parker {
    coir_future future;
    uint64_t opaque[6];
} coir_parker;

/* Makes a parker of the calling task. What its wakers refer to comes from malloc, not from the
 * runtime's allocator: wakers may outlive the runtime.
 * Suspends: no.  Threads: worker, in a task.  Owns: *parker is the caller's, and ended by
 * coir_parker_done.
 * Errors: -ENOMEM; -ESRCH not in a task. */
COIR_API int coir_parker_init(coir_parker *parker);

/* Ends a parker in which no task waits: a wait that was woken has returned, too. Wakers of it do
 * nothing from now on.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_parker_done(coir_parker *parker);

/* Makes a waker of a parker, to be given away: it is woken or dropped once.
 * Suspends: no.  Threads: owner.  Owns: the result is the caller's, to be woken or dropped. */
COIR_API coir_waker coir_parker_waker(coir_parker *parker);

/* Waits until a parker is woken; returns at once if it was woken since the last wait.
 * Suspends: yes.  Threads: owner.
 * Errors: -EBUSY a task waits already.
 * Cancel safety: a wake-up that came is kept for the next wait. */
COIR_SUSPENDS int coir_parker_wait(coir_parker *parker);
COIR_API coir_future *coir_parker_wait_op(coir_parker *parker);

/* A wake-up of a parker, as a case of coir_select. As coir_parker_wait. */
COIR_API coir_case coir_case_parker(coir_parker *parker);

#ifdef __cplusplus
}
#endif

#endif

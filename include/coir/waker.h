/* Waking a task from anywhere: other threads, foreign event loops, callbacks of libraries.
 *
 * A task makes a parker and hands out wakers of it. coir_parker_wait waits until one of them has
 * woken it since the last time. A wake-up before the wait is kept; several are one. A waker that is
 * used when its parker is gone does nothing. */
#ifndef COIR_WAKER_H
#define COIR_WAKER_H

#include <coir/select.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Two words, to be kept and copied by anybody's executor: whoever makes a waker fills in the
 * functions. `wake` uses the waker up, `wake_by_ref` does not; every clone is woken or dropped
 * once. All may be called from any thread, and suspend nowhere. */
typedef struct coir_waker coir_waker;
typedef struct coir_waker_vtable {
    size_t size; /* sizeof(coir_waker_vtable) */
    coir_waker (*clone)(void *data);
    void (*wake)(void *data);
    void (*wake_by_ref)(void *data);
    void (*drop)(void *data);
} coir_waker_vtable;

#define COIR_WAKER_VTABLE(clone, wake, wake_by_ref, drop)         \
    {                                                             \
        sizeof(coir_waker_vtable), clone, wake, wake_by_ref, drop \
    }

struct coir_waker {
    const coir_waker_vtable *vtable;
    void *data;
};

/* What its functions do, for every waker.
 * Suspends: no.  Threads: any. */
static inline coir_waker coir_waker_clone(const coir_waker *waker)
{
    return waker->vtable->clone(waker->data);
}
static inline void coir_waker_wake(coir_waker waker)
{
    waker.vtable->wake(waker.data);
}
static inline void coir_waker_wake_by_ref(const coir_waker *waker)
{
    waker->vtable->wake_by_ref(waker->data);
}
static inline void coir_waker_drop(coir_waker waker)
{
    waker.vtable->drop(waker.data);
}

/* Whether both wake the same. */
static inline bool coir_waker_will_wake(const coir_waker *a, const coir_waker *b)
{
    return a->vtable == b->vtable && a->data == b->data;
}

typedef struct coir_parker {
    coir_future future;
    uint64_t opaque[6];
} coir_parker;

/* Makes a parker of the calling task's; it is closed before it goes, while nobody waits for it.
 * What its wakers refer to comes from malloc, not from the runtime's allocator: wakers may outlive
 * the runtime.
 * Suspends: no.  Threads: worker; close: owner.
 * Errors: -ENOMEM; -ESRCH. */
COIR_API int coir_parker_init(coir_parker *parker);
COIR_API void coir_parker_done(coir_parker *parker);

/* A waker of it, to be given away: woken or dropped once.
 * Suspends: no.  Threads: owner. */
COIR_API coir_waker coir_parker_waker(coir_parker *parker);

/* Waits until it is woken, or has been since the last wait.
 * Suspends: yes.  Threads: owner.
 * Cancel safety: a wake-up that came is kept for the next wait. */
COIR_SUSPENDS int coir_parker_wait(coir_parker *parker);
COIR_API coir_future *coir_parker_wait_op(coir_parker *parker);
COIR_API coir_case coir_case_parker(coir_parker *parker);

#ifdef __cplusplus
}
#endif

#endif

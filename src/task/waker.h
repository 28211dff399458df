/* The cells that public wakers point at. */
#ifndef CI_TASK_WAKER_H
#define CI_TASK_WAKER_H

#include "base/list.h"
#include "sys/lock.h"

struct coir_runtime;

/* Freed with its runtime or with the last waker, whichever is later. */
struct ci_wakers {
    struct ci_lock lock;
    struct ci_list open; /* cells whose parkers are open */
    struct ci_list free;
    size_t live; /* cells that are not free, and one for the runtime */
};

struct ci_wakers *ci_wakers_new(void);

/* Called when the runtime is freed: the remaining wakers do nothing from now on. `wakers` may be
 * NULL. */
void ci_wakers_abandon(struct ci_wakers *wakers);

/* The number of cells that are held by an open parker or by a waker. */
size_t ci_wakers_live(const struct ci_wakers *wakers);

/* Whether any open parker has a waker. */
bool ci_wakers_exported(struct ci_wakers *wakers);

#endif

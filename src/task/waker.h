/* The cells that public wakers point at. */
#ifndef CI_TASK_WAKER_H
#define CI_TASK_WAKER_H

#include "base/list.h"
#include "sys/lock.h"

struct coir_runtime;

/* Goes with its runtime or with the last waker, whichever is later. */
struct ci_wakers {
    struct ci_lock lock;
    struct ci_list open; /* cells whose parkers are open */
    struct ci_list free;
    size_t live; /* cells that are not free, and one for the runtime */
};

struct ci_wakers *ci_wakers_new(void);

/* The runtime ends: what is left of its wakers does nothing from now on. Takes NULL. */
void ci_wakers_abandon(struct ci_wakers *wakers);

/* How many cells somebody holds: by a parker that is open, or a waker. */
size_t ci_wakers_live(const struct ci_wakers *wakers);

/* Whether anybody has a waker of an open parker. */
bool ci_wakers_exported(struct ci_wakers *wakers);

#endif

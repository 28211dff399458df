/* Where objects of this layer, which any thread may make, get their memory. */
#ifndef CI_SYNC_ALLOCATOR_H
#define CI_SYNC_ALLOCATOR_H

#include "task/current.h"
#include "task/runtime.h"

/* The allocator of the calling worker's runtime; the system's on a plain thread. */
static inline const coir_allocator *ci_allocator_here(void)
{
    return ci_worker_current ? &ci_worker_current->runtime->allocator : &ci_system_allocator;
}

#endif

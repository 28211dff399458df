/* Naming a lock, for metrics and dumps (task/lock_counts.h). */
#ifndef CI_SYNC_LOCK_NAME_H
#define CI_SYNC_LOCK_NAME_H

#include <errno.h>

#include "base/atomic.h"
#include "sys/fork.h"
#include "sys/misuse.h"
#include "task/lock_counts.h"

/* Tasks that wait already are not counted. */
static inline int ci_lock_set_name(uint8_t *number, const char *name, const char *call,
                                   const void *place)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!name || !*name)
        return ci_misused(-EINVAL, "name is NULL or empty", call, place);
    uint8_t found = ci_lock_number(name);
    if (found)
        ci_store_relaxed(number, found);
    return found ? 0 : -ENOSPC;
}

#endif

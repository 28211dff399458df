/* What closing a set of futures needs beyond its public calls. */
#ifndef CI_TASK_SET_H
#define CI_TASK_SET_H

#include "coir/future.h"

/* As coir_set_next_op, for a set that is being closed: the wait is not interrupted, and the member
 * is dropped. */
coir_future *ci_set_drop_next_op(coir_set *set);

#endif

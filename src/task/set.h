/* What closing a set of futures needs beyond its public calls, and what a dump needs. */
#ifndef CI_TASK_SET_H
#define CI_TASK_SET_H

#include "base/list.h"
#include "coir/future.h"

struct ci_runnable;

/* As coir_set_next_op, for a set that is being closed: the wait is not interrupted, and the member
 * is dropped. */
coir_future *ci_set_drop_next_op(coir_set *set);

/* The members of a set that run (struct ci_branch, by `link`), if the future waits for one of them;
 * NULL: it is another future. */
const struct ci_list *ci_set_running(const coir_future *future);

/* The runnable that waits for a set by this future. */
const struct ci_runnable *ci_set_waiter(const coir_future *future);

#endif

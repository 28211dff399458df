/* Rest: a task without a stack that waits for long gives its record back meanwhile. Its leaf stays
 * suspended, without a runnable to wake: whoever completes the leaf rouses the task first, which
 * gets a record again. Its scope, the limit of tasks and the metrics count it all the time.
 *
 * 1. Only a task that nothing refers to may rest: it has no handle, no task-locals and no cancel
 * scope, and is neither interrupted nor woken.
 * 2. A task at rest is not in its scope's list: whoever cancels the scope has it roused before, and
 * no task of a cancelled scope begins to rest. One that could not be roused then, for want of
 * memory, is interrupted when it is.
 */
#ifndef CI_TASK_REST_H
#define CI_TASK_REST_H

#include "task/task.h"

/* Whether the task, which is suspended in `leaf`, may rest. */
bool ci_task_may_rest(const struct ci_task *task, const coir_future *leaf);

/* Gives its record back. */
void ci_task_rest(struct ci_task *task);

/* Gives a task of the scope a record again: it is suspended in `leaf`, and `root` is its outermost
 * future. It is another task to those who know tasks by record and number (dumps, holders of
 * locks). NULL: out of memory, and it still rests. */
struct ci_task *ci_task_rouse(coir_scope *scope, const char *name, coir_future *root,
                              coir_future *leaf);

/* A task of the scope ends at rest. */
void ci_task_end_at_rest(coir_scope *scope);

#endif

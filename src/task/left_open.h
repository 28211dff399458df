/* A task that ends inside of a scope, deadline or shield that it has not left: the report names
 * both, and the program ends. */
#ifndef CI_TASK_LEFT_OPEN_H
#define CI_TASK_LEFT_OPEN_H

#include "base/compiler.h"

struct ci_task;

/* Called on the task's worker, before anything else overwrites what the function that has returned
 * left on its stack. */
CI_COLD CI_NORETURN void ci_task_left_open(const struct ci_task *task);

#endif

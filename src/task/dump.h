/* Lists the tasks of a runtime, and what each of them waits for. */
#ifndef CI_TASK_DUMP_H
#define CI_TASK_DUMP_H

#include "coir/runtime.h"

struct ci_task;
struct ci_worker;

/* Called for each task, parents before their children. `cancelled`: the reason of its cancellation,
 * or 0. `task`: NULL for a line that stands for several. */
typedef void ci_dump_fn(void *arg, int depth, const char *name, const char *waits_for,
                        int cancelled, const struct ci_task *task);
void ci_runtime_dump(const coir_runtime *runtime, ci_dump_fn *line, void *arg);
void ci_worker_dump(const struct ci_worker *worker, ci_dump_fn *line, void *arg);

#endif

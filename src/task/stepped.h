/* Runtimes whose workers have no threads: their maker runs the turns of the workers, one at a time.
 * Used by the simulator of hosts. */
#ifndef CI_TASK_STEPPED_H
#define CI_TASK_STEPPED_H

#include "task/runtime.h"

/* Makes a runtime on drivers that `open` makes; every worker runs on the calling thread. Its run
 * begins with ci_runtime_begin. Errors: -EINVAL, -ENOMEM. */
int ci_stepped_new(const coir_config *config, const coir_allocator *allocator,
                   ci_open_driver_fn *open, void *arg, coir_runtime **ret_runtime);

struct ci_driver *ci_stepped_driver(const coir_runtime *runtime, size_t worker);

/* Whether a turn of the worker would do something, apart from events of its driver. */
bool ci_stepped_has_work(const coir_runtime *runtime, size_t worker, coir_time now);

/* When the next timer of any worker fires. COIR_NEVER: none is started. */
coir_time ci_stepped_next_timer(const coir_runtime *runtime);

/* One turn, which does not wait. */
void ci_stepped_turn(coir_runtime *runtime, size_t worker);

#endif

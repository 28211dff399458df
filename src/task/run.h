/* Runs: their begin, what each worker's thread does, their end. Their state is in run_state.h. */
#ifndef CI_TASK_RUN_H
#define CI_TASK_RUN_H

#include "coir/runtime.h"

struct ci_worker;

/* Starts the first task; afterwards the workers' turns are run by the caller, until the run has
 * ended. */
int ci_runtime_begin(coir_runtime *runtime, coir_task_fn *fn, void *arg);
int ci_runtime_result(coir_runtime *runtime);

/* As ci_runtime_begin, and starts the threads of all workers but the first, which runs on the
 * calling thread. */
int ci_run_start(coir_runtime *runtime, coir_task_fn *fn, void *arg);

/* After the run's end: joins the threads, and waits for messages in flight. */
void ci_run_finish(coir_runtime *runtime);

/* Before and after the turns of a worker, on its thread. */
void ci_run_enter_thread(struct ci_worker *worker);
void ci_run_leave_thread(struct ci_worker *worker);

/* What a worker's thread does, from the begin of a run to its end. */
void ci_worker_run(struct ci_worker *worker);

/* Before the runtime is freed. Afterwards no thread sends to it, and every inbox is empty. */
void ci_run_close(coir_runtime *runtime);

#endif

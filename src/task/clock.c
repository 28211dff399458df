/* The public clock: the time for tasks and for plain threads. */
#include "sys/clock.h"
#include "base/time.h"
#include "coir/runtime.h"
#include "task/current.h"
#include "task/worker.h"

coir_time coir_now(void)
{
    struct ci_worker *worker = ci_worker_current;
    return worker ? ci_loop_update_now(&worker->loop) : ci_clock_now();
}

coir_time coir_in(coir_time duration)
{
    return ci_time_after(coir_now(), duration > 0 ? duration : 0);
}

/* The calls that begin, end and write a trace. */
#include "task/trace.h"

#include <errno.h>

#include "coir/deadline.h"
#include "coir/offload.h"
#include "sys/clock.h"
#include "task/runtime.h"
#include "task/waiter.h"

enum { EVENTS = 1 << 16, EVENTS_MOST = 1 << 24 };

/* ---- beginning and ending ---- */

/* Also on those after one where it fails, which cannot be called without memory. The first error.
 */
static int on_every_worker(coir_task_fn *fn, void *arg)
{
    int first = 0, count = ci_worker_current->runtime->worker_count;
    for (int i = 0; i < count; i++) {
        int rc = coir_call_on(i, fn, arg);
        first = first ? first : rc;
    }
    return first;
}

static int begin_here(void *size)
{
    return ci_trace_begin(ci_worker_current, *(size_t *)size);
}

static int end_here(void *arg)
{
    (void)arg;
    ci_trace_end(ci_worker_current);
    return 0;
}

static bool changes_from(int32_t state)
{
    return ci_compare_exchange(&ci_worker_current->runtime->traced, &state, CI_TRACING_CHANGES);
}

int ci_trace_begin_all(size_t size, enum ci_tracing by)
{
    coir_runtime *runtime = ci_worker_current->runtime;
    if (!changes_from(CI_TRACING_NONE) && !changes_from(CI_TRACING_LEFT))
        return -EBUSY;
    int rc = on_every_worker(begin_here, &size);
    if (rc < 0)
        ci_trace_end_all(CI_TRACING_LEFT, CI_TRACING_NONE);
    else
        ci_store(&runtime->traced, (int32_t)by);
    return rc;
}

int ci_trace_end_all(enum ci_tracing failed, enum ci_tracing ended)
{
    COIR_SHIELD;
    int rc = on_every_worker(end_here, NULL);
    ci_store(&ci_worker_current->runtime->traced, (int32_t)(rc == 0 ? ended : failed));
    return rc;
}

int coir_trace_start(size_t events_max)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    if (events_max > EVENTS_MOST)
        return CI_MISUSE(-EINVAL, "events_max is more than 2^24");
    size_t size = events_max ? 1 : EVENTS;
    while (size < events_max)
        size *= 2;
    return ci_trace_begin_all(size, CI_TRACING_ASKED);
}

int coir_trace_stop(void)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    coir_runtime *runtime = ci_worker_current->runtime;
    if (!changes_from(CI_TRACING_ASKED) && !changes_from(CI_TRACING_LEFT))
        return ci_load(&runtime->traced) == CI_TRACING_NONE ? 0 : -EBUSY;
    rc = on_every_worker(end_here, NULL);
    ci_store(&runtime->traced, rc == 0 ? CI_TRACING_NONE : CI_TRACING_LEFT);
    return rc;
}

/* ---- writing ---- */

struct job {
    coir_fd fd;
    struct ci_trace_copy *copies;
    size_t count;
    struct ci_trace_time time;
};

static int copy_here(void *arg)
{
    struct ci_worker *worker = ci_worker_current;
    struct ci_trace_copy *copy = &((struct ci_trace_copy *)arg)[worker->index];
    const struct ci_trace *trace = worker->kept_trace;
    copy->worker = worker->index;
    if (!trace || !trace->count)
        return 0;
    size_t mask = trace->size - 1;
    size_t count = trace->count < trace->size ? (size_t)trace->count : trace->size;
    copy->events = ci_alloc(&worker->runtime->allocator, count * sizeof *copy->events);
    if (!copy->events)
        return -ENOMEM;
    copy->count = count;
    for (size_t i = 0; i < count; i++)
        copy->events[i] = trace->events[(trace->count - count + i) & mask];
    return 0;
}

static int write_text(void *arg)
{
    const struct job *job = arg;
    return ci_trace_text(job->fd, job->copies, job->count, job->time);
}

static bool is_empty(const struct job *job)
{
    for (size_t i = 0; i < job->count; i++)
        if (job->copies[i].count)
            return false;
    return true;
}

int coir_trace_write(coir_fd fd)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    coir_runtime *runtime = ci_worker_current->runtime;
    const coir_allocator *allocator = &runtime->allocator;
    struct job job = {.fd = fd, .count = (size_t)runtime->worker_count};
    job.copies = ci_alloc_zero(allocator, job.count * sizeof *job.copies);
    if (!job.copies)
        return -ENOMEM;
    rc = on_every_worker(copy_here, job.copies);
    job.time = (struct ci_trace_time){ci_clock_ticks(), ci_clock_now(),
                                      (double)ci_clock_ticks_in(COIR_S) / 1e6};
    if (rc == 0)
        rc = is_empty(&job) ? -ENOENT : coir_offload(write_text, &job);
    for (size_t i = 0; i < job.count; i++)
        if (job.copies[i].events)
            ci_free(allocator, job.copies[i].events,
                    job.copies[i].count * sizeof *job.copies[i].events);
    ci_free(allocator, job.copies, job.count * sizeof *job.copies);
    return rc;
}

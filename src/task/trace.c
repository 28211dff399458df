/* Recording what a worker does, and the calls that begin, end and write a trace. */
#include "task/trace.h"

#include <errno.h>
#include <string.h>

#include "coir/deadline.h"
#include "coir/offload.h"
#include "sys/clock.h"
#include "task/object.h"
#include "task/runtime.h"
#include "task/waiter.h"

enum { EVENTS = 1 << 16, EVENTS_MOST = 1 << 24 };

/* ---- recording ---- */

enum { KIND_MASK = 15 };

CI_INLINE struct ci_trace_event *record(struct ci_trace *trace, enum ci_trace_kind kind,
                                        const struct ci_task *task)
{
    struct ci_trace_event *event = &trace->events[trace->count++ & (trace->size - 1)];
    event->at = trace->now & ((uint64_t)-1 >> 4);
    event->kind = kind & KIND_MASK;
    event->task = task;
    return event;
}

/* Reads the clock, for what is recorded next and for what was noted since the last time. */
CI_INLINE void read_clock(struct ci_trace *trace)
{
    trace->now = ci_clock_ticks();
    if (ci_likely(trace->undated == trace->count))
        return;
    uint64_t oldest = trace->count > trace->size ? trace->count - trace->size : 0;
    for (uint64_t i = trace->undated > oldest ? trace->undated : oldest; i < trace->count; i++)
        if (!trace->events[i & (trace->size - 1)].at)
            trace->events[i & (trace->size - 1)].at = trace->now & ((uint64_t)-1 >> 4);
}

void ci_trace_note(struct ci_trace *trace, enum ci_trace_kind kind, const struct ci_task *task,
                   const void *op, union ci_trace_detail detail)
{
    struct ci_trace_event *event = record(trace, kind, task);
    event->at = 0;
    event->op = op;
    event->detail = detail;
}

/* What was added to the run queue behind `tail`: spawned or woken by a task, or by the loop. */
CI_INLINE void record_woken(struct ci_trace *trace, struct ci_runnable *const *tail,
                            const struct ci_task *by)
{
    for (const struct ci_runnable *woken = *tail; woken; woken = woken->next) {
        bool spawned = woken->inner == &woken->task->root.future;
        record(trace, spawned ? CI_TRACE_SPAWNED : CI_TRACE_WOKE, woken->task)->by = by;
    }
    trace->undated = trace->count;
}

static CI_NOINLINE void record_name(struct ci_trace *trace, const struct ci_task *task)
{
    char *name = record(trace, CI_TRACE_NAMED, task)->name;
    size_t i = 0;
    for (; task->name[i] && i < sizeof(((struct ci_trace_event *)0)->name) - 1; i++)
        name[i] = task->name[i];
    name[i] = '\0';
    trace->undated = trace->count;
}

/* What a task waits for that has not ended. */
CI_INLINE void record_wait(struct ci_trace *trace, struct ci_trace_event *ran,
                           const struct ci_task *task)
{
    const coir_future *inner = task->runnable.inner;
    const void *object = ci_object_of(inner);
    ran->awaits = inner->kind == &ci_fiber_kind ? "its turn" : inner->kind->name;
    if (!object)
        return;
    struct ci_trace_event *waits = record(trace, CI_TRACE_WAITS, task);
    waits->op = object;
    waits->detail.what = inner->kind->name;
}

struct ci_trace_turn ci_trace_begin_turn(struct ci_worker *worker, struct ci_runnable *runnable)
{
    struct ci_task *task = runnable->task;
    struct ci_trace_turn turn = {worker->trace, task, worker->ready_tail,
                                 (const void *)(uintptr_t)task->root.fn, CI_TRACE_RAN};
    const coir_future *root = task->root.fn ? NULL : task->root.arg;
    if (root) {
        turn.root = root->kind->name;
        turn.kind = CI_TRACE_RAN_FUTURE;
    }
    if (task->name)
        record_name(turn.trace, task);
    turn.trace->ended = NULL;
    return turn;
}

void ci_trace_end_turn(const struct ci_trace_turn *turn)
{
    struct ci_trace *trace = turn->trace;
    struct ci_task *task = turn->task;
    read_clock(trace);
    struct ci_trace_event *ran = record(trace, turn->kind, task);
    ran->root = turn->root;
    ran->awaits = NULL;
    if (trace->ended != task)
        record_wait(trace, ran, task);
    record_woken(trace, turn->tail, task);
}

void ci_trace_goes_on(struct ci_worker *worker)
{
    struct ci_trace *trace = worker->trace;
    ci_debug_check(worker == ci_worker_current, "task/trace.h 1");
    read_clock(trace);
    record(trace, CI_TRACE_GOES_ON, NULL);
    if (trace->tail)
        record_woken(trace, trace->tail, NULL);
    trace->tail = NULL;
    trace->undated = trace->count;
}

void ci_trace_waits(struct ci_worker *worker)
{
    worker->trace->tail = worker->ready_tail;
}

/* ---- beginning and ending ---- */

int ci_trace_begin(struct ci_worker *worker, size_t size)
{
    const coir_allocator *allocator = &worker->runtime->allocator;
    struct ci_trace *kept = worker->kept_trace;
    if (kept && kept->size != size) {
        ci_trace_free(worker);
        kept = NULL;
    }
    if (!kept) {
        if (!(kept = ci_alloc_zero(allocator, sizeof *kept)))
            return -ENOMEM;
        if (!(kept->events = ci_alloc(allocator, size * sizeof *kept->events))) {
            ci_free(allocator, kept, sizeof *kept);
            return -ENOMEM;
        }
        kept->size = size;
    }
    kept->count = 0;
    kept->tail = NULL;
    kept->now = ci_clock_ticks();
    record(kept, CI_TRACE_GOES_ON, NULL);
    kept->undated = kept->count;
    kept->switches_max = worker->switches_max;
    worker->trace = worker->kept_trace = kept;
    worker->switches_max = 0;
    worker->switches_left = 0;
    return 0;
}

void ci_trace_end(struct ci_worker *worker)
{
    const struct ci_trace *trace = worker->trace;
    if (!trace)
        return;
    worker->trace = NULL;
    worker->switches_max = trace->switches_max;
}

void ci_trace_free(struct ci_worker *worker)
{
    const coir_allocator *allocator = &worker->runtime->allocator;
    struct ci_trace *kept = worker->kept_trace;
    if (!kept)
        return;
    ci_free(allocator, kept->events, kept->size * sizeof *kept->events);
    ci_free(allocator, kept, sizeof *kept);
    worker->trace = worker->kept_trace = NULL;
}

/* ---- the calls ---- */

static int on_every_worker(coir_task_fn *fn, void *arg)
{
    int rc = 0, count = ci_worker_current->runtime->worker_count;
    for (int i = 0; rc == 0 && i < count; i++)
        rc = coir_call_on(i, fn, arg);
    return rc;
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

int coir_trace_start(size_t events_max)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    if (events_max > EVENTS_MOST)
        return CI_MISUSE(-EINVAL, "events_max is more than 2^24");
    coir_runtime *runtime = ci_worker_current->runtime;
    if (ci_exchange(&runtime->traced, 1))
        return -EBUSY;
    size_t size = events_max ? 1 : EVENTS;
    while (size < events_max)
        size *= 2;
    if ((rc = on_every_worker(begin_here, &size)) == 0)
        return 0;
    COIR_SHIELD;
    on_every_worker(end_here, NULL);
    ci_store(&runtime->traced, 0);
    return rc;
}

int coir_trace_stop(void)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    if ((rc = on_every_worker(end_here, NULL)) == 0)
        ci_store(&ci_worker_current->runtime->traced, 0);
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

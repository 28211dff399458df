/* Recording what a worker does. */
#include "task/trace.h"

#include <errno.h>
#include <string.h>

#include "base/character.h"
#include "sys/clock.h"
#include "task/describe.h"
#include "task/park.h"
#include "task/probe.h"
#include "task/runtime.h"
#include "task/waiter.h"

enum { KIND_BITS = 4, EVENTS_FOR_PROBES = 1 << 12 };

CI_INLINE struct ci_trace_event *record(struct ci_trace *trace, enum ci_trace_kind kind,
                                        const struct ci_task *task)
{
    uint64_t count = trace->count;
    struct ci_trace_event *event = &trace->events[count & (trace->size - 1)];
    /* after the whole of the event before: pairs with the acquires in ci_trace_peek */
    ci_store_release(&trace->count, count + 1);
    event->stamp = trace->now << KIND_BITS | kind;
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

void ci_trace_note(const struct ci_worker *worker, enum ci_trace_kind kind,
                   const struct ci_task *task, const void *op, union ci_trace_detail detail)
{
    struct ci_trace_event *event = record(worker->trace, kind, task);
    event->at = 0;
    event->op = op;
    event->detail = detail;
    if (ci_probes_wanted())
        ci_probe_noted(kind, task, op, detail);
}

/* What was added to the run queue behind `tail`: spawned or woken in a turn, or by the loop. */
CI_INLINE void record_woken(struct ci_trace *trace, struct ci_runnable *const *tail,
                            const struct ci_trace_turn *by)
{
    uint32_t count = 0;
    for (const struct ci_runnable *woken = *tail; woken; woken = woken->next) {
        bool spawned = woken->inner == &woken->task->root.future;
        record(trace, spawned ? CI_TRACE_SPAWNED : CI_TRACE_WOKE, woken->task)->by =
            by ? by->task : NULL;
        if (ci_unlikely(trace->probed))
            ci_probe_woken(woken->task, spawned, by);
        count++;
    }
    ci_stats_queued(trace->stats, trace->now, count, !by);
    trace->undated = trace->count;
}

static CI_NOINLINE void record_name(struct ci_trace *trace, const struct ci_task *task)
{
    char *name = record(trace, CI_TRACE_NAMED, task)->name;
    size_t len = ci_character_cut(task->name, sizeof(((struct ci_trace_event *)0)->name) - 1);
    memcpy(name, task->name, len);
    name[len] = '\0';
    trace->undated = trace->count;
}

/* What a task waits for that has not ended. */
CI_INLINE void record_wait(struct ci_trace *trace, struct ci_trace_event *ran,
                           const struct ci_task *task)
{
    const coir_future *inner = task->runnable.inner;
    const void *object = ci_object_of(inner);
    ran->awaits = inner->kind->name;
    if (!object)
        return;
    struct ci_trace_event *waits = record(trace, CI_TRACE_WAITS, task);
    waits->op = object;
    waits->detail.what = inner->kind->name;
    if (ci_unlikely(trace->probed))
        ci_probe_noted(CI_TRACE_WAITS, task, object, waits->detail);
}

/* What the turn says of its task, which may be gone after it. */
CI_INLINE void name_turn(struct ci_trace *trace, const struct ci_task *task, bool begins)
{
    struct ci_trace_turn *turn = &trace->turn;
    turn->name = task->name;
    turn->stats = ci_stats_of(trace->stats, task->name, begins);
    if (turn->stats && ci_likely(ci_stats_is_named(trace->stats, turn->stats))) {
        turn->kind = CI_TRACE_RAN_NAMED;
        turn->root = turn->stats->name;
        return;
    }
    const coir_future *root = task->root.fn ? NULL : task->root.arg;
    turn->kind = root ? CI_TRACE_RAN_FUTURE : CI_TRACE_RAN;
    turn->root = root ? root->kind->name : (const void *)(uintptr_t)task->root.fn;
    if (task->name)
        record_name(trace, task);
}

CI_INLINE void begin_turn(struct ci_trace *trace, const struct ci_worker *worker,
                          const struct ci_runnable *runnable)
{
    struct ci_trace_turn *turn = &trace->turn;
    struct ci_task *task = runnable->task;
    bool begins = runnable->inner == &task->root.future;
    turn->task = task;
    turn->worker = worker;
    turn->tail = worker->ready_tail;
    turn->began = trace->now;
    if (ci_unlikely(turn->remote = task->cancel != NULL))
        trace->ended = NULL;
    name_turn(trace, task, begins);
    ci_stats_began(trace->stats, turn->stats, turn->began);
    if (begins && turn->stats)
        ci_bump(&turn->stats->begun);
    if (ci_unlikely(trace->probed)) {
        turn->fn = (const void *)(uintptr_t)task->root.fn;
        ci_probe_turn_begin(turn);
    }
}

/* A record that was given back in the turn is the first of the free ones; one of a remote task may
 * be on another worker. */
CI_INLINE bool has_ended(const struct ci_trace *trace)
{
    const struct ci_trace_turn *turn = &trace->turn;
    return ci_unlikely(turn->remote)
               ? trace->ended == turn->task
               : (const void *)turn->worker->tasks.free == (const void *)turn->task;
}

CI_INLINE void end_turn(struct ci_trace *trace)
{
    struct ci_trace_turn *turn = &trace->turn;
    const struct ci_task *task = turn->task;
    bool ended = has_ended(trace);
    read_clock(trace);
    struct ci_trace_event *ran = record(trace, (enum ci_trace_kind)turn->kind, task);
    ran->root = turn->root;
    ran->awaits = NULL;
    if (!ended)
        record_wait(trace, ran, task);
    if (ci_unlikely(trace->probed))
        ci_probe_turn_end(turn, ran->awaits);
    record_woken(trace, turn->tail, turn);
    if (ended && turn->stats)
        ci_bump(&turn->stats->ended);
    ci_stats_ended(trace->stats, turn->stats, turn->began, trace->now);
    turn->task = NULL;
    if (ci_unlikely(trace->slow_turn && turn->began + trace->slow_turn < trace->now))
        trace->tell(trace->recorder, "a slow turn");
}

void ci_trace_begin_turn(struct ci_trace *trace, const struct ci_worker *worker,
                         const struct ci_runnable *runnable)
{
    begin_turn(trace, worker, runnable);
}

void ci_trace_end_turn(struct ci_trace *trace)
{
    end_turn(trace);
}

struct ci_fiber *ci_next_fiber_traced(struct ci_worker *worker, struct ci_runnable *runnable)
{
    struct ci_trace *trace = worker->trace;
    if (!trace->switches_max || !ci_trace_is_in_turn(trace))
        return NULL;
    worker->switches_left = 0;
    end_turn(trace);
    uint64_t ticks = trace->now;
    if (ticks - worker->polled_at > worker->poll_interval)
        return NULL; /* the loop looks at its events */
    ci_pop_ready(worker);
    begin_turn(trace, worker, runnable);
    worker->budget = worker->budget_max;
    struct ci_fiber *fiber = ci_fiber_of(runnable->inner);
    ci_fiber_switch_entered(worker, runnable, fiber);
    return fiber;
}

/* In the first turn that is traced: what is queued was woken before. */
static CI_COLD void count_queue(const struct ci_worker *worker)
{
    uint32_t count = 0;
    for (const struct ci_runnable *runnable = worker->ready; runnable; runnable = runnable->next)
        count++;
    worker->trace->counted = true;
    ci_stats_begin(worker->trace->stats);
    ci_stats_queued(worker->trace->stats, worker->trace->now, count, false);
}

void ci_trace_goes_on(struct ci_worker *worker)
{
    struct ci_trace *trace = worker->trace;
    ci_debug_check(worker == ci_worker_current, "task/trace.h 1");
    read_clock(trace);
    record(trace, CI_TRACE_GOES_ON, NULL);
    if (trace->tail)
        record_woken(trace, trace->tail, NULL);
    if (ci_unlikely(!trace->counted))
        count_queue(worker);
    trace->tail = NULL;
    trace->undated = trace->count;
    trace->probed = ci_probes_wanted();
    if (ci_unlikely(trace->by_probes) && !trace->probed)
        ci_trace_end(worker);
}

void ci_trace_waits(struct ci_worker *worker)
{
    worker->trace->tail = worker->ready_tail;
}

/* Slots at the old end that the worker may be writing to, whatever the order in which its stores
 * are seen. */
enum { BEING_WRITTEN = 16 };

/* The worker may be writing to some of them: TSan is not to see this. */
static CI_NOINLINE CI_UNINSTRUMENTED void copy_events(const struct ci_trace *trace,
                                                      struct ci_trace_event *events, uint64_t begin,
                                                      uint64_t end)
{
    for (uint64_t i = begin; i < end; i++) {
        const struct ci_trace_event *event = &trace->events[i & (trace->size - 1)];
        const uint64_t *from = (const uint64_t *)(const void *)event;
        uint64_t *to = (uint64_t *)(void *)&events[i - begin];
        for (int word = 0; word < 4; word++)
            to[word] = ci_load_relaxed(&from[word]);
    }
}

size_t ci_trace_peek(const struct ci_trace *trace, struct ci_trace_event *events)
{
    uint64_t end = ci_load_acquire(&trace->count), begin = 0;
    if (end < 2)
        return 0;
    if (end > trace->size)
        begin = end - trace->size;
    copy_events(trace, events, begin, end - 1);
    uint64_t writing = ci_load_acquire(&trace->count) + BEING_WRITTEN;
    uint64_t first = writing > trace->size ? writing - trace->size : 0;
    if (first <= begin)
        return (size_t)(end - 1 - begin);
    if (first >= end - 1)
        return 0;
    for (uint64_t i = first; i < end - 1; i++)
        events[i - first] = events[i - begin];
    return (size_t)(end - 1 - first);
}

/* ---- beginning and ending ---- */

static int make_stats(struct ci_worker *worker)
{
    struct ci_stats *stats = worker->stats;
    if (!stats && !(stats = ci_alloc_zero(&worker->runtime->allocator, sizeof *stats)))
        return -ENOMEM;
    stats->ns_per_tick = (uint64_t)(1e9 / (double)ci_clock_ticks_in(COIR_S) * 0x1p32);
    ci_store_release(&worker->stats, stats); /* pairs with the acquire in metrics.c */
    return 0;
}

/* A ring of another size replaces the present one. A turn that is being recorded keeps its trace.
 */
static int make_ring(struct ci_worker *worker, size_t size)
{
    const coir_allocator *allocator = &worker->runtime->allocator;
    struct ci_trace *kept = worker->kept_trace;
    if (kept && kept->size == size)
        return 0;
    struct ci_trace_event *events = ci_alloc(allocator, size * sizeof *events);
    if (!events || (!kept && !(kept = ci_alloc_zero(allocator, sizeof *kept)))) {
        ci_free(allocator, events, size * sizeof *events);
        return -ENOMEM;
    }
    ci_free(allocator, kept->events, kept->size * sizeof *events);
    kept->events = events;
    kept->size = size;
    ci_store_release(&worker->kept_trace, kept); /* pairs with the acquire in recorder.c */
    return 0;
}

int ci_trace_begin(struct ci_worker *worker, size_t size)
{
    ci_trace_end(worker); /* that of probes */
    int rc = make_stats(worker);
    if (rc == 0)
        rc = make_ring(worker, size);
    if (rc < 0)
        return rc;
    struct ci_trace *kept = worker->kept_trace;
    kept->count = 0;
    kept->tail = NULL;
    kept->now = ci_clock_ticks();
    record(kept, CI_TRACE_GOES_ON, NULL);
    kept->undated = kept->count;
    kept->slow_turn = kept->slow_request = 0;
    kept->recorder = NULL;
    kept->by_probes = kept->probed = false;
    kept->stats = worker->stats;
    kept->counted = false;
    kept->switches_max = worker->switches_max;
    worker->trace = kept;
    worker->switches_max = 0;
    worker->switches_left = 0;
    return 0;
}

void ci_trace_begin_for_probes(struct ci_worker *worker)
{
    const struct ci_trace *kept = worker->kept_trace;
    if (ci_trace_begin(worker, kept ? kept->size : EVENTS_FOR_PROBES) == 0)
        worker->trace->by_probes = true;
}

void ci_trace_end(struct ci_worker *worker)
{
    struct ci_trace *trace = worker->trace;
    if (!trace)
        return;
    worker->trace = NULL;
    /* this turn is recorded to its end: its recorder may be gone by then */
    trace->slow_turn = trace->slow_request = 0;
    trace->recorder = NULL;
    worker->switches_max = trace->switches_max;
}

void ci_trace_free(struct ci_worker *worker)
{
    const coir_allocator *allocator = &worker->runtime->allocator;
    struct ci_trace *kept = worker->kept_trace;
    if (!kept)
        return;
    worker->trace = worker->kept_trace = NULL;
    ci_free(allocator, kept->events, kept->size * sizeof *kept->events);
    ci_free(allocator, kept, sizeof *kept);
}

#include "task/findings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void add_party(struct ci_snapshot *snapshot, struct ci_finding *finding, size_t task)
{
    size_t *party = ci_snapshot_add(snapshot, &snapshot->parties, sizeof *party);
    if (!party)
        return;
    *party = task;
    finding->count++;
}

static struct ci_finding *add_finding(struct ci_snapshot *snapshot, enum ci_finding_kind kind)
{
    static struct ci_finding none;
    struct ci_finding *finding = ci_snapshot_add(snapshot, &snapshot->findings, sizeof *finding);
    if (!finding)
        return &none; /* the snapshot has failed */
    finding->kind = kind;
    finding->first = snapshot->parties.count;
    return finding;
}

/* ---- who holds what ---- */

/* The tasks that were passed, by their address: a hash table of indices + 1. */
struct by_id {
    size_t *slots, size;
};

static const struct ci_snapshot_seen *seen_at(const struct ci_snapshot *snapshot, size_t index)
{
    return (const struct ci_snapshot_seen *)snapshot->seen.items + index;
}

static size_t slot_of(const struct by_id *table, const void *id)
{
    return (size_t)((uintptr_t)id * 0x9e3779b97f4a7c15u >> 20) & (table->size - 1);
}

static bool make_table(struct by_id *table, struct ci_snapshot *snapshot)
{
    for (table->size = 64; table->size < 2 * snapshot->seen.count;)
        table->size *= 2;
    table->slots = calloc(table->size, sizeof *table->slots);
    if (!table->slots) {
        snapshot->error = -ENOMEM;
        return false;
    }
    for (size_t i = 0; i < snapshot->seen.count; i++) {
        size_t at = slot_of(table, seen_at(snapshot, i)->id);
        while (table->slots[at])
            at = (at + 1) & (table->size - 1);
        table->slots[at] = i + 1;
    }
    return true;
}

/* NULL: it has ended, or was not passed. */
static const struct ci_snapshot_seen *find(const struct by_id *table,
                                           const struct ci_snapshot *snapshot,
                                           struct ci_holder holder)
{
    size_t at = slot_of(table, holder.task);
    for (; holder.task && table->slots[at]; at = (at + 1) & (table->size - 1)) {
        const struct ci_snapshot_seen *seen = seen_at(snapshot, table->slots[at] - 1);
        if (seen->id == holder.task && seen->number == holder.number)
            return seen;
    }
    return NULL;
}

/* ---- cycles ---- */

/* Each task waits for one lock at most, so the way from one holder to the next does not fork.
 * `round`: the walk that has seen a task, + 1. */
static void find_cycle(struct ci_snapshot *snapshot, int begin, int *round)
{
    int at = begin;
    while (at >= 0 && !round[at]) {
        round[at] = begin + 1;
        at = ci_snapshot_task(snapshot, (size_t)at)->holder;
    }
    if (at < 0 || round[at] != begin + 1)
        return;
    struct ci_finding *finding = add_finding(snapshot, CI_FINDS_CYCLE);
    int party = at;
    do {
        add_party(snapshot, finding, (size_t)party);
        party = ci_snapshot_task(snapshot, (size_t)party)->holder;
    } while (party != at);
}

static void find_cycles(struct ci_snapshot *snapshot)
{
    int *round = calloc(snapshot->tasks.count + 1, sizeof *round);
    if (!round)
        snapshot->error = -ENOMEM;
    for (size_t i = 0; round && i < snapshot->tasks.count; i++)
        find_cycle(snapshot, (int)i, round);
    free(round);
}

/* ---- locks whose holder has ended ---- */

static bool is_kept(const struct ci_snapshot_task *task)
{
    return task->state == CI_TASK_WAITS && task->note.holder.task && !task->holder_lives;
}

/* Another task may give the lock back, which is unusual. Those that wait for one lock are one
 * finding. */
static void find_ended(struct ci_snapshot *snapshot)
{
    struct ci_finding *finding = NULL;
    bool *told = calloc(snapshot->tasks.count + 1, sizeof *told);
    if (!told)
        snapshot->error = -ENOMEM;
    for (size_t i = 0; told && i < snapshot->tasks.count; i++) {
        const struct ci_snapshot_task *first = ci_snapshot_task(snapshot, i);
        if (!is_kept(first) || told[i])
            continue;
        finding = add_finding(snapshot, CI_FINDS_ENDED);
        for (size_t j = i; j < snapshot->tasks.count; j++) {
            const struct ci_snapshot_task *task = ci_snapshot_task(snapshot, j);
            if (!is_kept(task) || task->note.object != first->note.object)
                continue;
            told[j] = true;
            add_party(snapshot, finding, j);
        }
    }
    free(told);
}

/* ---- workers that do not answer ---- */

static void find_computing(struct ci_snapshot *snapshot, const struct by_id *table, size_t index)
{
    const struct ci_snapshot_worker *worker = ci_snapshot_worker(snapshot, index);
    if (worker->answered || worker->trace_error || !worker->running.task)
        return;
    struct ci_finding *finding = add_finding(snapshot, CI_FINDS_COMPUTING);
    finding->worker = (int)index;
    const struct ci_snapshot_seen *running = find(table, snapshot, worker->running);
    if (running && running->index >= 0) { /* it could not be read, as its worker runs */
        struct ci_snapshot_task *task = ci_snapshot_task(snapshot, (size_t)running->index);
        memcpy(task->name, worker->running_name, sizeof worker->running_name);
        task->fn = worker->running_fn;
    }
    for (size_t i = 0; i < snapshot->tasks.count; i++) {
        const struct ci_holder *holder = &ci_snapshot_task(snapshot, i)->note.holder;
        if (holder->task == worker->running.task && holder->number == worker->running.number)
            add_party(snapshot, finding, i);
    }
}

/* ---- scopes ---- */

static void find_left_open(struct ci_snapshot *snapshot, size_t index)
{
    const struct ci_snapshot_task *task = ci_snapshot_task(snapshot, index);
    if (!task->left_a_scope_open)
        return;
    struct ci_finding *finding = add_finding(snapshot, CI_FINDS_SCOPE_LEFT_OPEN);
    finding->place = task->opened_at;
    add_party(snapshot, finding, index);
}

void ci_findings_make(struct ci_snapshot *snapshot)
{
    struct by_id table;
    if (!make_table(&table, snapshot))
        return;
    for (size_t i = 0; i < snapshot->tasks.count; i++) {
        struct ci_snapshot_task *task = ci_snapshot_task(snapshot, i);
        const struct ci_snapshot_seen *holder = find(&table, snapshot, task->note.holder);
        task->holder = holder ? holder->index : -1;
        task->holder_lives = holder;
    }
    find_cycles(snapshot);
    if (snapshot->whole) /* otherwise the holder may be one that is not shown */
        find_ended(snapshot);
    for (size_t i = 0; i < snapshot->tasks.count; i++)
        find_left_open(snapshot, i);
    for (size_t i = 0; i < snapshot->workers.count; i++)
        find_computing(snapshot, &table, i);
    free(table.slots);
}

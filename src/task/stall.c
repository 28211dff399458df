/* A thread of the run takes a lean snapshot every so often, and logs what it finds. It passes all
 * tasks, but copies only those that wait for a lock that a task holds, without their stacks. What
 * is to be logged is looked for once more: then the stacks of those tasks are taken that the line
 * will name, if they still wait for each other.
 *
 * A worker that does not answer soon is not waited for, as the others stand still meanwhile. Its
 * thread is interrupted for its stack only where the look before has found it in the same turn of a
 * task, since that may end a system call of the task with EINTR. What was logged is logged again
 * only if a look between, which has seen every worker, has not found it. */
#include "task/stall.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/time.h"
#include "sys/clock.h"
#include "sys/thread.h"
#include "task/findings.h"
#include "task/log.h"
#include "task/snapshot_write.h"

enum { KEYS = 1024, WANTED = 128, TEXT = 16 * 1024, SHARE = 100 /* of the time */ };

static const coir_time halt_time = 2 * COIR_MS;
static const coir_time stack_time = 20 * COIR_MS;
static const coir_time pause_min = 10 * COIR_MS;

/* What a look has found. */
struct found {
    uint64_t key;
    bool told, due; /* it was logged; it is to be logged now */
};

/* A worker that did not answer. */
struct busy {
    uint64_t look;    /* the last one which it did not answer; 0: none */
    uint64_t resumes; /* of its tasks, then */
    bool interrupted; /* in that look */
};

struct ci_stalls {
    coir_runtime *runtime;
    struct ci_thread thread;
    struct ci_mutex lock; /* guards `ended` */
    struct ci_condition changed;
    bool ended;

    /* the thread's */
    struct found before[KEYS], now[KEYS]; /* of the look before, and this one */
    int before_count, now_count;
    uint64_t looks;
    coir_time halts; /* how long the last look has halted the workers */
    struct ci_halted halted;
    struct ci_snapshot first, second; /* of this look; with the tasks that are wanted */
    struct ci_holder wanted[WANTED];
    size_t wanted_count;
    char text[TEXT];
    struct busy busy[]; /* by worker */
};

static size_t size_of(const coir_runtime *runtime)
{
    return sizeof(struct ci_stalls) + (size_t)runtime->worker_count * sizeof(struct busy);
}

/* ---- which finding it is ---- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static const struct ci_snapshot_task *party(const struct ci_snapshot *snapshot,
                                            const struct ci_finding *finding, size_t index)
{
    return ci_snapshot_task(snapshot, ci_finding_party(snapshot, finding, index));
}

/* The same as long as it lasts. A computing task's counts the turns of its worker. */
static uint64_t key_of(const struct ci_stalls *stalls, const struct ci_snapshot *snapshot,
                       const struct ci_finding *finding)
{
    const struct ci_snapshot_worker *worker = ci_snapshot_worker(snapshot, (size_t)finding->worker);
    uint64_t key = finding->kind;
    switch (finding->kind) {
    case CI_FINDS_COMPUTING:
        key = mix(mix(key, (uintptr_t)worker->running.task), worker->running.number);
        return mix(key, ci_load_relaxed(&stalls->runtime->workers[worker->index].resumes));
    case CI_FINDS_ENDED:
        return mix(mix(key, (uintptr_t)party(snapshot, finding, 0)->note.object),
                   party(snapshot, finding, 0)->note.holder.number);
    case CI_FINDS_CYCLE:
    case CI_FINDS_SCOPE_LEFT_OPEN:
        for (size_t i = 0; i < finding->count; i++) /* a cycle begins anywhere */
            key += mix(mix(finding->kind, (uintptr_t)party(snapshot, finding, i)->id),
                       party(snapshot, finding, i)->number);
    }
    return key;
}

static const struct found *find(const struct found *found, int count, uint64_t key)
{
    for (int i = 0; i < count; i++)
        if (found[i].key == key)
            return &found[i];
    return NULL;
}

/* ---- what is worth a line ---- */

/* Others tell of the other runtimes. */
static bool is_ours(const struct ci_stalls *stalls, const struct ci_snapshot *snapshot,
                    const struct ci_finding *finding)
{
    size_t worker = finding->kind == CI_FINDS_COMPUTING
                        ? (size_t)finding->worker
                        : (size_t)party(snapshot, finding, 0)->worker;
    int runtime = ci_snapshot_worker(snapshot, worker)->runtime;
    return stalls->halted.runtimes[runtime] == stalls->runtime;
}

/* Whether it has lasted for long enough. */
static bool is_due(const struct ci_stalls *stalls, const struct ci_snapshot *snapshot,
                   const struct ci_finding *finding)
{
    if (finding->kind == CI_FINDS_COMPUTING) /* alone it is told as a slow turn; may_interrupt */
        return finding->count > 0;
    if (finding->kind == CI_FINDS_SCOPE_LEFT_OPEN)
        return true;
    for (size_t i = 0; i < finding->count; i++)
        if (party(snapshot, finding, i)->waited < stalls->runtime->config.report_stalls)
            return false;
    return true;
}

/* False: there is no room for it. */
static bool want(struct ci_stalls *stalls, struct ci_holder task)
{
    for (size_t i = 0; i < stalls->wanted_count; i++)
        if (stalls->wanted[i].task == task.task && stalls->wanted[i].number == task.number)
            return true;
    if (stalls->wanted_count == WANTED)
        return false;
    stalls->wanted[stalls->wanted_count++] = task;
    return true;
}

/* The tasks that the text of a finding names. */
static bool want_all(struct ci_stalls *stalls, const struct ci_finding *finding)
{
    const struct ci_snapshot *snapshot = &stalls->first;
    bool all = finding->kind != CI_FINDS_COMPUTING ||
               want(stalls, ci_snapshot_worker(snapshot, (size_t)finding->worker)->running);
    for (size_t i = 0; i < finding->count && i < CI_FINDING_PARTIES; i++) {
        const struct ci_snapshot_task *task = party(snapshot, finding, i);
        all = all && want(stalls, (struct ci_holder){task->id, task->number}) &&
              (!task->holder_lives || want(stalls, task->note.holder));
    }
    return all;
}

static void take_finding(struct ci_stalls *stalls, const struct ci_finding *finding)
{
    const struct ci_snapshot *snapshot = &stalls->first;
    if (!is_ours(stalls, snapshot, finding) || stalls->now_count == KEYS)
        return;
    struct found *now = &stalls->now[stalls->now_count++];
    now->key = key_of(stalls, snapshot, finding);
    const struct found *before = find(stalls->before, stalls->before_count, now->key);
    now->told = before && before->told;
    now->due = !now->told && is_due(stalls, snapshot, finding) && want_all(stalls, finding);
}

/* A look that has not seen every worker says nothing of what it has not found: that is kept, as
 * far as there is room, so that it is not logged again. */
static void keep_told(struct ci_stalls *stalls)
{
    int found = stalls->now_count;
    for (int i = 0; i < stalls->before_count && stalls->now_count < KEYS; i++) {
        const struct found *before = &stalls->before[i];
        if (before->told && !find(stalls->now, found, before->key))
            stalls->now[stalls->now_count++] = *before;
    }
}

static void tell(struct ci_stalls *stalls, size_t index)
{
    if (ci_snapshot_write_finding(&stalls->second, index, stalls->text, sizeof stalls->text) < 0)
        return;
    for (const char *line = stalls->text, *end; (end = strchr(line, '\n')); line = end + 1)
        ci_log(stalls->runtime, COIR_LOG_WARNING, "%.*s", (int)(end - line), line);
}

/* What the second snapshot has found is logged if it is what the first one has. */
static void tell_again_found(struct ci_stalls *stalls, size_t index)
{
    const struct ci_snapshot *snapshot = &stalls->second;
    const struct ci_finding *finding = ci_finding_at(snapshot, index);
    if (!is_ours(stalls, snapshot, finding) || !is_due(stalls, snapshot, finding))
        return;
    uint64_t key = key_of(stalls, snapshot, finding);
    for (int i = 0; i < stalls->now_count; i++)
        if (stalls->now[i].key == key && stalls->now[i].due && !stalls->now[i].told) {
            tell(stalls, index);
            stalls->now[i].told = true;
        }
}

/* ---- the thread ---- */

static bool may_interrupt(const struct ci_worker *worker, void *arg)
{
    struct ci_stalls *stalls = arg;
    if (worker->runtime != stalls->runtime)
        return false;
    struct busy *busy = &stalls->busy[worker->index];
    uint64_t resumes = ci_load_relaxed(&worker->resumes);
    if (busy->look == stalls->looks) /* the second snapshot */
        return busy->interrupted && busy->resumes == resumes;
    bool again = busy->look + 1 == stalls->looks && busy->resumes == resumes;
    *busy = (struct busy){stalls->looks, resumes, again};
    return again;
}

/* Without an error: with what there is to find. */
static void take(struct ci_stalls *stalls, struct ci_snapshot *snapshot)
{
    stalls->halted = (struct ci_halted){.thread = ci_thread_mark()};
    ci_snapshot_init_lean(snapshot, stalls->wanted, stalls->wanted_count);
    snapshot->may_interrupt = may_interrupt;
    snapshot->arg = stalls;
    snapshot->stack_time = stack_time;
    ci_halt_all(&stalls->halted, halt_time);
    ci_snapshot_take(snapshot, &stalls->halted);
    ci_halt_release(&stalls->halted);
    stalls->halts += ci_time_left(ci_clock_now(), stalls->halted.asked);
    if (!snapshot->error)
        ci_findings_make(snapshot);
}

static void look(struct ci_stalls *stalls)
{
    stalls->looks++;
    stalls->halts = 0;
    stalls->now_count = 0;
    stalls->wanted_count = 0;
    take(stalls, &stalls->first);
    for (size_t i = 0; !stalls->first.error && i < stalls->first.findings.count; i++)
        take_finding(stalls, ci_finding_at(&stalls->first, i));
    if (stalls->first.error || !stalls->first.whole)
        keep_told(stalls);
    if (stalls->wanted_count)
        take(stalls, &stalls->second);
    for (size_t i = 0;
         stalls->wanted_count && !stalls->second.error && i < stalls->second.findings.count; i++)
        tell_again_found(stalls, i);
    memcpy(stalls->before, stalls->now, sizeof stalls->now);
    stalls->before_count = stalls->now_count;
}

static void *look_on(void *arg)
{
    struct ci_stalls *stalls = arg;
    coir_time limit = stalls->runtime->config.report_stalls;
    coir_time pause = limit > pause_min ? limit : pause_min;
    ci_mutex_lock(&stalls->lock);
    while (!stalls->ended) {
        coir_time rest = SHARE * stalls->halts;
        coir_time next = ci_time_after(ci_clock_now(), rest > pause ? rest : pause);
        while (!stalls->ended && ci_condition_wait(&stalls->changed, &stalls->lock, next) == 0)
            continue;
        bool ended = stalls->ended;
        ci_mutex_unlock(&stalls->lock);
        if (!ended)
            look(stalls);
        ci_mutex_lock(&stalls->lock);
    }
    ci_mutex_unlock(&stalls->lock);
    return NULL;
}

static void free_stalls(struct ci_stalls *stalls)
{
    ci_snapshot_done(&stalls->first);
    ci_snapshot_done(&stalls->second);
    ci_condition_done(&stalls->changed);
    ci_mutex_done(&stalls->lock);
    ci_free(&stalls->runtime->allocator, stalls, size_of(stalls->runtime));
}

int ci_stall_begin(coir_runtime *runtime)
{
    if (!runtime->config.report_stalls || runtime->simulated)
        return 0;
    struct ci_stalls *stalls = ci_alloc_zero(&runtime->allocator, size_of(runtime));
    if (!stalls)
        return -ENOMEM;
    stalls->runtime = runtime;
    stalls->looks = 1; /* no worker was found in the one before */
    ci_mutex_init(&stalls->lock);
    ci_condition_init(&stalls->changed);
    int rc = ci_thread_start(&stalls->thread, look_on, stalls);
    if (rc == 0)
        runtime->stalls = stalls;
    else
        free_stalls(stalls);
    return rc;
}

void ci_stall_end(coir_runtime *runtime)
{
    struct ci_stalls *stalls = runtime->stalls;
    if (!stalls)
        return;
    runtime->stalls = NULL;
    ci_mutex_lock(&stalls->lock);
    stalls->ended = true;
    ci_condition_signal(&stalls->changed);
    ci_mutex_unlock(&stalls->lock);
    ci_thread_join(&stalls->thread);
    free_stalls(stalls);
}

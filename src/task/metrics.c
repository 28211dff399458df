/* The metrics of a runtime as text. */
#include "coir/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "sys/fork.h"
#include "sys/locale.h"
#include "sys/misuse.h"
#include "task/extension.h"
#include "task/lock_counts.h"
#include "task/metered.h"
#include "task/runtime.h"
#include "task/stack_use.h"
#include "task/stats.h"

/* ---- counters ---- */

static uint64_t count_tasks_live(const struct ci_worker *worker)
{
    return ci_load_relaxed(&worker->tasks.live) + ci_load_relaxed(&worker->remote_tasks.live);
}

static uint64_t count_tasks_started(const struct ci_worker *worker)
{
    return ci_load_relaxed(&worker->tasks_started);
}

static uint64_t count_task_errors(const struct ci_worker *worker)
{
    return ci_load_relaxed(&worker->task_errors);
}

static uint64_t count_resumes(const struct ci_worker *worker)
{
    return ci_load_relaxed(&worker->resumes);
}

static uint64_t count_driver_waits(const struct ci_worker *worker)
{
    return ci_load_relaxed(&worker->loop.turns);
}

static uint64_t count_sleeps(const struct ci_worker *worker)
{
    return ci_load_relaxed(&worker->loop.sleeps);
}

static uint64_t count_wakeups(const struct ci_worker *worker)
{
    return ci_load_relaxed(&worker->loop.wakeups);
}

static uint64_t count_stacks_live(const struct ci_worker *worker)
{
    return ci_load_relaxed(&worker->stacks.live);
}

static uint64_t count_stacks_cached(const struct ci_worker *worker)
{
    return ci_load_relaxed(&worker->stacks.cached);
}

static const struct {
    const char *name, *type, *help;
    uint64_t (*value)(const struct ci_worker *worker);
} counters[] = {
    {"coir_tasks_started_total", "counter", "Tasks that were started.", count_tasks_started},
    {"coir_tasks_live", "gauge", "Tasks that have not ended.", count_tasks_live},
    {"coir_task_errors_total", "counter", "Tasks of serving scopes that failed.",
     count_task_errors},
    {"coir_resumes_total", "counter", "Times a fiber was given the CPU.", count_resumes},
    {"coir_driver_waits_total", "counter", "Times the driver was asked for events.",
     count_driver_waits},
    {"coir_sleeps_total", "counter", "Times the worker was about to sleep.", count_sleeps},
    {"coir_wakeups_total", "counter", "Times another thread woke the worker.", count_wakeups},
    {"coir_stacks_live", "gauge", "Stacks that a fiber or generator uses.", count_stacks_live},
    {"coir_stacks_cached", "gauge", "Stacks that are kept for the next one.", count_stacks_cached},
};

static void put_counters(struct ci_metrics_text *text, const coir_runtime *runtime)
{
    for (size_t i = 0; i < ci_countof(counters); i++) {
        ci_metrics_put_head(text, counters[i].name, counters[i].type, counters[i].help);
        for (int worker = 0; worker < runtime->worker_count; worker++)
            ci_metrics_put(text, "%s{worker=\"%d\"} %" PRIu64 "\n", counters[i].name, worker,
                           counters[i].value(&runtime->workers[worker]));
    }
}

/* Objects move between the pools of workers, so one may have got back more than it has handed out.
 */
static void put_pool(struct ci_metrics_text *text, int worker, const char *name,
                     const struct ci_pool *pool, bool bytes)
{
    int64_t live = (int64_t)ci_load_relaxed(&pool->live);
    ci_metrics_put(text, "coir_pool_%s{worker=\"%d\",pool=\"%s\"} %" PRId64 "\n",
                   bytes ? "used_bytes" : "objects", worker, name,
                   bytes ? live * (int64_t)pool->object_size : live);
}

static void put_worker_pools(struct ci_metrics_text *text, const struct ci_worker *worker,
                             bool bytes)
{
    const struct ci_named_pool own[] = {{"tasks", &worker->tasks},
                                        {"remote tasks", &worker->remote_tasks},
                                        {"locals", &worker->locals},
                                        {"copied arguments", &worker->copies},
                                        {"defers", &worker->deferred}};
    for (size_t i = 0; i < ci_countof(own); i++)
        put_pool(text, worker->index, own[i].name, own[i].pool, bytes);
    /* pairs with the release in ci_worker_add_extension */
    for (const struct ci_worker_extension *extension = ci_load_acquire(&worker->extensions);
         extension; extension = extension->next) {
        struct ci_named_pool theirs[CI_NAMED_POOLS];
        size_t count = extension->pools(extension, theirs);
        for (size_t i = 0; i < count; i++)
            put_pool(text, worker->index, theirs[i].name, theirs[i].pool, bytes);
    }
}

static void put_pools(struct ci_metrics_text *text, const coir_runtime *runtime)
{
    ci_metrics_put_head(text, "coir_pool_objects", "gauge", "Objects of a pool that are in use.");
    for (int i = 0; i < runtime->worker_count; i++)
        put_worker_pools(text, &runtime->workers[i], false);
    ci_metrics_put_head(text, "coir_pool_used_bytes", "gauge", "The size of these objects.");
    for (int i = 0; i < runtime->worker_count; i++)
        put_worker_pools(text, &runtime->workers[i], true);
}

static void put_offload(struct ci_metrics_text *text, coir_runtime *runtime)
{
    struct ci_offload *pool = &runtime->offload;
    ci_mutex_lock(&pool->lock);
    unsigned running = pool->running, calling = ci_load(&pool->calling);
    size_t queued = pool->queued;
    ci_mutex_unlock(&pool->lock);
    ci_metrics_put_head(text, "coir_offload_threads", "gauge", "Threads of coir_offload.");
    ci_metrics_put(text, "coir_offload_threads{state=\"busy\"} %u\n", calling);
    ci_metrics_put(text, "coir_offload_threads{state=\"idle\"} %u\n", running - calling);
    ci_metrics_put_head(text, "coir_offload_queued", "gauge", "Calls that wait for a thread.");
    ci_metrics_put(text, "coir_offload_queued %zu\n", queued);
}

/* ---- histograms ---- */

/* Buckets of less than 128 ns, and of more than 17 s, are summed up. */
enum { FIRST_BUCKET = 7, LAST_BUCKET = 34 };

static void put_histogram(struct ci_metrics_text *text, const char *name, int worker,
                          const struct ci_histogram *histogram)
{
    uint64_t count = 0;
    for (int i = 0; i < CI_STATS_BUCKETS; i++) {
        count += ci_load_relaxed(&histogram->buckets[i]);
        if (i >= FIRST_BUCKET && i <= LAST_BUCKET)
            ci_metrics_put(text, "%s_bucket{worker=\"%d\",le=\"%.9g\"} %" PRIu64 "\n", name, worker,
                           (double)((uint64_t)1 << i) / 1e9, count);
    }
    ci_metrics_put(text, "%s_bucket{worker=\"%d\",le=\"+Inf\"} %" PRIu64 "\n", name, worker, count);
    ci_metrics_put(text, "%s_sum{worker=\"%d\"} %.9f\n", name, worker,
                   (double)ci_load_relaxed(&histogram->sum) / 1e9);
    ci_metrics_put(text, "%s_count{worker=\"%d\"} %" PRIu64 "\n", name, worker, count);
}

static const struct ci_stats *stats_of(const coir_runtime *runtime, int worker)
{
    /* pairs with the release in trace_record.c */
    return ci_load_acquire(&runtime->workers[worker].stats);
}

static void put_histograms(struct ci_metrics_text *text, const coir_runtime *runtime)
{
    static const struct {
        const char *name, *help;
        size_t at;
    } histograms[] = {
        {"coir_turn_seconds", "How long a turn of a task takes.", offsetof(struct ci_stats, turns)},
        {"coir_scheduling_delay_seconds", "From a wake-up by a task to the turn.",
         offsetof(struct ci_stats, delays)},
        {"coir_poll_delay_seconds", "From a wake-up by the loop to the turn.",
         offsetof(struct ci_stats, poll_delays)},
    };
    for (size_t i = 0; i < ci_countof(histograms); i++) {
        ci_metrics_put_head(text, histograms[i].name, "histogram", histograms[i].help);
        for (int worker = 0; worker < runtime->worker_count; worker++) {
            const struct ci_stats *stats = stats_of(runtime, worker);
            if (stats)
                put_histogram(text, histograms[i].name, worker,
                              (const struct ci_histogram *)(const void *)((const char *)stats +
                                                                          histograms[i].at));
        }
    }
}

/* ---- by name ---- */

enum { NAMES = 256 };

struct sums {
    struct ci_stats_name names[NAMES];
    size_t count;
};

static const char others[] = "(others)";

/* The place of a name; the last one is kept for `others`, which a name without a place is among. */
static struct ci_stats_name *find_or_add(struct sums *sums, const char *name)
{
    size_t i = 0;
    while (i < sums->count && strcmp(sums->names[i].name, name) != 0)
        i++;
    if (i >= NAMES - 1 && strcmp(name, others) != 0)
        return find_or_add(sums, others);
    struct ci_stats_name *sum = &sums->names[i];
    if (i == sums->count) {
        *sum = (struct ci_stats_name){.turns = 0};
        memcpy(sum->name, name, strlen(name));
        sums->count++;
    }
    return sum;
}

static void add(struct sums *sums, const char *name, const struct ci_stats_name *entry)
{
    struct ci_stats_name *sum = find_or_add(sums, name);
    uint64_t max = ci_load_relaxed(&entry->max);
    sum->turns += ci_load_relaxed(&entry->turns);
    sum->begun += ci_load_relaxed(&entry->begun);
    sum->ended += ci_load_relaxed(&entry->ended);
    ci_coarse_sum(&sum->lengths, &entry->lengths);
    ci_coarse_sum(&sum->delays, &entry->delays);
    sum->max = max > sum->max ? max : sum->max;
    uint64_t stack = ci_load_relaxed(&entry->stack);
    sum->stack = stack > sum->stack ? stack : sum->stack;
}

static void put_task_head(struct ci_metrics_text *text, const char *metric, const char *task)
{
    ci_metrics_put(text, "%s{task=\"", metric);
    ci_metrics_put_label(text, task);
}

static void put_names(struct ci_metrics_text *text, const struct sums *sums)
{
    static const struct {
        const char *name, *type, *help;
        size_t at;
        bool is_time;
    } columns[] = {
        {"coir_task_begins_total", "counter", "Tasks that have had their first turn, by name.",
         offsetof(struct ci_stats_name, begun), false},
        {"coir_task_ends_total", "counter", "Tasks that have ended, by name.",
         offsetof(struct ci_stats_name, ended), false},
        {"coir_task_turns_total", "counter", "Turns of tasks by name.",
         offsetof(struct ci_stats_name, turns), false},
        {"coir_task_seconds_total", "counter", "Time in turns of tasks by name.",
         offsetof(struct ci_stats_name, lengths.sum), true},
        {"coir_task_turn_seconds_max", "gauge", "The longest turn of tasks by name.",
         offsetof(struct ci_stats_name, max), true},
    };
    for (size_t column = 0; column < ci_countof(columns); column++) {
        ci_metrics_put_head(text, columns[column].name, columns[column].type, columns[column].help);
        for (size_t i = 0; i < sums->count; i++) {
            const struct ci_stats_name *sum = &sums->names[i];
            const void *at = (const char *)sum + columns[column].at;
            uint64_t value = *(const uint64_t *)at;
            put_task_head(text, columns[column].name, sum->name);
            if (columns[column].is_time)
                ci_metrics_put(text, "\"} %.9f\n", (double)value / 1e9);
            else
                ci_metrics_put(text, "\"} %" PRIu64 "\n", value);
        }
    }
}

static void put_name_histograms(struct ci_metrics_text *text, const struct sums *sums)
{
    ci_metrics_put_head(text, "coir_task_turn_seconds", "histogram",
                        "How long a turn takes, by the name of the task.");
    for (size_t i = 0; i < sums->count; i++)
        ci_metrics_put_coarse(text, "coir_task_turn_seconds", "task", sums->names[i].name,
                              &sums->names[i].lengths);
    ci_metrics_put_head(text, "coir_task_scheduling_delay_seconds", "histogram",
                        "From a wake-up to the turn, by the name of the task.");
    for (size_t i = 0; i < sums->count; i++)
        ci_metrics_put_coarse(text, "coir_task_scheduling_delay_seconds", "task",
                              sums->names[i].name, &sums->names[i].delays);
}

static void put_stacks(struct ci_metrics_text *text, const coir_runtime *runtime,
                       const struct sums *sums)
{
    uint64_t most = 0;
    ci_metrics_put_head(text, "coir_stack_size_bytes", "gauge",
                        "The size of each stack, with its guard.");
    ci_metrics_put(text, "coir_stack_size_bytes %zu\n", runtime->workers[0].stacks.size);
    if (!runtime->config.stack_use)
        return;
    ci_metrics_put_head(text, "coir_stack_used_bytes_max", "gauge",
                        "The most that a stack has used, by task.");
    for (size_t i = 0; i < sums->count; i++) {
        uint64_t used = sums->names[i].stack;
        if (!used)
            continue;
        ci_metrics_put(text, "coir_stack_used_bytes_max{task=\"");
        ci_metrics_put_label(text, sums->names[i].name);
        ci_metrics_put(text, "\"} %" PRIu64 "\n", used);
        most = used > most ? used : most;
    }
    ci_metrics_put_head(text, "coir_stack_size_suggested_bytes", "gauge",
                        "Room for twice the most that was used, and the guard.");
    ci_metrics_put(text, "coir_stack_size_suggested_bytes %zu\n", ci_stack_use_suggest(most));
}

static int add_names(struct ci_metrics_text *text, const coir_runtime *runtime)
{
    struct sums *sums = ci_alloc_zero(&runtime->allocator, sizeof *sums);
    if (!sums)
        return -ENOMEM;
    for (int worker = 0; worker < runtime->worker_count; worker++) {
        const struct ci_stats *stats = stats_of(runtime, worker);
        for (size_t i = 0; stats && i <= CI_STATS_NAMES; i++) {
            const struct ci_stats_name *entry = &stats->names[i];
            /* pairs with the releases in stats.c */
            if (ci_load_acquire(&entry->turns) || ci_load_acquire(&entry->stack))
                add(sums, i < CI_STATS_NAMES ? entry->name : others, entry);
        }
    }
    put_names(text, sums);
    put_name_histograms(text, sums);
    put_stacks(text, runtime, sums);
    ci_free(&runtime->allocator, sums, sizeof *sums);
    return 0;
}

int64_t coir_metrics_text(coir_runtime *runtime, char *bytes, size_t size)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!runtime || (!bytes && size))
        return CI_MISUSE(-EINVAL, "runtime or text is NULL");
    struct ci_metrics_text text = {bytes, size, 0};
    struct ci_locale locale = ci_locale_enter();
    put_counters(&text, runtime);
    put_pools(&text, runtime);
    put_offload(&text, runtime);
    ci_metered_put(&text, runtime);
    ci_lock_counts_put(&text);
    put_histograms(&text, runtime);
    int rc = add_names(&text, runtime);
    ci_locale_leave(locale);
    return rc < 0 ? rc : (int64_t)text.len;
}

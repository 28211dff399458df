/* The metrics of a runtime as text. */
#include "coir/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sys/fork.h"
#include "sys/misuse.h"
#include "task/runtime.h"
#include "task/stack_use.h"
#include "task/stats.h"

struct text {
    char *bytes;
    size_t size, len;
};

static void put(struct text *text, const char *format, ...) COIR_PRINTF(2, 3);
static void put(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t at = text->len < text->size ? text->len : text->size;
    int len = vsnprintf(text->size ? text->bytes + at : NULL, text->size - at, format, args);
    va_end(args);
    text->len += len > 0 ? (size_t)len : 0;
}

static void put_head(struct text *text, const char *name, const char *type, const char *help)
{
    put(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

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

static void put_counters(struct text *text, const coir_runtime *runtime)
{
    for (size_t i = 0; i < ci_countof(counters); i++) {
        put_head(text, counters[i].name, counters[i].type, counters[i].help);
        for (int worker = 0; worker < runtime->worker_count; worker++)
            put(text, "%s{worker=\"%d\"} %" PRIu64 "\n", counters[i].name, worker,
                counters[i].value(&runtime->workers[worker]));
    }
}

static void put_pools(struct text *text, const coir_runtime *runtime)
{
    put_head(text, "coir_pool_objects", "gauge", "Objects of a pool that are in use.");
    for (int i = 0; i < runtime->worker_count; i++) {
        const struct ci_worker *worker = &runtime->workers[i];
        const struct {
            const char *name;
            const struct ci_pool *pool;
        } pools[] = {{"tasks", &worker->tasks},
                     {"remote tasks", &worker->remote_tasks},
                     {"locals", &worker->locals},
                     {"copied arguments", &worker->copies},
                     {"defers", &worker->deferred}};
        for (size_t j = 0; j < ci_countof(pools); j++)
            put(text, "coir_pool_objects{worker=\"%d\",pool=\"%s\"} %zu\n", i, pools[j].name,
                ci_load_relaxed(&pools[j].pool->live));
    }
}

static void put_offload(struct text *text, coir_runtime *runtime)
{
    struct ci_offload *pool = &runtime->offload;
    ci_mutex_lock(&pool->lock);
    unsigned running = pool->running, calling = pool->calling;
    size_t queued = pool->queued;
    ci_mutex_unlock(&pool->lock);
    put_head(text, "coir_offload_threads", "gauge", "Threads of coir_offload.");
    put(text, "coir_offload_threads{state=\"busy\"} %u\n", calling);
    put(text, "coir_offload_threads{state=\"idle\"} %u\n", running - calling);
    put_head(text, "coir_offload_queued", "gauge", "Calls that wait for a thread.");
    put(text, "coir_offload_queued %zu\n", queued);
}

/* ---- histograms ---- */

/* Buckets of less than 128 ns, and of more than 17 s, are summed up. */
enum { FIRST_BUCKET = 7, LAST_BUCKET = 34 };

static void put_histogram(struct text *text, const char *name, int worker,
                          const struct ci_histogram *histogram)
{
    uint64_t count = 0;
    for (int i = 0; i < CI_STATS_BUCKETS; i++) {
        count += ci_load_relaxed(&histogram->buckets[i]);
        if (i >= FIRST_BUCKET && i <= LAST_BUCKET)
            put(text, "%s_bucket{worker=\"%d\",le=\"%.9g\"} %" PRIu64 "\n", name, worker,
                (double)((uint64_t)1 << i) / 1e9, count);
    }
    put(text, "%s_bucket{worker=\"%d\",le=\"+Inf\"} %" PRIu64 "\n", name, worker, count);
    put(text, "%s_sum{worker=\"%d\"} %.9f\n", name, worker,
        (double)ci_load_relaxed(&histogram->sum) / 1e9);
    put(text, "%s_count{worker=\"%d\"} %" PRIu64 "\n", name, worker, count);
}

static const struct ci_stats *stats_of(const coir_runtime *runtime, int worker)
{
    /* pairs with the release in trace_record.c */
    return ci_load_acquire(&runtime->workers[worker].stats);
}

static void put_histograms(struct text *text, const coir_runtime *runtime)
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
        put_head(text, histograms[i].name, "histogram", histograms[i].help);
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

static void add(struct sums *sums, const char *name, const struct ci_stats_name *entry)
{
    size_t i = 0;
    while (i < sums->count && strcmp(sums->names[i].name, name) != 0)
        i++;
    if (i == NAMES)
        return;
    struct ci_stats_name *sum = &sums->names[i];
    uint64_t max = ci_load_relaxed(&entry->max);
    if (i == sums->count) {
        *sum = (struct ci_stats_name){.turns = 0};
        memcpy(sum->name, name, strlen(name));
        sums->count++;
    }
    sum->turns += ci_load_relaxed(&entry->turns);
    sum->sum += ci_load_relaxed(&entry->sum);
    sum->max = max > sum->max ? max : sum->max;
    uint64_t stack = ci_load_relaxed(&entry->stack);
    sum->stack = stack > sum->stack ? stack : sum->stack;
}

static void put_label(struct text *text, const char *label)
{
    for (; *label; label++) {
        unsigned char c = (unsigned char)*label;
        if (c == '"' || c == '\\')
            put(text, "\\%c", c);
        else
            put(text, "%c", c < ' ' || c > '~' ? '?' : c);
    }
}

static void put_names(struct text *text, const struct sums *sums)
{
    static const char *const heads[][3] = {
        {"coir_task_turns_total", "counter", "Turns of tasks by name."},
        {"coir_task_seconds_total", "counter", "Time in turns of tasks by name."},
        {"coir_task_turn_seconds_max", "gauge", "The longest turn of tasks by name."}};
    for (size_t column = 0; column < ci_countof(heads); column++) {
        put_head(text, heads[column][0], heads[column][1], heads[column][2]);
        for (size_t i = 0; i < sums->count; i++) {
            const struct ci_stats_name *sum = &sums->names[i];
            put(text, "%s{task=\"", heads[column][0]);
            put_label(text, sum->name);
            if (column == 0)
                put(text, "\"} %" PRIu64 "\n", sum->turns);
            else
                put(text, "\"} %.9f\n", (double)(column == 1 ? sum->sum : sum->max) / 1e9);
        }
    }
}

static void put_stacks(struct text *text, const coir_runtime *runtime, const struct sums *sums)
{
    uint64_t most = 0;
    put_head(text, "coir_stack_size_bytes", "gauge", "The size of each stack, with its guard.");
    put(text, "coir_stack_size_bytes %zu\n", runtime->workers[0].stacks.size);
    if (!runtime->config.stack_use)
        return;
    put_head(text, "coir_stack_used_bytes_max", "gauge",
             "The most that a stack has used, by task.");
    for (size_t i = 0; i < sums->count; i++) {
        uint64_t used = sums->names[i].stack;
        if (!used)
            continue;
        put(text, "coir_stack_used_bytes_max{task=\"");
        put_label(text, sums->names[i].name);
        put(text, "\"} %" PRIu64 "\n", used);
        most = used > most ? used : most;
    }
    put_head(text, "coir_stack_size_suggested_bytes", "gauge",
             "Room for twice the most that was used, and the guard.");
    put(text, "coir_stack_size_suggested_bytes %zu\n", ci_stack_use_suggest(most));
}

static int add_names(struct text *text, const coir_runtime *runtime)
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
                add(sums, i < CI_STATS_NAMES ? entry->name : "(others)", entry);
        }
    }
    put_names(text, sums);
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
    struct text text = {bytes, size, 0};
    put_counters(&text, runtime);
    put_pools(&text, runtime);
    put_offload(&text, runtime);
    put_histograms(&text, runtime);
    int rc = add_names(&text, runtime);
    return rc < 0 ? rc : (int64_t)text.len;
}

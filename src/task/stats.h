/* What is measured of a worker's turns while it is traced: how long they take, and how long what
 * has been woken waits for its turn. Its worker writes; any thread reads, number by number. */
#ifndef CI_TASK_STATS_H
#define CI_TASK_STATS_H

#include "base/atomic.h"
#include "coir/base.h"
#include "task/metrics_text.h"

/* Bucket i counts what took less than 2^i ns, and not less than 2^(i-1). */
enum { CI_STATS_BUCKETS = 40, CI_STATS_NAMES = 64, CI_STATS_NAME = 32, CI_STATS_BATCHES = 256 };

struct ci_histogram {
    uint64_t buckets[CI_STATS_BUCKETS];
    uint64_t sum; /* ns */
};

struct ci_stats {
    struct ci_histogram turns;
    struct ci_histogram delays;      /* from the end of the turn that woke to the turn */
    struct ci_histogram poll_delays; /* of what the loop has woken, from when it goes on */
    struct ci_stats_name {
        char name[CI_STATS_NAME]; /* empty: free; set before `turns` is not 0 */
        uint64_t turns;           /* that have ended */
        uint64_t max;             /* the longest turn, ns */
        uint64_t stack;           /* the most bytes that a stack of such a task has used, or 0 */
        uint64_t begun, ended;    /* tasks: in their first turn, and in their last one */
        struct ci_coarse lengths; /* of turns */
        struct ci_coarse delays;  /* from a wake-up to the turn, whoever has woken it */
    } names[CI_STATS_NAMES + 1];  /* the last one is for names that found no room */

    /* The run queue by the times at which it grew, oldest first: the worker's alone. */
    struct ci_stats_batch {
        uint64_t at; /* ticks */
        uint32_t count;
        bool by_loop;
    } batches[CI_STATS_BATCHES];
    uint32_t first, batch_count;
    double ns_per_tick;
};

/* Nothing is queued. */
static inline void ci_stats_clear(struct ci_stats *stats)
{
    stats->first = stats->batch_count = 0;
}

/* So many were added to the run queue. */
static inline void ci_stats_queued(struct ci_stats *stats, uint64_t at, uint32_t count,
                                   bool by_loop)
{
    if (!count)
        return;
    if (ci_unlikely(stats->batch_count ==
                    CI_STATS_BATCHES)) { /* they count as older than they are */
        stats->batches[(stats->first + stats->batch_count - 1) % CI_STATS_BATCHES].count += count;
        return;
    }
    stats->batches[(stats->first + stats->batch_count++) % CI_STATS_BATCHES] =
        (struct ci_stats_batch){at, count, by_loop};
}

static inline void ci_histogram_add(struct ci_histogram *histogram, uint64_t ns)
{
    unsigned bucket = ns ? 64 - (unsigned)__builtin_clzll(ns) : 0;
    if (bucket >= CI_STATS_BUCKETS)
        bucket = CI_STATS_BUCKETS - 1;
    ci_bump(&histogram->buckets[bucket]);
    ci_store_relaxed(&histogram->sum, histogram->sum + ns);
}

/* What is measured of tasks with this name; NULL: it is NULL or empty. */
struct ci_stats_name *ci_stats_of(struct ci_stats *stats, const char *name);

/* The oldest of the run queue begins its turn. `name`: of its task, or NULL. */
static inline void ci_stats_began(struct ci_stats *stats, struct ci_stats_name *name, uint64_t at)
{
    struct ci_stats_batch *batch = &stats->batches[stats->first];
    if (!stats->batch_count)
        return;
    uint64_t ns = (uint64_t)((double)(at - batch->at) * stats->ns_per_tick);
    ci_histogram_add(batch->by_loop ? &stats->poll_delays : &stats->delays, ns);
    if (name)
        ci_coarse_add(&name->delays, ns);
    if (--batch->count)
        return;
    stats->first = (stats->first + 1) % CI_STATS_BATCHES;
    stats->batch_count--;
}

/* A stack of a task with this name has used so many bytes. */
void ci_stats_stack(struct ci_stats *stats, const char *name, size_t used);

/* A turn has ended; `name`: of its task, or NULL. Times in ticks. */
void ci_stats_ended(struct ci_stats *stats, struct ci_stats_name *name, uint64_t from, uint64_t to);

#endif

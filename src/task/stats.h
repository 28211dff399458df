/* What is measured of a worker's turns while it is traced: how long they take, and how long what
 * has been woken waits for its turn. Its worker writes; any thread reads, number by number. */
#ifndef CI_TASK_STATS_H
#define CI_TASK_STATS_H

#include "base/atomic.h"
#include "coir/base.h"
#include "task/metrics_text.h"

/* Bucket i counts what took less than 2^i ns, and not less than 2^(i-1); bucket 0 is empty. */
enum { CI_STATS_BUCKETS = 40, CI_STATS_NAME_BITS = 6, CI_STATS_NAMES = 1 << CI_STATS_NAME_BITS };
enum { CI_STATS_NAME = 32, CI_STATS_BATCHES = 256 };

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
    uint64_t ns_per_tick; /* times 2^32 */

    /* where the names of tasks lie that have had a turn, so that later turns compare no names: an
     * address is another name's only after the task has ended, or set it anew */
    struct ci_stats_known {
        const char *from;
        struct ci_stats_name *name;
    } known[CI_STATS_NAMES];
};

/* 0 where the counter of the CPU that the worker runs on by now is behind the one before. */
static inline uint64_t ci_stats_ns(const struct ci_stats *stats, uint64_t from, uint64_t to)
{
    uint64_t ticks = to > from ? to - from : 0;
    return (uint64_t)(((unsigned __int128)ticks * stats->ns_per_tick) >> 32);
}

/* A trace begins: nothing is queued, and no name is known. */
void ci_stats_begin(struct ci_stats *stats);

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
    unsigned bucket = 64 - (unsigned)__builtin_clzll(ns | 1);
    if (bucket >= CI_STATS_BUCKETS)
        bucket = CI_STATS_BUCKETS - 1;
    ci_bump(&histogram->buckets[bucket]);
    ci_store_relaxed(&histogram->sum, histogram->sum + ns);
}

static inline struct ci_stats_known *ci_stats_known_at(struct ci_stats *stats, const char *name)
{
    return &stats->known[(uintptr_t)name * 0x9e3779b97f4a7c15u >> (64 - CI_STATS_NAME_BITS)];
}

/* What is measured of tasks with this name; NULL: it is NULL or empty. `anew`: it was not asked for
 * since a task has got a name there. */
CI_NOINLINE struct ci_stats_name *ci_stats_find(struct ci_stats *stats, const char *name);
static inline struct ci_stats_name *ci_stats_of(struct ci_stats *stats, const char *name, bool anew)
{
    if (!name)
        return NULL;
    const struct ci_stats_known *known = ci_stats_known_at(stats, name);
    return ci_likely(!anew && known->from == name) ? known->name : ci_stats_find(stats, name);
}

/* A task has set its name anew. */
void ci_stats_renamed(struct ci_stats *stats, const char *name);

/* Whether it is one, and not what stands for all that found no room. */
static inline bool ci_stats_is_named(const struct ci_stats *stats, const struct ci_stats_name *name)
{
    return name != &stats->names[CI_STATS_NAMES];
}

/* The oldest of the run queue begins its turn. `name`: of its task, or NULL. */
static inline void ci_stats_began(struct ci_stats *stats, struct ci_stats_name *name, uint64_t at)
{
    struct ci_stats_batch *batch = &stats->batches[stats->first];
    if (!stats->batch_count)
        return;
    uint64_t ns = ci_stats_ns(stats, batch->at, at);
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
static inline void ci_stats_ended(struct ci_stats *stats, struct ci_stats_name *name, uint64_t from,
                                  uint64_t to)
{
    uint64_t ns = ci_stats_ns(stats, from, to);
    ci_histogram_add(&stats->turns, ns);
    if (!name)
        return;
    ci_coarse_add(&name->lengths, ns);
    if (ns > name->max)
        ci_store_relaxed(&name->max, ns);
    /* after the name: pairs with the acquire in metrics.c */
    ci_store_release(&name->turns, name->turns + 1);
}

#endif

/* Text in the format of Prometheus, cut where there is no more room. */
#ifndef CI_TASK_METRICS_TEXT_H
#define CI_TASK_METRICS_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "coir/base.h"

struct ci_metrics_text {
    char *bytes; /* NULL: size is 0 */
    size_t size;
    size_t len; /* of the whole */
};

void ci_metrics_put(struct ci_metrics_text *text, const char *format, ...) COIR_PRINTF(2, 3);

/* What is said of a metric, once, before its samples. */
void ci_metrics_put_head(struct ci_metrics_text *text, const char *name, const char *type,
                         const char *help);

/* The value of a label: escaped; bytes that are no UTF-8 and control characters stand as \xNN. */
void ci_metrics_put_label(struct ci_metrics_text *text, const char *value);

/* A histogram with few buckets, as there is one for each name: bucket i counts what took less than
 * 2^(10+2i) ns, and not less than the one before it: from 1 us to 17 s by fours. The last one has
 * no bound. */
enum { CI_COARSE_BUCKETS = 14 };

struct ci_coarse {
    uint64_t buckets[CI_COARSE_BUCKETS];
    uint64_t sum; /* ns */
};

static inline int ci_coarse_bucket(uint64_t ns)
{
    int bits = ns ? 64 - __builtin_clzll(ns) : 0; /* ns < 2^bits */
    int bucket = bits > 10 ? (bits - 9) / 2 : 0;
    return bucket < CI_COARSE_BUCKETS ? bucket : CI_COARSE_BUCKETS - 1;
}

/* By the only thread that writes to it. */
static inline void ci_coarse_add(struct ci_coarse *histogram, uint64_t ns)
{
    ci_bump(&histogram->buckets[ci_coarse_bucket(ns)]);
    ci_store_relaxed(&histogram->sum, histogram->sum + ns);
}

/* Adds one that may be written to meanwhile. */
void ci_coarse_sum(struct ci_coarse *sum, const struct ci_coarse *histogram);

void ci_metrics_put_coarse(struct ci_metrics_text *text, const char *metric, const char *label,
                           const char *value, const struct ci_coarse *histogram);

#endif

/* Metrics in the format of Prometheus, read. */
#ifndef TOP_METRICS_H
#define TOP_METRICS_H

#include <coir.h>

/* A line NAME{LABELS} VALUE; LABELS is "" where there are none. */
struct sample {
    const char *name, *labels;
    double value;
};

/* A part of a text. */
struct span {
    const char *at;
    size_t len;
};

struct metrics {
    char *text; /* cut into pieces, which the samples point at */
    struct sample *samples;
    size_t count;
    struct sum *sums; /* a table of what metrics_sum answers */
    size_t sums_size; /* a power of two */
    coir_time at;
};

enum { METRICS_MOST = 1 << 18 }; /* samples */

/* Reads `text`, which becomes the metrics'. 0, -ENOMEM, or -EFBIG of more than METRICS_MOST
 * samples: it is freed. */
int metrics_read(struct metrics *metrics, char *text, coir_time at);
void metrics_done(struct metrics *metrics);

/* The value of a label as the server has written it, with its escapes. False: there is none. */
bool sample_label(const struct sample *sample, const char *label, struct span *ret_value);

/* The sum of the samples with that name, and, if `label` is not NULL, with that label, which is
 * "worker", "task" or "le". */
double metrics_sum(const struct metrics *metrics, const char *name, const char *label,
                   struct span value);

/* How much that has grown in a second. */
double metrics_rate(const struct metrics *before, const struct metrics *now, const char *name,
                    const char *label, struct span value);

/* The upper bound, in seconds, of that share (0 to 1) of what a histogram has counted since
 * `before`; NaN: nothing. */
double metrics_quantile(const struct metrics *before, const struct metrics *now, const char *name,
                        double share);

#endif

#include "metrics.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

/* Cuts a line into the parts of a sample. False: it is a comment, or something else. */
static bool read_line(char *line, struct sample *sample)
{
    char *end, *number = strrchr(line, ' '), *labels = strchr(line, '{');
    if (!number || line[0] == '#')
        return false;
    *number++ = '\0';
    sample->value = strtod(number, &end);
    sample->name = line;
    sample->labels = "";
    if (labels) {
        *labels++ = '\0';
        sample->labels = labels;
        char *last = strrchr(labels, '}');
        if (!last)
            return false;
        *last = '\0';
    }
    return end != number;
}

static size_t count_lines(const char *text)
{
    size_t lines = 1;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

bool sample_label(const struct sample *sample, const char *label, struct span *ret_value)
{
    for (const char *at = sample->labels; *at; at += *at == ',') {
        size_t len = strcspn(at, "=");
        bool wanted = strlen(label) == len && memcmp(at, label, len) == 0;
        at += len;
        if (strncmp(at, "=\"", 2) != 0)
            return false;
        const char *value = at += 2;
        while (*at && *at != '"')
            at += *at == '\\' && at[1] ? 2 : 1;
        *ret_value = (struct span){value, (size_t)(at - value)};
        if (wanted)
            return true;
        at += *at == '"';
    }
    return false;
}

/* ---- sums ---- */

/* Of the samples with a name, or of those of them with a label. */
struct sum {
    const char *name;  /* NULL: the place is free */
    const char *label; /* one of `labels`, or NULL */
    struct span value;
    double sum;
};

enum { SUMS_OF_A_SAMPLE = 4, PROBES = 64 };
static const char *const labels[SUMS_OF_A_SAMPLE] = {NULL, "worker", "task", "le"};

static uint64_t hash(uint64_t seed, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        seed = (seed ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return seed;
}

static bool is_of(const struct sum *sum, const char *name, const char *label, struct span value)
{
    if (strcmp(sum->name, name) != 0 || !sum->label != !label)
        return false;
    return !label || (strcmp(sum->label, label) == 0 && sum->value.len == value.len &&
                      memcmp(sum->value.at, value.at, value.len) == 0);
}

/* The entry of a sum, or the free one where it belongs. NULL: neither is near, as a server may
 * bring about which knows the hash. */
static struct sum *find_sum(const struct metrics *metrics, const char *name, const char *label,
                            struct span value)
{
    uint64_t at = hash((uintptr_t)metrics->sums, name, strlen(name) + 1);
    if (label)
        at = hash(hash(at, label, strlen(label) + 1), value.at, value.len);
    at ^= at >> 32;
    for (int i = 0; i < PROBES; i++) {
        struct sum *sum = &metrics->sums[(at + (uint64_t)i) & (metrics->sums_size - 1)];
        if (!sum->name || is_of(sum, name, label, value))
            return sum;
    }
    return NULL;
}

static void add_up(const struct metrics *metrics, const struct sample *sample)
{
    struct span value = {NULL, 0};
    for (int i = 0; i < SUMS_OF_A_SAMPLE; i++) {
        if (labels[i] && !sample_label(sample, labels[i], &value))
            continue;
        struct sum *sum = find_sum(metrics, sample->name, labels[i], value);
        if (!sum)
            continue;
        sum->name = sample->name;
        sum->label = labels[i];
        sum->value = value;
        sum->sum += sample->value;
    }
}

int metrics_read(struct metrics *metrics, char *text, coir_time at)
{
    size_t lines = count_lines(text);
    *metrics = (struct metrics){.text = text, .at = at, .sums_size = 16};
    while (metrics->sums_size < 2 * SUMS_OF_A_SAMPLE * lines && lines <= METRICS_MOST)
        metrics->sums_size *= 2;
    metrics->samples = calloc(lines <= METRICS_MOST ? lines : 1, sizeof *metrics->samples);
    metrics->sums = calloc(metrics->sums_size, sizeof *metrics->sums);
    if (lines > METRICS_MOST || !metrics->samples || !metrics->sums) {
        metrics_done(metrics);
        return lines > METRICS_MOST ? -EFBIG : -ENOMEM;
    }
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));)
        metrics->count += read_line(line, &metrics->samples[metrics->count]);
    for (size_t i = 0; i < metrics->count; i++)
        add_up(metrics, &metrics->samples[i]);
    return 0;
}

void metrics_done(struct metrics *metrics)
{
    free(metrics->text);
    free(metrics->samples);
    free(metrics->sums);
    *metrics = (struct metrics){.text = NULL};
}

double metrics_sum(const struct metrics *metrics, const char *name, const char *label,
                   struct span value)
{
    if (!metrics->sums) /* of the first look there is nothing before */
        return 0;
    const struct sum *sum = find_sum(metrics, name, label, value);
    return sum ? sum->sum : 0;
}

double metrics_rate(const struct metrics *before, const struct metrics *now, const char *name,
                    const char *label, struct span value)
{
    double seconds = (double)(now->at - before->at) / 1e9;
    double more = metrics_sum(now, name, label, value) - metrics_sum(before, name, label, value);
    return seconds > 0 && more > 0 ? more / seconds : 0; /* it is less after a restart */
}

double metrics_quantile(const struct metrics *before, const struct metrics *now, const char *name,
                        double share)
{
    struct span bound = {"+Inf", 4};
    double total = metrics_sum(now, name, "le", bound) - metrics_sum(before, name, "le", bound);
    for (size_t i = 0; total > 0 && i < now->count; i++) {
        const struct sample *sample = &now->samples[i];
        if (strcmp(sample->name, name) != 0 || !sample_label(sample, "le", &bound))
            continue;
        double count = metrics_sum(now, name, "le", bound) - metrics_sum(before, name, "le", bound);
        if (count >= share * total)
            return strtod(bound.at, NULL);
    }
    return NAN;
}

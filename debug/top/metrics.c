#include "metrics.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ----  */

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

int metrics_read(struct metrics *metrics, char *text, coir_time at)
{
    size_t lines = 1;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    *metrics = (struct metrics){.text = text, .at = at};
    metrics->samples = calloc(lines, sizeof *metrics->samples);
    if (!metrics->samples) {
        metrics_done(metrics);
        return -ENOMEM;
    }
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));)
        metrics->count += read_line(line, &metrics->samples[metrics->count]);
    return 0;
}

void metrics_done(struct metrics *metrics)
{
    free(metrics->text);
    free(metrics->samples);
    *metrics = (struct metrics){.text = NULL};
}

bool sample_label(const struct sample *sample, const char *label, char *value, size_t size)
{
    size_t len = strlen(label);
    const char *at = sample->labels;
    while ((at = strstr(at, label))) {
        bool whole = (at == sample->labels || at[-1] == ',') && strncmp(at + len, "=\"", 2) == 0;
        at += len;
        if (!whole)
            continue;
        at += 2;
        for (; *at && *at != '"' && size > 1; size--) {
            bool escaped = *at == '\\' && at[1];
            at += escaped;
            bool plain = (unsigned char)*at >= ' ' && *at != 0x7f && !(escaped && *at == 'n');
            *value++ = plain ? *at : '?'; /* for a terminal */
            at++;
        }
        *value = '\0';
        return true;
    }
    return false;
}

/* ---- sums ---- */

enum { LABEL = 64 };

static bool matches(const struct sample *sample, const char *name, const char *label,
                    const char *value)
{
    char found[LABEL];
    return strcmp(sample->name, name) == 0 &&
           (!label || (sample_label(sample, label, found, sizeof found) && !strcmp(found, value)));
}

double metrics_sum(const struct metrics *metrics, const char *name, const char *label,
                   const char *value)
{
    double sum = 0;
    for (size_t i = 0; i < metrics->count; i++)
        if (matches(&metrics->samples[i], name, label, value))
            sum += metrics->samples[i].value;
    return sum;
}

double metrics_rate(const struct metrics *before, const struct metrics *now, const char *name,
                    const char *label, const char *value)
{
    double seconds = (double)(now->at - before->at) / 1e9;
    double more = metrics_sum(now, name, label, value) - metrics_sum(before, name, label, value);
    return seconds > 0 && more > 0 ? more / seconds : 0; /* it is less after a restart */
}

double metrics_quantile(const struct metrics *before, const struct metrics *now, const char *name,
                        double share)
{
    char bound[LABEL];
    double total = metrics_sum(now, name, "le", "+Inf") - metrics_sum(before, name, "le", "+Inf");
    for (size_t i = 0; total > 0 && i < now->count; i++) {
        const struct sample *sample = &now->samples[i];
        if (strcmp(sample->name, name) != 0 || !sample_label(sample, "le", bound, sizeof bound))
            continue;
        double count = metrics_sum(now, name, "le", bound) - metrics_sum(before, name, "le", bound);
        if (count >= share * total)
            return strtod(bound, NULL);
    }
    return NAN;
}

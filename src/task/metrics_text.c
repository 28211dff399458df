#include "task/metrics_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/character.h"

void ci_metrics_put(struct ci_metrics_text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t at = text->len < text->size ? text->len : text->size;
    int len = vsnprintf(text->size ? text->bytes + at : NULL, text->size - at, format, args);
    va_end(args);
    text->len += len > 0 ? (size_t)len : 0;
}

void ci_metrics_put_head(struct ci_metrics_text *text, const char *name, const char *type,
                         const char *help)
{
    ci_metrics_put(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* How many bytes at the front need no escapes. */
static size_t plain_len(const char *value)
{
    size_t at = 0, len;
    while (value[at] && value[at] != '"' && value[at] != '\\' && value[at] != '\n') {
        len = ci_character_len(value + at);
        if (!ci_character_is_plain(value + at, len))
            break;
        at += len;
    }
    return at;
}

void ci_metrics_put_label(struct ci_metrics_text *text, const char *value)
{
    for (size_t len; *value; value += len) {
        if ((len = plain_len(value)) > 0) {
            ci_metrics_put(text, "%.*s", (int)len, value);
            continue;
        }
        len = ci_character_len(value);
        len = len ? len : 1;
        if (*value == '"' || *value == '\\')
            ci_metrics_put(text, "\\%c", *value);
        else if (*value == '\n')
            ci_metrics_put(text, "\\n");
        else
            for (size_t i = 0; i < len; i++)
                ci_metrics_put(text, "\\\\x%02x", (unsigned char)value[i]);
    }
}

void ci_coarse_sum(struct ci_coarse *sum, const struct ci_coarse *histogram)
{
    for (int i = 0; i < CI_COARSE_BUCKETS; i++)
        sum->buckets[i] += ci_load_relaxed(&histogram->buckets[i]);
    sum->sum += ci_load_relaxed(&histogram->sum);
}

static void put_sample(struct ci_metrics_text *text, const char *metric, const char *suffix,
                       const char *label, const char *value)
{
    ci_metrics_put(text, "%s%s{%s=\"", metric, suffix, label);
    ci_metrics_put_label(text, value);
}

void ci_metrics_put_coarse(struct ci_metrics_text *text, const char *metric, const char *label,
                           const char *value, const struct ci_coarse *histogram)
{
    uint64_t count = 0;
    for (int i = 0; i < CI_COARSE_BUCKETS; i++) {
        count += histogram->buckets[i];
        put_sample(text, metric, "_bucket", label, value);
        if (i < CI_COARSE_BUCKETS - 1)
            ci_metrics_put(text, "\",le=\"%.9g\"} %" PRIu64 "\n",
                           (double)((uint64_t)1 << (10 + 2 * i)) / 1e9, count);
        else
            ci_metrics_put(text, "\",le=\"+Inf\"} %" PRIu64 "\n", count);
    }
    put_sample(text, metric, "_sum", label, value);
    ci_metrics_put(text, "\"} %.9f\n", (double)histogram->sum / 1e9);
    put_sample(text, metric, "_count", label, value);
    ci_metrics_put(text, "\"} %" PRIu64 "\n", count);
}

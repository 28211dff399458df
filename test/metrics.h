/* The metrics of the calling runtime, read. */
#ifndef TEST_METRICS_H
#define TEST_METRICS_H

#include <coir.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

static char metrics_text[1 << 21];

static inline void metrics_read(void)
{
    int64_t len = coir_metrics_text(coir_runtime_current(), metrics_text, sizeof metrics_text);
    CHECK(len > 0 && (size_t)len < sizeof metrics_text);
    CHECK_EQ(strlen(metrics_text), len);
}

/* The value of a sample, summed over its labels that have the words. */
static inline double metrics_sum(const char *name, const char *words)
{
    double sum = 0;
    for (char *line = metrics_text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        size_t len = strlen(name);
        if (strncmp(line, name, len) == 0 && (line[len] == '{' || line[len] == ' ') &&
            strstr(line, words))
            sum += strtod(strrchr(line, ' '), NULL);
        *end = '\n';
    }
    return sum;
}

#endif

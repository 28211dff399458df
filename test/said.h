/* Misuse as a running program hears of it: in its log, by the name of the call. */
#ifndef TEST_SAID_H
#define TEST_SAID_H

#include <coir.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"

static char said[600]; /* the last error in the log */

static inline void take_line(enum coir_log_level level, const char *line, void *arg)
{
    (void)arg;
    if (level == COIR_LOG_ERROR)
        snprintf(said, sizeof said, "%s", line);
}

/* Misuse of the call was said since the last time, and what it was (or how that begins). */
static inline void expect_said(const char *call, const char *what)
{
    char start[200];
    snprintf(start, sizeof start, "misuse: %s: %s", call, what);
    if (strncmp(said, start, strlen(start)) != 0)
        test_fail(__FILE__, __LINE__, "not \"%s\", but: %s", start, said);
    said[0] = '\0';
}

static inline void expect_named(const char *call)
{
    expect_said(call, "");
}

#endif

/* Metrics: what they say of a runtime, and that they are text that Prometheus reads. */
#include <coir.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

static char text[1 << 18];

static void read_metrics(void)
{
    int64_t len = coir_metrics_text(coir_runtime_current(), text, sizeof text);
    CHECK(len > 0 && (size_t)len < sizeof text);
    CHECK_EQ(strlen(text), len);
}

/* The value of a sample, summed over its labels that have the words. */
static double sample(const char *name, const char *words)
{
    double sum = 0;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        size_t len = strlen(name);
        if (strncmp(line, name, len) == 0 && (line[len] == '{' || line[len] == ' ') &&
            strstr(line, words))
            sum += strtod(strrchr(line, ' '), NULL);
        *end = '\n';
    }
    return sum;
}

/* A comment, or a name, labels and a number. */
static void check_line(const char *line)
{
    if (strncmp(line, "# HELP coir_", 12) == 0 || strncmp(line, "# TYPE coir_", 12) == 0)
        return;
    CHECK(strncmp(line, "coir_", 5) == 0);
    while (isalnum((unsigned char)*line) || *line == '_')
        line++;
    if (*line == '{')
        CHECK((line = strstr(line, "\"} ")) && (line += 2));
    CHECK(*line == ' ');
    char *end;
    CHECK(strtod(line, &end) >= 0);
    CHECK(*end == '\0');
}

static void check_text(void)
{
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        check_line(line);
        *end = '\n';
    }
}

static int yield_often(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++)
        CHECK_EQ(coir_yield(), 0);
    return 0;
}

static void go(const char *name)
{
    COIR_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = name;
    CHECK_EQ(coir_go_with(scope, &options, yield_often, NULL), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
}

TEST_REAL(counters_are_there_without_a_trace)
{
    go("untraced");
    read_metrics();
    check_text();
    CHECK(sample("coir_tasks_started_total", "") >= 2);
    CHECK(sample("coir_tasks_live", "") >= 1);
    CHECK(sample("coir_pool_objects", "pool=\"tasks\"") >= 1);
    CHECK(!strstr(text, "coir_turn_seconds_count"));
    CHECK(!strstr(text, "untraced"));
}

TEST_SIM(turns_count_by_their_names)
{
    CHECK_EQ(coir_trace_start(64), 0);
    CHECK_EQ(coir_yield(), 0); /* a turn that is traced from its begin */
    go("ten \"yields\"");
    read_metrics();
    check_text();
    CHECK_EQ((int)sample("coir_task_turns_total", "task=\"ten \\\"yields\\\"\""), 11);
    CHECK(sample("coir_turn_seconds_count", "") >= 11);
    CHECK(sample("coir_scheduling_delay_seconds_count", "") >= 11);
    CHECK_EQ((int)sample("coir_turn_seconds_count", ""),
             (int)sample("coir_turn_seconds_bucket", "le=\"+Inf\""));
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    CHECK_EQ(coir_trace_stop(), 0);
    read_metrics();
    CHECK(sample("coir_poll_delay_seconds_count", "") >= 1);
}

/* Each turn was queued once, by a task or by the loop. */
TEST_REAL(every_turn_has_a_delay)
{
    CHECK_EQ(coir_trace_start(0), 0);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    {
        COIR_SCOPE(scope);
        int workers = (int)coir_worker_count(coir_runtime_current());
        for (int i = 0; i < 4 * workers; i++)
            CHECK_EQ(coir_go_on(scope, i % workers, yield_often, NULL), 0);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    CHECK_EQ(coir_trace_stop(), 0);
    read_metrics();
    double turns = sample("coir_turn_seconds_count", ""),
           delays = sample("coir_scheduling_delay_seconds_count", "") +
                    sample("coir_poll_delay_seconds_count", "");
    double open = (double)coir_worker_count(coir_runtime_current());
    CHECK(turns > 40 && delays >= turns && delays - turns <= open);
}

TEST_REAL(a_text_without_room_is_cut)
{
    char little[20];
    int64_t len = coir_metrics_text(coir_runtime_current(), NULL, 0);
    CHECK(len > 500);
    CHECK(coir_metrics_text(coir_runtime_current(), little, sizeof little) > 500);
    CHECK_EQ(strlen(little), sizeof little - 1);
}

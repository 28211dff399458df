/* Metrics: what they say of a runtime, and that they are text that Prometheus reads. */
#include <coir.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comma_locale.h"
#include "harness.h"
#include "metrics.h"

static const char *strrchr_to(const char *from, const char *end, char c)
{
    while (end > from && *end != c)
        end--;
    return end;
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
    for (char *line = metrics_text, *end; (end = strchr(line, '\n')); line = end + 1) {
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
    metrics_read();
    check_text();
    CHECK(metrics_sum("coir_tasks_started_total", "") >= 2);
    CHECK(metrics_sum("coir_tasks_live", "") >= 1);
    CHECK(metrics_sum("coir_pool_objects", "pool=\"tasks\"") >= 1);
    CHECK(!strstr(metrics_text, "coir_turn_seconds_count"));
    CHECK(!strstr(metrics_text, "untraced"));
}

TEST_SIM(turns_count_by_their_names)
{
    CHECK_EQ(coir_trace_start(64), 0);
    CHECK_EQ(coir_yield(), 0); /* a turn that is traced from its begin */
    go("ten \"yields\"");
    metrics_read();
    check_text();
    CHECK_EQ((int)metrics_sum("coir_task_turns_total", "task=\"ten \\\"yields\\\"\""), 11);
    CHECK(metrics_sum("coir_turn_seconds_count", "") >= 11);
    CHECK(metrics_sum("coir_scheduling_delay_seconds_count", "") >= 11);
    static const char label[] = "task=\"ten \\\"yields\\\"\"";
    CHECK_EQ((int)metrics_sum("coir_task_turn_seconds_count", label), 11);
    CHECK_EQ((int)metrics_sum("coir_task_scheduling_delay_seconds_count", label), 11);
    CHECK_EQ((int)metrics_sum("coir_task_begins_total", label), 1);
    CHECK_EQ((int)metrics_sum("coir_task_ends_total", label), 1);
    CHECK_EQ((int)metrics_sum("coir_turn_seconds_count", ""),
             (int)metrics_sum("coir_turn_seconds_bucket", "le=\"+Inf\""));
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    CHECK_EQ(coir_trace_stop(), 0);
    metrics_read();
    CHECK(metrics_sum("coir_poll_delay_seconds_count", "") >= 1);
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
    metrics_read();
    double turns = metrics_sum("coir_turn_seconds_count", ""),
           delays = metrics_sum("coir_scheduling_delay_seconds_count", "") +
                    metrics_sum("coir_poll_delay_seconds_count", "");
    double open = (double)coir_worker_count(coir_runtime_current());
    CHECK(turns > 40 && delays >= turns && delays - turns <= open);
}

/* A comma would be the end of the number. */
TEST_SIM(the_locale_of_the_program_does_not_matter)
{
    if (!comma_locale_begin())
        return;
    CHECK_EQ(coir_trace_start(64), 0);
    go("counted");
    CHECK_EQ(coir_trace_stop(), 0);
    metrics_read();
    CHECK_EQ(strcmp(localeconv()->decimal_point, ","), 0);
    uselocale(LC_GLOBAL_LOCALE);
    check_text();
    CHECK(strstr(metrics_text, "le=\"1.28e-07\""));
}

static int sleep_long(void *arg)
{
    (void)arg;
    return coir_sleep_for(COIR_S);
}

TEST_SIM(a_task_that_lives_has_begun_and_not_ended)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = "sleeper";
    CHECK_EQ(coir_trace_start(64), 0);
    COIR_SCOPE(scope);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(coir_go_with(scope, &options, sleep_long, NULL), 0);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    metrics_read();
    CHECK_EQ((int)metrics_sum("coir_task_begins_total", "sleeper"), 3);
    CHECK_EQ((int)metrics_sum("coir_task_ends_total", "sleeper"), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_yield(), 0);
    metrics_read();
    CHECK_EQ((int)metrics_sum("coir_task_begins_total", "sleeper"), 3);
    CHECK_EQ((int)metrics_sum("coir_task_ends_total", "sleeper"), 3);
    CHECK_EQ((int)metrics_sum("coir_task_turns_total", "sleeper"), 6);
}

/* A sample is once in the text, whatever its labels: a second one would be refused. */
TEST_REAL(no_sample_is_there_twice)
{
    CHECK_EQ(coir_trace_start(64), 0);
    go("named");
    metrics_read();
    for (const char *line = metrics_text, *end; (end = strchr(line, '\n')); line = end + 1) {
        size_t len = (size_t)(strrchr_to(line, end, ' ') - line) + 1;
        for (const char *next = end + 1, *stop; (stop = strchr(next, '\n')); next = stop + 1)
            CHECK(*line == '#' || strncmp(line, next, len) != 0);
    }
}

TEST_REAL(a_text_without_room_is_cut)
{
    char little[20];
    int64_t len = coir_metrics_text(coir_runtime_current(), NULL, 0);
    CHECK(len > 500);
    CHECK(coir_metrics_text(coir_runtime_current(), little, sizeof little) > 500);
    CHECK_EQ(strlen(little), sizeof little - 1);
}

/* ---- objects that end on another worker ---- */

static int sleep_briefly(void *arg)
{
    (void)arg;
    return coir_sleep_for(COIR_MS);
}

static int set_a_local(void *arg)
{
    CHECK_EQ(coir_local_set(&metrics_text, arg), 0);
    return coir_go_on(NULL, 1, sleep_briefly, NULL);
}

/* The last task that has it ends on worker 1: that has one less than it had made. */
static void give_elsewhere(void)
{
    {
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, set_a_local, NULL), 0);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    CHECK_EQ(coir_sleep_for(2 * COIR_MS), 0);
    metrics_read();
    CHECK(strstr(metrics_text, "coir_pool_objects{worker=\"1\",pool=\"locals\"} -1\n"));
    CHECK(metrics_sum("coir_pool_objects", "pool=\"locals\"") == 0);
    CHECK(metrics_sum("coir_pool_used_bytes", "pool=\"locals\"") == 0);
}

TEST(the_sum_of_a_pool_over_the_workers_is_right)
{
    test_in_sim(give_elsewhere, 2, 1);
}

/* ---- many names ---- */

enum { MANY_WORKERS = 8, MANY_NAMES = 60 };

static void name_many(void)
{
    static char names[MANY_WORKERS * MANY_NAMES][20];
    CHECK_EQ(coir_trace_start(64), 0);
    CHECK_EQ(coir_yield(), 0);
    COIR_SCOPE(scope);
    for (int i = 0; i < MANY_WORKERS * MANY_NAMES; i++) {
        coir_go_options options = COIR_GO_OPTIONS;
        snprintf(names[i], sizeof names[i], "many %d", i);
        options.name = names[i];
        options.place = COIR_ON_WORKER(i % MANY_WORKERS);
        CHECK_EQ(coir_go_with(scope, &options, yield_often, NULL), 0);
    }
    CHECK_EQ(coir_scope_wait(scope), 0);
    metrics_read();
    check_text();
    CHECK(metrics_sum("coir_task_turns_total", "") >= 11 * MANY_WORKERS * MANY_NAMES);
    CHECK(metrics_sum("coir_task_turns_total", "task=\"many 0\"") == 11);
    CHECK(metrics_sum("coir_task_turns_total", "task=\"(others)\"") > 0);
}

TEST(names_for_which_there_is_no_room_are_others)
{
    test_in_sim(name_many, MANY_WORKERS, 1);
}

/* Log lines. */
#include "task/log.h"

#include <coir.h>
#include <errno.h>
#include <string.h>

#include "harness.h"
#include "task/runtime.h"

static char last[600];
static enum coir_log_level last_level;
static int lines;

static void keep(enum coir_log_level level, const char *line, void *arg)
{
    CHECK(arg == &lines);
    strcpy(last, line);
    last_level = level;
    lines++;
}

TEST(a_line_goes_to_the_programs_function_with_its_level)
{
    coir_runtime runtime = {.config = {.log = keep, .log_arg = &lines}};
    ci_log(&runtime, COIR_LOG_WARNING, "%s is %d (error %u)", "it", 3, ci_error_number(-EPIPE));
    CHECK_EQ(lines, 1);
    CHECK_EQ(last_level, COIR_LOG_WARNING);
    CHECK(strcmp(last, "it is 3 (error 32)") == 0);
    ci_log_to(&runtime.config, COIR_LOG_ERROR, "no runtime yet");
    CHECK_EQ(last_level, COIR_LOG_ERROR);
    CHECK(strcmp(last, "no runtime yet") == 0);
}

TEST(a_line_that_is_too_long_is_cut)
{
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    coir_runtime runtime = {.config = {.log = keep, .log_arg = &lines}};
    ci_log(&runtime, COIR_LOG_INFO, "%s", text);
    CHECK_EQ(strlen(last), 511);
}

TEST(a_line_is_one_whatever_names_are_in_it)
{
    coir_runtime runtime = {.config = {.log = keep, .log_arg = &lines}};
    ci_log(&runtime, COIR_LOG_INFO, "task %s ended",
           "a\ncoir: error: \x1b[2J\xc2\x9b \xff \xc3\xa4");
    CHECK_EQ(strcmp(last, "task a?coir: error: ?[2J?? ? \xc3\xa4 ended"), 0);
}

TEST(without_a_function_nothing_is_logged)
{
    coir_runtime runtime = {.config = {.log = NULL}};
    ci_log(&runtime, COIR_LOG_ERROR, "nobody hears this");
    CHECK_EQ(lines, 0);
}

static int log_and_end(void *arg)
{
    coir_log(COIR_LOG_WARNING, "%s %d", (const char *)arg, 7);
    return 0;
}

TEST(a_program_logs_to_the_runtime_it_runs_in)
{
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    config.log = keep;
    config.log_arg = &lines;
    config.workers = 1;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    coir_log(COIR_LOG_ERROR, "outside of a runtime");
    *last = '\0';
    lines = 0;
    char word[] = "a task says";
    CHECK_EQ(coir_runtime_run(runtime, log_and_end, word), 0);
    CHECK_EQ(lines, 1);
    CHECK(strcmp(last, "a task says 7") == 0);
    CHECK_EQ(last_level, COIR_LOG_WARNING);
    coir_runtime_free(runtime);
}

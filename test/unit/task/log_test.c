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

TEST(without_a_function_nothing_is_logged)
{
    coir_runtime runtime = {.config = {.log = NULL}};
    ci_log(&runtime, COIR_LOG_ERROR, "nobody hears this");
    CHECK_EQ(lines, 0);
}

/* coir_main: the entry point of most programs, and the only place where coir prints, starts a
 * thread beside the workers or installs signal handlers by itself. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "coir/dump.h"
#include "sys/clock.h"
#include "sys/misuse.h"
#include "sys/quit.h"
#include "sys/stdio.h"
#include "sys/thread.h"
#include "task/log.h"
#include "task/runtime.h"

static const char *const level_names[] = {"error", "warning", "info", "debug"};

/* `arg`: the number of levels that are logged. */
static void log_to_stderr(enum coir_log_level level, const char *line, void *arg)
{
    if ((int)level < *(const int *)arg)
        fprintf(stderr, "coir: %s: %s\n", level_names[level], line);
}

static int levels_to_log(void)
{
    const char *wanted = getenv("COIR_LOG");
    if (!wanted || !*wanted)
        return COIR_LOG_INFO + 1;
    for (int level = COIR_LOG_ERROR; level <= COIR_LOG_DEBUG; level++)
        if (strcmp(wanted, level_names[level]) == 0)
            return level + 1;
    if (strcmp(wanted, "none") != 0)
        fprintf(stderr,
                "coir: warning: COIR_LOG is \"%s\"; it may be none, error, warning, info or debug: "
                "nothing is left out\n",
                wanted);
    return strcmp(wanted, "none") == 0 ? 0 : COIR_LOG_DEBUG + 1;
}

/* ---- dumps on SIGQUIT ---- */

/* Of the thread that writes them. It outlives coir_main where nobody reads what it writes. */
static struct {
    struct ci_thread thread;
    struct ci_mutex lock; /* guards what follows */
    struct ci_condition ended;
    bool has_ended;
    bool was_left; /* it writes still */
} dumps;

/* How long the end of a program waits for a dump that is being written. */
static const coir_time dump_time_max = COIR_S;

/* The thread is none of the workers, which may all be stuck. */
static void *dump_when_asked(void *arg)
{
    while (ci_quit_wait())
        (void)coir_dump(STDERR_FILENO, COIR_DUMP_TEXT);
    ci_mutex_lock(&dumps.lock);
    dumps.has_ended = true;
    ci_condition_signal(&dumps.ended);
    ci_mutex_unlock(&dumps.lock);
    return arg;
}

static bool begin_dumps(void)
{
    if (dumps.was_left || !ci_quit_begin())
        return false;
    dumps.has_ended = false;
    ci_mutex_init(&dumps.lock);
    ci_condition_init(&dumps.ended);
    if (ci_thread_start(&dumps.thread, dump_when_asked, NULL) == 0)
        return true;
    ci_condition_done(&dumps.ended);
    ci_mutex_done(&dumps.lock);
    ci_quit_end();
    return false;
}

static void end_dumps(void)
{
    coir_time until = ci_time_after(ci_clock_now(), dump_time_max);
    int rc = 0;
    ci_quit_stop();
    ci_mutex_lock(&dumps.lock);
    while (!dumps.has_ended && rc == 0)
        rc = ci_condition_wait(&dumps.ended, &dumps.lock, until);
    dumps.was_left = !dumps.has_ended;
    ci_mutex_unlock(&dumps.lock);
    ci_quit_end();
    if (dumps.was_left) {
        ci_thread_detach(&dumps.thread);
        return;
    }
    ci_thread_join(&dumps.thread);
    ci_condition_done(&dumps.ended);
    ci_mutex_done(&dumps.lock);
}

static int run(coir_runtime *runtime, coir_task_fn *start, void *arg)
{
    bool dumping = begin_dumps();
    int rc = coir_runtime_run(runtime, start, arg);
    if (dumping)
        end_dumps();
    return rc;
}

int coir_main(coir_task_fn *start, void *arg)
{
    if (CI_REFUSED(!start, "start is NULL"))
        return 1;
    int rc = ci_stdio_reserve();
    if (rc < 0) {
        fprintf(stderr,
                "coir: error: the standard input, output or error is closed, and /dev/null cannot "
                "be opened in its place: %s (error %u)\n",
                coir_strerror(rc), ci_error_number(rc));
        return 1;
    }
    coir_config config = COIR_CONFIG;
    int levels = levels_to_log();
    config.log = log_to_stderr;
    config.log_arg = &levels;
    config.report_overflow = true;
    config.stop_signals = true;
    config.environment = COIR_ENVIRONMENT_WORKERS | COIR_ENVIRONMENT_DRIVER;
    config.deadlock = COIR_DEADLOCK_END;
    coir_runtime *runtime;
    rc = coir_runtime_new(&config, &runtime);
    if (rc < 0) {
        fprintf(stderr, "coir: error: the runtime cannot be made: %s (error %u)\n",
                coir_strerror(rc), ci_error_number(rc));
        return 1;
    }
    rc = run(runtime, start, arg);
    bool was_asked_to = rc == -ECANCELED && runtime->asked_to_stop;
    coir_runtime_free(runtime);
    if (rc >= 0 || was_asked_to)
        return 0;
    fprintf(stderr,
            "coir: error: the program ended with an error of its first task: %s (error %u)\n",
            coir_strerror(rc), ci_error_number(rc));
    return 1;
}

/* The flight recorder: when it writes, and what. Crashes: test/e2e/recorder. */
#include <coir.h>
#include <errno.h>
#include <glob.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"
#include "task/current.h"
#include "task/trace.h"

static char dir[] = "/tmp/coir-recorder-XXXXXX";
static char path[100], text[1 << 22];

static coir_recorder_options options_in_dir(void)
{
    coir_recorder_options options = COIR_RECORDER_OPTIONS;
    CHECK(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/flight", dir);
    options.path = path;
    options.events_max = 1 << 12;
    return options;
}

/* Removes the files: how many there were; `text` is the last one. */
static size_t take_files(void)
{
    char pattern[200];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s.%d.*.json", path, (int)getpid());
    int rc = glob(pattern, 0, NULL, &found);
    CHECK(rc == 0 || rc == GLOB_NOMATCH);
    size_t count = rc == 0 ? found.gl_pathc : 0;
    for (size_t i = 0; i < count; i++) {
        FILE *file = fopen(found.gl_pathv[i], "r");
        CHECK(file);
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
        unlink(found.gl_pathv[i]);
    }
    globfree(&found);
    rmdir(dir);
    return count;
}

static int yield_often(void *arg)
{
    (void)arg;
    for (int i = 0; i < 100; i++)
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

TEST_REAL(a_file_that_is_asked_for_has_what_was_done)
{
    coir_recorder_options options = options_in_dir();
    CHECK_EQ(coir_recorder_start_with(&options), 0);
    go("recorded");
    CHECK_EQ(coir_recorder_write("as\"ked"), 0);
    CHECK_EQ(coir_recorder_write("again"), -EAGAIN);
    CHECK_EQ(coir_recorder_stop(), 0);
    CHECK_EQ(take_files(), 1);
    CHECK(strstr(text, "\"ph\":\"i\"") && strstr(text, "\"name\":\"as\\u0022ked\""));
    CHECK(strstr(text, "\"name\":\"recorded\""));
    CHECK(strstr(text, "\"name\":\"worker 0\""));
    CHECK(strcmp(text + strlen(text) - 4, "\n]}\n") == 0);
}

/* Events that a worker may be writing to are left out: there are others. */
TEST_REAL(a_recorder_of_few_events_writes_some)
{
    coir_recorder_options options = options_in_dir();
    options.events_max = 1;
    CHECK_EQ(coir_recorder_start_with(&options), 0);
    go("recorded");
    CHECK_EQ(coir_recorder_write("few"), 0);
    CHECK_EQ(coir_recorder_stop(), 0);
    CHECK_EQ(take_files(), 1);
    CHECK(strstr(text, "\"ph\":\"X\""));
}

TEST_REAL(a_slow_turn_is_written)
{
    coir_recorder_options options = options_in_dir();
    options.slow_turn = 1;
    options.files_max = 1;
    options.interval_min = 1;
    CHECK_EQ(coir_recorder_start_with(&options), 0);
    go("slow");
    CHECK_EQ(coir_recorder_write("more"), -ENOSPC);
    CHECK_EQ(coir_recorder_stop(), 0);
    CHECK_EQ(take_files(), 1);
    CHECK(strstr(text, "\"name\":\"a slow turn\""));
}

static void set_file_size_max(rlim_t most)
{
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = most;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static int write_when_free(const char *reason)
{
    int rc;
    while ((rc = coir_recorder_write(reason)) == -EAGAIN)
        CHECK_EQ(coir_yield(), 0);
    return rc;
}

/* A disk that is full for a while. */
TEST_REAL(a_file_that_could_not_be_written_does_not_count)
{
    coir_recorder_options options = options_in_dir();
    options.files_max = 2;
    options.interval_min = 1;
    CHECK_EQ(coir_recorder_start_with(&options), 0);
    set_file_size_max(10);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(write_when_free("in vain"), 0);
    CHECK_EQ(coir_recorder_stop(), 0);
    CHECK_EQ(take_files(), 0);
    set_file_size_max(RLIM_INFINITY);
    CHECK_EQ(mkdir(dir, 0700), 0);
    CHECK_EQ(coir_recorder_start_with(&options), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(write_when_free("with room"), 0);
    CHECK_EQ(write_when_free("one too many"), -ENOSPC);
    CHECK_EQ(coir_recorder_stop(), 0);
    CHECK_EQ(take_files(), 2);
    CHECK(strstr(text, "with room"));
}

/* The first process of a container has the number of the one before. */
TEST_REAL(files_of_many_earlier_processes_are_passed)
{
    enum { EARLIER = 200 };
    coir_recorder_options options = options_in_dir();
    for (int i = 0; i < EARLIER; i++) {
        char name[200];
        snprintf(name, sizeof name, "%s.%d.0.%d.json", path, (int)getpid(), i);
        FILE *file = fopen(name, "w");
        CHECK(file && fclose(file) == 0);
    }
    CHECK_EQ(coir_recorder_start_with(&options), 0);
    CHECK_EQ(coir_recorder_write("later"), 0);
    CHECK_EQ(coir_recorder_stop(), 0);
    CHECK_EQ(take_files(), EARLIER + 1);
}

/* The turn that ends the trace is recorded to its end, which may be after that of the recorder. */
TEST_REAL(a_turn_that_ends_the_trace_tells_no_recorder)
{
    coir_recorder_options options = options_in_dir();
    options.slow_turn = options.slow_request = 1;
    CHECK_EQ(coir_recorder_start_with(&options), 0);
    const struct ci_trace *trace = ci_worker_current->trace;
    CHECK(trace->slow_turn && trace->slow_request && trace->recorder);
    CHECK_EQ(coir_recorder_stop(), 0);
    CHECK(ci_worker_current->kept_trace == trace);
    CHECK(!trace->slow_turn && !trace->slow_request && !trace->recorder);
    take_files();
}

TEST_REAL(no_turn_is_slow_where_none_is_asked_for)
{
    coir_recorder_options options = options_in_dir();
    CHECK_EQ(coir_recorder_start_with(&options), 0);
    go("quick");
    CHECK_EQ(coir_recorder_stop(), 0);
    CHECK_EQ(take_files(), 0);
}

TEST_REAL(it_ends_with_the_runtime)
{
    coir_recorder_options options = options_in_dir();
    options.crash = true;
    CHECK_EQ(coir_recorder_start_with(&options), 0);
    rmdir(dir);
}

TEST_REAL(there_is_one_at_a_time)
{
    coir_recorder_options options = options_in_dir();
    options.crash = true;
    CHECK_EQ(coir_recorder_stop(), 0);
    CHECK_EQ(coir_recorder_write("none"), -ENOENT);
    CHECK_EQ(coir_recorder_start_with(&options), 0);
    CHECK_EQ(coir_recorder_start_with(&options), -EBUSY);
    CHECK_EQ(coir_trace_start(0), -EBUSY);
    CHECK_EQ(coir_trace_stop(), -EBUSY);
    CHECK_EQ(coir_recorder_stop(), 0);
    CHECK_EQ(coir_recorder_stop(), 0);
    CHECK_EQ(coir_recorder_write("none"), -ENOENT);
    CHECK_EQ(coir_trace_start(0), 0);
    CHECK_EQ(coir_recorder_start_with(&options), -EBUSY);
    CHECK_EQ(coir_recorder_write("a trace is no recorder"), -ENOENT);
    CHECK_EQ(coir_trace_stop(), 0);
    CHECK_EQ(coir_recorder_start_with(&options), 0);
    CHECK_EQ(coir_recorder_stop(), 0);
    CHECK_EQ(take_files(), 0);
}

enum { TASKS_MOST = 8 };

static int keep_yielding(void *stop)
{
    while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED))
        CHECK_EQ(coir_yield(), 0);
    return 0;
}

static int record_until_full(void *arg)
{
    int stop = 0, rc;
    COIR_SCOPE(scope);
    (void)arg;
    coir_recorder_options options = options_in_dir();
    CHECK_EQ(coir_recorder_start_with(&options), 0);
    for (int i = 0; i < 2; i++)
        while ((rc = coir_go_on(scope, i, keep_yielding, &stop)) == 0)
            ;
    CHECK_EQ(rc, -EAGAIN);
    CHECK_EQ(coir_recorder_stop(), -EAGAIN);
    CHECK_EQ(coir_yield(), 0); /* it is there still: the turn is traced */
    CHECK_EQ(coir_recorder_write("not stopped"), 0);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_recorder_stop(), 0);
    CHECK_EQ(take_files(), 1);
    CHECK_EQ(coir_recorder_start_with(&options), 0);
    return coir_recorder_stop();
}

/* To stop it takes a task of each worker. */
TEST(a_stop_that_finds_no_place_for_a_task_may_be_repeated)
{
    coir_config config = COIR_CONFIG;
    config.workers = 2;
    config.tasks_max = TASKS_MOST;
    CHECK_EQ(test_run(&config, record_until_full, NULL), 0);
}

TEST_REAL(a_file_that_cannot_be_written_ends_nothing)
{
    coir_recorder_options options = options_in_dir();
    CHECK_EQ(rmdir(dir), 0);
    CHECK_EQ(coir_recorder_start_with(&options), 0);
    CHECK_EQ(coir_recorder_write("in vain"), 0);
    CHECK_EQ(coir_recorder_stop(), 0);
    CHECK_EQ(take_files(), 0);
}

/* The ring is small, so that the workers overwrite it while it is read. */
TEST_REAL(files_are_whole_while_the_workers_go_on)
{
    int stop = 0;
    coir_recorder_options options = options_in_dir();
    options.events_max = 256;
    options.interval_min = 1;
    options.files_max = COIR_UNLIMITED;
    CHECK_EQ(coir_recorder_start_with(&options), 0);
    COIR_SCOPE(scope);
    int workers = (int)coir_worker_count(coir_runtime_current());
    for (int i = 0; i < 2 * workers; i++)
        CHECK_EQ(coir_go_on(scope, i % workers, keep_yielding, &stop), 0);
    for (int asked = 0; asked < 50;) {
        asked += coir_recorder_write("while they run") == 0;
        CHECK_EQ(coir_yield(), 0);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_recorder_stop(), 0);
    CHECK_EQ(take_files(), 50);
    CHECK(strcmp(text + strlen(text) - 4, "\n]}\n") == 0);
}

static int32_t went_on;

/* As slow as a disk: until another task of the worker has had a turn. */
static void log_slowly(enum coir_log_level level, const char *line, void *arg)
{
    (void)level, (void)arg;
    if (strstr(line, "has written"))
        while (!__atomic_load_n(&went_on, __ATOMIC_RELAXED))
            sched_yield();
}

/* After the trace has ended, when there is nothing to wait for but the file. It is made of the
 * rings, so no trace frees them. */
static int go_on(void *arg)
{
    (void)arg;
    for (int after = 0; after < 5; after += !ci_worker_current->trace)
        CHECK_EQ(coir_yield(), 0);
    CHECK_EQ(coir_trace_start(1024), -EBUSY);
    CHECK_EQ(coir_recorder_start(), -EBUSY);
    __atomic_store_n(&went_on, 1, __ATOMIC_RELAXED);
    return 0;
}

static int stop_while_it_writes(void *arg)
{
    coir_recorder_options options = options_in_dir();
    (void)arg;
    CHECK_EQ(coir_recorder_start_with(&options), 0);
    CHECK_EQ(coir_recorder_write("slowly"), 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, go_on, NULL), 0);
    CHECK_EQ(coir_recorder_stop(), 0);
    CHECK_EQ(take_files(), 1);
    CHECK_EQ(coir_trace_start(1024), 0);
    CHECK_EQ(coir_trace_stop(), 0);
    return coir_scope_wait(scope);
}

TEST(a_worker_goes_on_while_a_stopped_recorder_writes)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.log = log_slowly;
    CHECK_EQ(test_run(&config, stop_while_it_writes, NULL), 0);
}

TEST_SIM(not_in_the_simulator)
{
    CHECK_EQ(coir_recorder_start(), -EOPNOTSUPP);
    CHECK_EQ(coir_recorder_stop(), 0);
}

/* Traces: what they hold, and that they are the truth. */
#include "task/trace.h"

#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "task/current.h"
#include "task/runtime.h"

/* What was written, as text. */
static char *written(void)
{
    static char text[1 << 20];
    char path[] = "/tmp/coir-trace-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    unlink(path);
    CHECK_EQ(coir_trace_write(fd), 0);
    ssize_t len = pread(fd, text, sizeof text - 1, 0);
    CHECK(len > 0);
    text[len] = '\0';
    close(fd);
    return text;
}

/* The line of the first turn of a task with the name that has the words; NULL: there is none. */
static char *turn(char *text, const char *name, const char *words)
{
    static char line[1000];
    char wanted[100];
    snprintf(wanted, sizeof wanted, "\"name\":\"%s\"", name);
    for (char *at = text; (at = strstr(at, "\n{\"ph\":\"X\"")); at++) {
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at + 1, "\n"), at + 1);
        if (strstr(line, wanted) && strstr(line, words))
            return line;
    }
    return NULL;
}

static size_t count(const char *text, const char *word)
{
    size_t found = 0;
    for (; (text = strstr(text, word)); text++)
        found++;
    return found;
}

static void go(coir_scope *scope, const char *name, coir_task_fn *fn, void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = name;
    CHECK_EQ(coir_go_with(scope, &options, fn, arg), 0);
}

static coir_channel *channel;

static int sender(void *arg)
{
    (void)arg;
    uint64_t number = 1;
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    return coir_channel_send(channel, &number);
}

static int receiver(void *arg)
{
    (void)arg;
    uint64_t number;
    return coir_channel_recv(channel, &number);
}

TEST_SIM(turns_have_their_causes_and_what_they_wait_for)
{
    CHECK_EQ(coir_channel_new(sizeof(uint64_t), 0, &channel), 0);
    CHECK_EQ(coir_trace_start(0), 0);
    COIR_SCOPE(scope);
    go(scope, "receiver", receiver, NULL);
    go(scope, "se\"nder", sender, NULL);
    CHECK_EQ(coir_scope_wait(scope), 0);
    char *text = written();
    CHECK(turn(text, "receiver",
               "\"then\":\"waits for an item of a channel\",\"cause\":\"spawned\""));
    CHECK(
        turn(text, "receiver", "\"then\":\"ends\",\"cause\":\"an item of a channel\",\"by\":\"0x"));
    CHECK(turn(text, "se\\u0022nder", "\"then\":\"waits for time\",\"cause\":\"spawned\""));
    CHECK(turn(text, "se\\u0022nder", "\"then\":\"ends\",\"cause\":\"time\",\"by\":\"the loop\""));
    CHECK_EQ(count(text, "\"ph\":\"s\""), count(text, "\"ph\":\"f\""));
    CHECK(count(text, "\"ph\":\"s\"") >= 3);
    CHECK_EQ(coir_trace_stop(), 0);
    coir_channel_free(channel);
}

static int yield_often(void *arg)
{
    (void)arg;
    for (int i = 0; i < 100; i++)
        CHECK_EQ(coir_yield(), 0);
    return 0;
}

static int fails(void *arg)
{
    (void)arg;
    return -EIO;
}

/* Fibers, a task without a stack, tasks of other workers, yields, failures: every turn but the
 * first of a task that was there before has a cause. */
TEST_REAL(every_turn_has_a_cause)
{
    static coir_sleep_op pause;
    CHECK_EQ(coir_channel_new(sizeof(uint64_t), 0, &channel), 0);
    CHECK_EQ(coir_trace_start(1 << 14), 0);
    {
        COIR_SERVING_SCOPE(scope);
        int workers = (int)coir_worker_count(coir_runtime_current());
        for (int i = 0; i < 20; i++) {
            CHECK_EQ(coir_go_on(scope, i % workers, yield_often, NULL), 0);
            CHECK_EQ(coir_go_on(scope, i % workers, receiver, NULL), 0);
            CHECK_EQ(coir_go_on(scope, (i + 1) % workers, sender, NULL), 0);
            CHECK_EQ(coir_go(scope, fails, NULL), 0);
        }
        CHECK_EQ(coir_go_future(scope, coir_sleep_for_op(&pause, COIR_MS)), 0);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    char *text = written();
    size_t turns = 0, without = 0;
    for (char *at = text; (at = strstr(at, "\n{\"ph\":\"X\"")); turns++) {
        char *end = strchr(++at, '\n'), *cause = strstr(at, "\"cause\"");
        without += !cause || cause > end;
    }
    CHECK(turns > 20 * 100);
    CHECK(without <= 1); /* the caller's, which ran when the trace began */
    CHECK(turn(text, "time", "\"then\":\"ends\",\"cause\":\"time\""));
    CHECK_EQ(coir_trace_stop(), 0);
    coir_channel_free(channel);
}

/* Fibers that switch to each other directly. */
TEST_REAL(each_turn_of_fibers_that_alternate_is_recorded)
{
    CHECK_EQ(coir_trace_start(1 << 10), 0);
    COIR_SCOPE(scope);
    go(scope, "one", yield_often, NULL);
    go(scope, "other", yield_often, NULL);
    CHECK_EQ(coir_scope_wait(scope), 0);
    char *text = written();
    CHECK_EQ(count(text, "\"name\":\"one\""), 101);
    CHECK_EQ(count(text, "\"name\":\"other\""), 101);
    CHECK_EQ(coir_trace_stop(), 0);
}

static bool asleep;

static int yields_while_others_sleep(void *arg)
{
    (void)arg;
    while (asleep)
        CHECK_EQ(coir_yield(), 0);
    return 0;
}

static int sleeps(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    asleep = false;
    return 0;
}

TEST_REAL(fibers_that_alternate_let_the_loop_look_at_its_events)
{
    asleep = true;
    CHECK_EQ(coir_trace_start(64), 0);
    COIR_SCOPE(scope);
    go(scope, "one", yields_while_others_sleep, NULL);
    go(scope, "other", yields_while_others_sleep, NULL);
    go(scope, "sleeper", sleeps, NULL);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_trace_stop(), 0);
}

/* The worker's own, in this turn: between direct switches. */
static int traces_again_and_again(void *arg)
{
    (void)arg;
    struct ci_worker *worker = ci_worker_current;
    for (size_t i = 0; i < 50; i++) {
        CHECK_EQ(ci_trace_begin(worker, i % 2 ? 64 : 128), 0);
        for (size_t turns = i % 4; turns > 0; turns--)
            CHECK_EQ(coir_yield(), 0);
        ci_trace_end(worker);
        for (size_t turns = i % 3; turns > 0; turns--)
            CHECK_EQ(coir_yield(), 0);
    }
    return 0;
}

TEST_REAL(a_trace_begins_and_ends_in_turns)
{
    int32_t switches_max = ci_worker_current->switches_max;
    COIR_SCOPE(scope);
    go(scope, "one", yield_often, NULL);
    go(scope, "other", yield_often, NULL);
    go(scope, "tracer", traces_again_and_again, NULL);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(ci_worker_current->switches_max, switches_max);
    CHECK(!ci_worker_current->trace);
    CHECK(!ci_trace_is_in_turn(ci_worker_current->kept_trace));
}

/* In the same memory, which is short of the whole name in no event. */
static char name_in_turn[100];

static int changes_its_name(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_yield(), 0);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    strcpy(name_in_turn, "the second of its names");
    CHECK_EQ(coir_task_set_name(name_in_turn), 0);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    return coir_sleep_for(COIR_MS);
}

static int ends_at_once(void *arg)
{
    (void)arg;
    return 0;
}

TEST_SIM(each_turn_has_the_name_that_its_task_had)
{
    CHECK_EQ(coir_trace_start(0), 0);
    COIR_SCOPE(scope);
    strcpy(name_in_turn, "the first of its names");
    go(scope, name_in_turn, changes_its_name, NULL);
    CHECK_EQ(coir_scope_wait(scope), 0);
    strcpy(name_in_turn, "the third of its names");
    go(scope, name_in_turn, ends_at_once, NULL);
    CHECK_EQ(coir_scope_wait(scope), 0);
    char *text = written();
    CHECK(turn(text, "the first of its names", "\"cause\":\"spawned\""));
    CHECK(turn(text, "the first of its names", "\"cause\":\"time\""));
    CHECK(!turn(text, "the first of its names", "\"then\":\"ends\""));
    CHECK(turn(text, "the second of its names", "\"then\":\"ends\",\"cause\":\"time\""));
    CHECK(turn(text, "the third of its names", "\"then\":\"ends\",\"cause\":\"spawned\""));
    CHECK_EQ(coir_trace_stop(), 0);
}

/* More names than are counted by name. */
TEST_SIM(a_name_beyond_those_that_are_counted_is_in_the_trace)
{
    static char names[100][20];
    CHECK_EQ(coir_trace_start(0), 0);
    COIR_SCOPE(scope);
    for (int i = 0; i < 100; i++) {
        snprintf(names[i], sizeof names[i], "name %d", i);
        go(scope, names[i], ends_at_once, NULL);
    }
    CHECK_EQ(coir_scope_wait(scope), 0);
    char *text = written();
    for (int i = 0; i < 100; i++)
        CHECK(turn(text, names[i], "\"then\":\"ends\",\"cause\":\"spawned\""));
    CHECK_EQ(coir_trace_stop(), 0);
}

/* ---- operations ---- */

static coir_mutex mutex = COIR_MUTEX_INIT;
static coir_stream *ends[2];

static int reads(void *arg)
{
    (void)arg;
    char byte;
    CHECK_EQ(coir_read(ends[0], &byte, 1), 1);
    return 0;
}

static int reads_until_cancelled(void *arg)
{
    (void)arg;
    char byte;
    return (int)coir_read(ends[0], &byte, 1);
}

static int locks(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_mutex_lock(&mutex), 0);
    coir_mutex_unlock(&mutex);
    return 0;
}

static int works(void *arg)
{
    return *(int *)arg;
}

/* Every operation that has begun has ended; how many have. */
static size_t operations(const char *text, const char *category, const char *name)
{
    size_t found[2] = {0, 0};
    for (int end = 0; end < 2; end++)
        for (const char *at = text; (at = strstr(at, end ? "{\"ph\":\"e\"" : "{\"ph\":\"b\""));
             at++) {
            char line[1000], wanted[200];
            snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
            snprintf(wanted, sizeof wanted, "\"cat\":\"%s\"", category);
            bool matches = strstr(line, wanted) != NULL;
            snprintf(wanted, sizeof wanted, "\"name\":\"%s\"", name);
            found[end] += matches && strstr(line, wanted);
        }
    CHECK_EQ(found[0], found[1]);
    return found[0];
}

TEST_REAL(operations_that_wait_begin_and_end)
{
    int seven = 7;
    CHECK_EQ(coir_duplex(0, &ends[0], &ends[1]), 0);
    CHECK_EQ(coir_trace_start(1 << 12), 0);
    CHECK_EQ(coir_mutex_lock(&mutex), 0);
    COIR_SCOPE(scope);
    go(scope, "reads", reads, NULL);
    go(scope, "locks", locks, NULL);
    go(scope, "locks too", locks, NULL);
    CHECK_EQ(coir_yield(), 0);
    CHECK_EQ(coir_offload(works, &seven), 7);
    coir_mutex_unlock(&mutex);
    CHECK_EQ(coir_write_all(ends[1], "x", 1), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    COIR_SCOPE(cancelled);
    go(cancelled, "reads", reads_until_cancelled, NULL);
    CHECK_EQ(coir_yield(), 0);
    coir_scope_cancel(cancelled);
    CHECK_EQ(coir_scope_wait(cancelled), 0);
    char *text = written();
    CHECK_EQ(operations(text, "io", "read"), 2);
    CHECK_EQ(operations(text, "object", "a mutex"), 2);
    CHECK_EQ(operations(text, "offload", "offloaded call"), 1);
    CHECK(strstr(text, "\"result\":1}}"));
    CHECK_EQ(coir_trace_stop(), 0);
    coir_close(ends[0]);
    coir_close(ends[1]);
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

TEST_REAL(tasks_that_any_worker_may_run_are_taken)
{
    CHECK_EQ(coir_trace_start(1 << 12), 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go_anywhere(scope, nothing, NULL), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(count(written(), "\"name\":\"takes a shared task\""), 1);
    CHECK_EQ(coir_trace_stop(), 0);
}

TEST_REAL(the_newest_events_are_kept)
{
    CHECK_EQ(coir_trace_start(50), 0); /* 64 */
    COIR_SCOPE(scope);
    go(scope, "early", receiver, NULL);
    coir_scope_cancel(scope);
    coir_scope_wait(scope);
    CHECK_EQ(yield_often(NULL), 0);
    char *text = written();
    CHECK(!turn(text, "early", ""));
    size_t events = count(text, "\"ph\":\"X\"");
    CHECK(events >= 8 && events <= 64 * coir_worker_count(coir_runtime_current()));
    CHECK_EQ(coir_trace_stop(), 0);
}

TEST_REAL(a_trace_that_has_ended_can_be_written)
{
    CHECK_EQ(coir_trace_start(0), 0);
    CHECK_EQ(coir_trace_start(0), -EBUSY);
    COIR_SCOPE(scope);
    go(scope, "traced", yield_often, NULL);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_trace_stop(), 0);
    CHECK_EQ(coir_trace_stop(), 0);
    COIR_SCOPE(later);
    go(later, "untraced", yield_often, NULL);
    CHECK_EQ(coir_scope_wait(later), 0);
    CHECK(turn(written(), "traced", ""));
    CHECK(!turn(written(), "untraced", ""));
    CHECK_EQ(coir_trace_start(1 << 10), 0); /* of another size, and empty */
    CHECK(!turn(written(), "traced", ""));
    CHECK_EQ(coir_trace_stop(), 0);
}

TEST_REAL(what_cannot_be_done_is_said)
{
    CHECK_EQ(coir_trace_write(STDOUT_FILENO), -ENOENT);
    CHECK_EQ(coir_trace_stop(), 0);
    CHECK_EQ(coir_trace_start(0), 0);
    CHECK_EQ(coir_yield(), 0);
    CHECK_EQ(coir_trace_write(-1), -EBADF);
    CHECK_EQ(coir_trace_stop(), 0);
}

static int start_trace(void *arg)
{
    (void)arg;
    return coir_trace_start(16);
}

static int stop_trace(void *arg)
{
    (void)arg;
    return coir_trace_stop();
}

static int is_traced(void *arg)
{
    *(bool *)arg = ci_worker_current->trace != NULL;
    return 0;
}

/* While a task calls `fn`, and has not reached every worker, others are refused. */
static void change(coir_task_fn *fn, bool traced_then)
{
    coir_runtime *runtime = coir_runtime_current();
    int32_t before = ci_load(&runtime->traced);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, fn, NULL), 0);
    while (ci_load(&runtime->traced) == before)
        CHECK_EQ(coir_yield(), 0);
    CHECK_EQ(coir_trace_stop(), -EBUSY);
    CHECK_EQ(coir_trace_start(0), -EBUSY);
    CHECK_EQ(coir_scope_wait(scope), 0);
    for (int i = 0; i < runtime->worker_count; i++) {
        bool traced = !traced_then;
        CHECK_EQ(coir_call_on(i, is_traced, &traced), 0);
        CHECK_EQ(traced, traced_then);
    }
}

static void starts_and_stops_exclude_each_other_body(void)
{
    for (int i = 0; i < 20; i++) {
        change(start_trace, true);
        change(stop_trace, false);
        CHECK_EQ(coir_trace_stop(), 0);
    }
}

/* ---- without room for a task ---- */

static int wait_until(void *done)
{
    return coir_event_wait(done);
}

static int start_while_full(void *arg)
{
    coir_event done = COIR_EVENT_INIT;
    (void)arg;
    {
        COIR_SCOPE(scope);
        while (coir_go(scope, wait_until, &done) == 0)
            continue;
        CHECK_EQ(coir_trace_start(0), -EAGAIN);
        CHECK_EQ(coir_trace_start(0), -EAGAIN);
        CHECK_EQ(coir_recorder_start(), -EAGAIN);
        CHECK_EQ(coir_trace_stop(), -EAGAIN);
        coir_event_set(&done);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    CHECK_EQ(coir_trace_start(0), 0);
    CHECK_EQ(coir_trace_start(0), -EBUSY);
    CHECK_EQ(coir_trace_stop(), 0);
    return coir_trace_stop();
}

/* To begin and to end a trace takes a task of each worker. */
TEST(a_start_that_finds_no_place_for_a_task_may_be_repeated)
{
    coir_config config = COIR_CONFIG;
    config.workers = 2;
    config.tasks_max = 8;
    CHECK_EQ(test_run(&config, start_while_full, NULL), 0);
}

TEST(starts_and_stops_exclude_each_other)
{
    test_in_runtime(starts_and_stops_exclude_each_other_body, 3);
}

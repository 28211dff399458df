/* Traces: what they hold, and that they are the truth. */
#include "task/trace.h"

#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

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

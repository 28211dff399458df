/* The text of a trace, from events that are written down here. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/driver.h"
#include "harness.h"
#include "task/trace.h"

static const int one, two;
#define ONE ((const void *)&one)
#define TWO ((const void *)&two)

static struct ci_trace_event goes_on(uint64_t at)
{
    return (struct ci_trace_event){.at = at & 0xffff, .kind = CI_TRACE_GOES_ON};
}
static struct ci_trace_event ran(uint64_t at, const void *task, const char *awaits)
{
    struct ci_trace_event event = {.at = at & 0xffff, .kind = CI_TRACE_RAN_FUTURE, .task = task};
    event.root = "future";
    event.awaits = awaits;
    return event;
}
static struct ci_trace_event woke(enum ci_trace_kind kind, uint64_t at, const void *task,
                                  const void *by)
{
    struct ci_trace_event event = {.at = at & 0xffff, .kind = kind & 15, .task = task};
    event.by = by;
    return event;
}
static struct ci_trace_event named(const void *task, const char *name)
{
    struct ci_trace_event event = {.kind = CI_TRACE_NAMED, .task = task};
    snprintf(event.name, sizeof event.name, "%s", name);
    return event;
}

/* The text of the events of one worker; a tick is a microsecond, and it is 1000 now. */
static const char *text_of(struct ci_trace_event *events, size_t count)
{
    static char text[1 << 16];
    char path[] = "/tmp/coir-trace-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    unlink(path);
    struct ci_trace_copy copy = {events, count, 3};
    struct ci_trace_time time = {.ticks = 1000, .now = 1000 * COIR_US, .ticks_per_us = 1};
    CHECK_EQ(ci_trace_text(fd, &copy, 1, time), 0);
    ssize_t len = pread(fd, text, sizeof text - 1, 0);
    CHECK(len > 0);
    text[len] = '\0';
    close(fd);
    return text;
}
#define TEXT_OF(...)                                \
    text_of((struct ci_trace_event[]){__VA_ARGS__}, \
            sizeof(struct ci_trace_event[]){__VA_ARGS__} / sizeof(struct ci_trace_event))

TEST(a_turn_lasts_from_the_event_before_to_its_own)
{
    const char *text =
        TEXT_OF(goes_on(100), named(ONE, "first"), ran(130, ONE, "time"), ran(150, TWO, NULL));
    CHECK(strstr(text, "\"tid\":3,\"ts\":100.000,\"dur\":30.000,\"name\":\"first\""));
    CHECK(strstr(text, "\"then\":\"waits for time\""));
    CHECK(strstr(text, "\"ts\":130.000,\"dur\":20.000,\"name\":\"future\""));
    CHECK(strstr(text, "\"then\":\"ends\""));
    CHECK(strstr(text, "\"name\":\"worker 3\""));
}

TEST(a_turn_whose_begin_is_lost_is_left_out)
{
    const char *text = TEXT_OF(ran(130, ONE, "time"), ran(150, TWO, NULL));
    CHECK(!strstr(text, "\"ts\":100.000"));
    CHECK(strstr(text, "\"ts\":130.000,\"dur\":20.000"));
}

TEST(an_arrow_goes_from_the_wakers_turn)
{
    const char *text =
        TEXT_OF(goes_on(100), ran(110, ONE, "a mutex"), ran(120, TWO, NULL),
                woke(CI_TRACE_WOKE, 120, ONE, TWO), goes_on(200), ran(210, ONE, NULL));
    CHECK(strstr(text, "{\"ph\":\"s\",\"pid\":1,\"tid\":3,\"ts\":110.000,\"cat\":\"wake\""));
    CHECK(strstr(text, "{\"ph\":\"f\",\"pid\":1,\"tid\":3,\"ts\":200.000,\"bp\":\"e\""));
    CHECK(strstr(text, "\"cause\":\"a mutex\",\"by\":\"0x"));
}

TEST(what_the_loop_has_woken_has_no_arrow)
{
    const char *text = TEXT_OF(goes_on(100), ran(110, ONE, "time"), goes_on(200),
                               woke(CI_TRACE_WOKE, 200, ONE, NULL), ran(210, ONE, NULL));
    CHECK(strstr(text, "\"cause\":\"time\",\"by\":\"the loop\""));
    CHECK(!strstr(text, "\"ph\":\"s\""));
}

TEST(a_record_that_is_used_again_is_another_task)
{
    const char *text = TEXT_OF(goes_on(100), named(ONE, "old"), ran(110, ONE, "time"),
                               woke(CI_TRACE_SPAWNED, 110, ONE, TWO), ran(120, ONE, NULL));
    const char *turn = strstr(text, "\"ts\":110.000,\"dur\":10.000");
    CHECK(turn && strstr(turn, "\"name\":\"future\"") == strstr(turn, "\"name\""));
    CHECK(strstr(turn, "\"cause\":\"spawned\""));
}

static struct ci_trace_event operation(enum ci_trace_kind kind, uint64_t at, const void *task,
                                       const void *op, union ci_trace_detail detail)
{
    struct ci_trace_event event = {.at = at & 0xffff, .kind = kind & 15, .task = task};
    event.op = op;
    event.detail = detail;
    return event;
}

TEST(an_operation_is_a_pair_of_events)
{
    const union ci_trace_detail began = {.kind = CI_OP_ACCEPT, .value = 7};
    const union ci_trace_detail ended = {.kind = CI_OP_ACCEPT, .value = -9};
    const union ci_trace_detail lock = {.what = "a mutex"};
    const char *text = TEXT_OF(
        goes_on(100), operation(CI_TRACE_IO_BEGAN, 110, ONE, TWO, began), ran(110, ONE, "a mutex"),
        operation(CI_TRACE_WAITS, 110, ONE, ONE, lock), goes_on(200),
        woke(CI_TRACE_WOKE, 200, ONE, NULL), operation(CI_TRACE_IO_ENDED, 200, ONE, TWO, ended));
    const char *begin =
        strstr(text, "{\"ph\":\"b\",\"pid\":1,\"tid\":3,\"ts\":110.000,\"cat\":\"io\"");
    const char *end =
        strstr(text, "{\"ph\":\"e\",\"pid\":1,\"tid\":3,\"ts\":200.000,\"cat\":\"io\"");
    CHECK(begin && end);
    CHECK(strstr(begin, "\"name\":\"accept\"") < strstr(begin, "\"fd\":7}}"));
    CHECK(strstr(end, "\"result\":-9}}"));
    CHECK(strstr(text, "\"ts\":110.000,\"cat\":\"object\""));
    CHECK(strstr(text, "\"ts\":200.000,\"cat\":\"object\""));
    CHECK(strstr(text, "\"name\":\"a mutex\""));
}

TEST(an_operation_whose_begin_is_lost_is_left_out)
{
    const union ci_trace_detail call = {.fn = NULL};
    const char *text = TEXT_OF(goes_on(200), operation(CI_TRACE_OFFLOAD_ENDED, 200, ONE, TWO, call),
                               operation(CI_TRACE_OFFLOAD_BEGAN, 210, TWO, TWO, call));
    CHECK(!strstr(text, "\"ph\":\"e\""));
    CHECK(strstr(text, "\"ph\":\"b\""));
    CHECK(strstr(text, "\"name\":\"offloaded call\""));
}

/* The ends of operations of one record, each with its result, in text. */
static void check_ends(const char *text, const void *op, const char *results)
{
    char id[40], found[100] = "";
    snprintf(id, sizeof id, "\"id\":\"%p\"", op);
    for (const char *at = text; (at = strstr(at, "{\"ph\":\"e\""));) {
        char line[300];
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        const char *result = strstr(line, "\"result\":");
        if (strstr(line, id))
            snprintf(found + strlen(found), sizeof found - strlen(found), "%s ",
                     result ? strtok(strchr(result, ':') + 1, "}") : "lost");
        at++;
    }
    CHECK(strcmp(found, results) == 0);
}

/* Addresses of tasks and operations are multiples of small numbers: sums of them coincide. */
TEST(operations_are_told_apart)
{
    char *const base = (char *)(uintptr_t)0x10000;
    const void *task = base + 0x1940, *other = base + 0x14c0;    /* 0xd80 apart, if xored ... */
    const void *op = base + 0x31f20, *other_op = base + 0x319e0; /* ... and 0x6c0 */
    const union ci_trace_detail began = {.kind = CI_OP_READ, .value = 7};
    const union ci_trace_detail ended = {.kind = CI_OP_READ, .value = 1};
    const union ci_trace_detail other_ended = {.kind = CI_OP_READ, .value = 2};
    const char *text = TEXT_OF(goes_on(100), operation(CI_TRACE_IO_BEGAN, 110, task, op, began),
                               operation(CI_TRACE_IO_BEGAN, 110, other, other_op, began),
                               operation(CI_TRACE_IO_ENDED, 200, other, other_op, other_ended),
                               operation(CI_TRACE_IO_ENDED, 210, task, op, ended));
    check_ends(text, op, "1 ");
    check_ends(text, other_op, "2 ");
}

TEST(a_record_that_is_used_again_ends_its_span)
{
    const union ci_trace_detail began = {.kind = CI_OP_READ, .value = 7};
    const union ci_trace_detail ended = {.kind = CI_OP_READ, .value = 3};
    const union ci_trace_detail lock = {.what = "a mutex"};
    const char *text = TEXT_OF(goes_on(100), operation(CI_TRACE_IO_BEGAN, 110, ONE, TWO, began),
                               operation(CI_TRACE_IO_BEGAN, 120, TWO, TWO, began),
                               operation(CI_TRACE_IO_ENDED, 200, TWO, TWO, ended));
    check_ends(text, TWO, "lost 3 ");
    CHECK(strstr(text, "{\"ph\":\"e\",\"pid\":1,\"tid\":3,\"ts\":120.000,\"cat\":\"io\""));
    text = TEXT_OF(goes_on(100), operation(CI_TRACE_WAITS, 110, ONE, TWO, lock),
                   operation(CI_TRACE_WAITS, 130, ONE, TWO, lock));
    CHECK(strstr(text, "{\"ph\":\"e\",\"pid\":1,\"tid\":3,\"ts\":130.000,\"cat\":\"object\""));
}

TEST(an_event_without_a_time_is_of_now)
{
    const char *text =
        TEXT_OF(goes_on(100), operation(CI_TRACE_IO_BEGAN, 0, ONE, TWO,
                                        (union ci_trace_detail){.kind = CI_OP_READ}));
    CHECK(strstr(text, "{\"ph\":\"b\",\"pid\":1,\"tid\":3,\"ts\":1000.000,"));
}

TEST(names_are_quoted)
{
    const char *text =
        TEXT_OF(goes_on(100), named(ONE, "\"\\\n\xc3\xa9\xff\xc2\x9b"), ran(110, ONE, NULL));
    CHECK(strstr(text, "\"name\":\"\\u0022\\u005c\\u000a\xc3\xa9\\ufffd\\u009b\""));
}

TEST(an_error_of_the_file_is_told)
{
    struct ci_trace_event event = goes_on(100);
    struct ci_trace_copy copy = {&event, 1, 0};
    struct ci_trace_time time = {.ticks = 1000, .ticks_per_us = 1};
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    CHECK_EQ(ci_trace_text(fd, &copy, 1, time), -ENOSPC);
    close(fd);
}

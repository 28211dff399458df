/* The text and the JSON of a snapshot that was made by hand. */
#include "task/snapshot_write.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "comma_locale.h"
#include "harness.h"
#include "sys/symbol.h"
#include "task/findings.h"
#include "task/waiter.h"

static struct ci_snapshot_task tasks[4];
static struct ci_snapshot_line lines[3];
static struct ci_snapshot_worker workers[2];
static struct ci_snapshot snapshot;
static char text[1 << 14];

static void make(void)
{
    static const char names[][CI_SNAPSHOT_NAME] = {"main", "a \"b\"\n", "twin", "twin"};
    memset(tasks, 0, sizeof tasks);
    for (int i = 0; i < 4; i++) {
        tasks[i] = (struct ci_snapshot_task){.id = (void *)(uintptr_t)(16 * (i + 1)),
                                             .scope = (void *)(uintptr_t)(i ? 0x1000 : 0x2000),
                                             .parent = i ? 0 : -1,
                                             .depth = i ? 1 : 0,
                                             .state = CI_TASK_WAITS,
                                             .root = "a root",
                                             .waits_for = "time",
                                             .has_time = true,
                                             .left = 1500 * COIR_MS,
                                             .holder = -1,
                                             .deadline = COIR_NEVER};
        memcpy(tasks[i].name, names[i], sizeof names[i]);
    }
    tasks[0].has_children = true;
    tasks[1].deadline = 2 * COIR_S;
    tasks[1].cancelled = -ETIME;
    tasks[1].line_count = 3;
    tasks[1].note = (struct ci_wait_note){.object = (void *)0x77, .text = "7 to read"};
    lines[0] = (struct ci_snapshot_line){.kind = CI_LINE_FUTURE, .name = "leaf", .exact = true};
    lines[1] = (struct ci_snapshot_line){.kind = CI_LINE_FUTURE, .name = "root", .exact = true};
    lines[2] = (struct ci_snapshot_line){.kind = CI_LINE_MEMBER};
    workers[0] = (struct ci_snapshot_worker){.answered = true};
    workers[1] = (struct ci_snapshot_worker){.index = 1, .trace_error = -ENOTSUP};
    snapshot.tasks = (struct ci_snapshot_array){tasks, 4, 4};
    snapshot.lines = (struct ci_snapshot_array){lines, 3, 3};
    snapshot.workers = (struct ci_snapshot_array){workers, 2, 2};
}

static const char *written(enum coir_dump_format format)
{
    FILE *file = tmpfile();
    CHECK(file != NULL);
    CHECK_EQ(ci_snapshot_write(&snapshot, fileno(file), format), 0);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

TEST(people_read_a_tree_in_which_equal_tasks_are_counted)
{
    make();
    const char *body = strchr(written(COIR_DUMP_TEXT), '\n') + 1;
    const char *wanted =
        "runtime 0, worker 0\n"
        "  main 0x10 waits for time for 1.500 s\n"
        "    a \"b\"? 0x20 waits for time 0x77 (7 to read) for 1.500 s, deadline in 2.000 s, "
        "cancelled (ETIME)\n"
        "        #0  leaf, a future of 0x0\n"
        "        #1  root, a future of 0x0\n"
        "        - a member:\n"
        "    twin 0x30 and 1 more: each waits for time for 1.500 s\n"
        "runtime 0, worker 1 does not answer, and its stack is not known\n";
    if (strcmp(body, wanted) != 0)
        test_fail(__FILE__, __LINE__, "%s\nis not\n%s", body, wanted);
}

TEST(the_locale_of_the_program_does_not_matter)
{
    if (!comma_locale_begin())
        return;
    make();
    CHECK(strstr(written(COIR_DUMP_JSON), "\"seconds\":1.500000,\"waited\":0.000}"));
    CHECK(strstr(text, "\"deadlineSeconds\":2.000000"));
    CHECK(strstr(written(COIR_DUMP_TEXT), "waits for time for 1.500 s"));
}

static CI_NOINLINE int waits_here(int value)
{
    return value + 1;
}

/* The frame of a public function is not there: its last step was to park. */
TEST(a_stack_is_shown_from_the_function_of_the_program)
{
    make();
    CHECK_EQ(waits_here(1), 2);
    tasks[1].line_count = 2;
    lines[0] = (struct ci_snapshot_line){
        .kind = CI_LINE_FRAME, .exact = true, .address = (void *)(uintptr_t)ci_park};
    lines[1] = (struct ci_snapshot_line){.kind = CI_LINE_FRAME,
                                         .address = (char *)(uintptr_t)waits_here + 1};
    const char *all = written(COIR_DUMP_TEXT);
    if (ci_has_symbols && (!strstr(all, "#0  waits_here at ") || strstr(all, "ci_park")))
        test_fail(__FILE__, __LINE__, "%s", all);
    lines[1].address = (char *)(uintptr_t)ci_park + 1; /* the library's alone: all of it */
    all = written(COIR_DUMP_TEXT);
    if (ci_has_symbols && !strstr(all, "#1  ci_park"))
        test_fail(__FILE__, __LINE__, "%s", all);
}

/* Each line of text stays one line, whatever the program calls its things and however deep. */
TEST(no_name_and_no_depth_tears_a_line)
{
    make();
    tasks[1].depth = 5000;
    tasks[1].note.name = "lock\n\033[2J";
    tasks[1].name[0] = 0x7f;
    workers[1].trace_error = 0;
    memcpy(workers[1].running_name, "two\nlines", sizeof "two\nlines");
    written(COIR_DUMP_TEXT);
    CHECK(
        strstr(text, "  ? \"b\"? 0x20 waits for time 0x77 (lock??[2J) (7 to read) for 1.500 s, "));
    CHECK(strstr(text, " #1  root, a future of 0x0\n"));
    CHECK(strstr(text, "does not answer; it runs two?lines, and its stack is not known\n"));
    for (const char *line = text; *line; line = strchr(line, '\n') + 1)
        CHECK(strchr(line, '\n') && strcspn(line, "\n") < 400);
}

TEST(what_is_left_out_is_told)
{
    make();
    CHECK(!strstr(written(COIR_DUMP_TEXT), "missing"));
    CHECK(!strstr(written(COIR_DUMP_JSON), "runtimesLeftOut"));
    snapshot.runtimes_left_out = 2;
    written(COIR_DUMP_TEXT);
    CHECK(strstr(text, "\nmissing: 2 more runtimes\n"));
    CHECK(strstr(written(COIR_DUMP_JSON), "\"runtimesLeftOut\":2,"));
}

/* Task 2 holds what task 1 waits for, and has let a scope open; worker 1 computes. */
static void make_findings(void)
{
    static size_t parties[] = {1, 2, 2};
    static struct ci_finding findings[] = {
        {.kind = CI_FINDS_CYCLE, .first = 0, .count = 2},
        {.kind = CI_FINDS_SCOPE_LEFT_OPEN, .first = 2, .count = 1},
        {.kind = CI_FINDS_COMPUTING, .first = 2, .count = 1, .worker = 1},
    };
    make();
    tasks[1].note.holder.task = tasks[2].id;
    tasks[1].holder = 2;
    tasks[1].waited = 2500 * COIR_MS;
    tasks[3].note.holder.task = tasks[2].id; /* of another number */
    tasks[2].has_children = true;
    workers[1].running.task = tasks[2].id;
    workers[1].trace_error = 0;
    memcpy(workers[1].running_name, "twin", sizeof "twin");
    snapshot.findings = (struct ci_snapshot_array){findings, 3, 3};
    snapshot.parties = (struct ci_snapshot_array){parties, 3, 3};
}

TEST(people_read_what_was_found)
{
    make_findings();
    const char *text_of_all = written(COIR_DUMP_TEXT);
    const char *wanted =
        "finding: 2 tasks wait for each other, each for a lock that the next one holds:\n"
        "    a \"b\"? 0x20 waits for time 0x77 (7 to read) for 1.500 s, held by twin 0x30, for "
        "2.50 s so far, deadline in 2.000 s, in ?\n"
        "    twin 0x30 waits for time for 1.500 s, in ?\n"
        "finding: a scope was left open by a function that has returned; opened by ?:\n"
        "    twin 0x30 waits for time for 1.500 s, in ?\n"
        "finding: twin 0x30 on worker 1 computes without a wait, in ?; it holds a lock that "
        "others wait for (1):\n"
        "    twin 0x30 waits for time for 1.500 s, in ?\n";
    CHECK(strstr(text_of_all, ", held by a task that is not shown\n"));
    if (!strstr(text_of_all, wanted))
        test_fail(__FILE__, __LINE__, "%s\nis not in\n%s", wanted, text_of_all);
    snapshot.whole = true;
    CHECK(strstr(written(COIR_DUMP_TEXT), ", held by a task that has ended\n"));
}

TEST(programs_read_what_was_found)
{
    make_findings();
    written(COIR_DUMP_JSON);
    CHECK(strstr(text, "\"heldBy\":\"0x30\",\"seconds\":1.500000,\"waited\":2.500}"));
    CHECK(strstr(text,
                 "\"findings\":[\n{\"kind\":\"cycle\",\"tasks\":[{\"tid\":\"0x20\",\"place\":"));
    CHECK(strstr(text, "{\"kind\":\"scopeLeftOpen\",\"place\":\"?\",\"tasks\":[{\"tid\":\"0x30\""));
    CHECK(strstr(text, "{\"kind\":\"computing\",\"task\":\"0x30\",\"worker\":1,\"place\":\"?\""));
}

TEST(programs_read_every_task)
{
    make();
    written(COIR_DUMP_JSON);
    CHECK(strstr(text, "\"schema\":1,") && strstr(text, "\"tid\":\"0x30\""));
    CHECK(strstr(text, "\"tid\":\"0x40\",\"name\":\"twin\",\"state\":\"waiting\""));
    CHECK(strstr(text, "\"name\":\"a \\u0022b\\u0022\\u000a\""));
    CHECK(strstr(
        text, "{\"kind\":\"time\",\"object\":\"0x77\",\"detail\":\"7 to read\",\"seconds\":1.5"));
    CHECK(strstr(text, "\"deadlineSeconds\":2.000000,\"cancelled\":\"ETIME\""));
    CHECK(strstr(text, "{\"container\":\"0x2000\",\"runtime\":0,\"worker\":0,\"parent\":null"));
    CHECK(strstr(text, "\"parent\":\"0x2000\",\"owner\":\"0x10\",\"threads\":["));
    CHECK(strstr(text, "{\"runtime\":0,\"index\":1,\"answered\":false}"));
}

TEST(errors_of_the_descriptor_are_returned)
{
    make();
    CHECK_EQ(ci_snapshot_write(&snapshot, -1, COIR_DUMP_TEXT), -EBADF);
    CHECK_EQ(ci_snapshot_write(&snapshot, -1, COIR_DUMP_JSON), -EBADF);
}

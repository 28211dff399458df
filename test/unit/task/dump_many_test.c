/* A dump of 10,000 tasks of every kind, half of them stuck in pairs: each line is what is true. */
#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/sanitizer.h"
#include "harness.h"

/* gcc has room for 8,128 fibers in a program with its thread sanitizer */
enum { TASKS = CI_ASAN || CI_TSAN ? 2000 : 10000, NAME = 24 };

enum kind { LOCKER, SLEEPER, RECEIVER, SENDER, ACQUIRER, WAITER, READER, STACKLESS, KINDS };

static const char *const waits_for[KINDS] = {
    "a mutex",     "time",     "an item of a channel", "room in a channel",
    "a semaphore", "an event", "a shared mutex",       "time",
};

struct one {
    int number;
    coir_sleep_op sleep;
};

static struct one ones[TASKS];
static char names[TASKS][NAME];
static coir_mutex mutexes[TASKS];
static coir_shared_mutex shared = COIR_SHARED_MUTEX_INIT;
static coir_semaphore semaphore = COIR_SEMAPHORE_INIT(0);
static coir_event event = COIR_EVENT_INIT;
static coir_channel *empty, *full;
static int held;
static char *text;

/* The first half are lockers, each two of which wait for each other. */
static bool is_stuck(int number)
{
    return number < TASKS / 2;
}

static enum kind kind_of(int number)
{
    return is_stuck(number) ? LOCKER : (enum kind)(number % KINDS);
}

/* A locker of the second half waits for what the first one of the first half has. */
static int lock_that_is_wanted(int number)
{
    return is_stuck(number) ? number ^ 1 : 0;
}

static const void *object_of(int number)
{
    switch (kind_of(number)) {
    case LOCKER: return &mutexes[lock_that_is_wanted(number)];
    case RECEIVER: return empty;
    case SENDER: return full;
    case ACQUIRER: return &semaphore;
    case WAITER: return &event;
    case READER: return &shared;
    default: return NULL;
    }
}

static int lock(int number)
{
    if (is_stuck(number)) {
        CHECK_EQ(coir_mutex_lock(&mutexes[number]), 0);
        held++;
        while (held < TASKS / 2)
            CHECK_EQ(coir_yield(), 0);
    }
    int rc = coir_mutex_lock(&mutexes[lock_that_is_wanted(number)]);
    if (rc == 0)
        coir_mutex_unlock(&mutexes[lock_that_is_wanted(number)]);
    if (is_stuck(number))
        coir_mutex_unlock(&mutexes[number]);
    return rc;
}

static int wait_in_a_way(void *arg)
{
    const struct one *one = arg;
    int item = 0;
    switch (kind_of(one->number)) {
    case LOCKER: return lock(one->number) < 0 ? -ECANCELED : 0;
    case RECEIVER: return coir_channel_recv(empty, &item);
    case SENDER: return coir_channel_send(full, &item);
    case ACQUIRER: return coir_semaphore_acquire(&semaphore, 1);
    case WAITER: return coir_event_wait(&event);
    case READER: return coir_shared_mutex_share(&shared);
    default: return coir_sleep_for(1000 * COIR_S);
    }
}

static void go(coir_scope *scope, int number)
{
    coir_go_options options = COIR_GO_OPTIONS;
    snprintf(names[number], NAME, "task %d", number);
    ones[number].number = number;
    options.name = names[number];
    if (kind_of(number) == STACKLESS)
        CHECK_EQ(coir_go_future_with(scope, &options,
                                     coir_sleep_for_op(&ones[number].sleep, 1000 * COIR_S)),
                 0);
    else
        CHECK_EQ(coir_go_with(scope, &options, wait_in_a_way, &ones[number]), 0);
}

static void dump(enum coir_dump_format format)
{
    FILE *file = tmpfile();
    CHECK(file != NULL);
    CHECK_EQ(coir_dump(fileno(file), format), 0);
    long size = ftell(file);
    CHECK(fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) > 0);
    rewind(file);
    free(text);
    text = malloc((size_t)size + 1);
    CHECK(text && fread(text, 1, (size_t)size, file) == (size_t)size);
    text[size] = '\0';
    fclose(file);
}

static void expect(bool met, int number, const char *line)
{
    if (!met)
        test_fail(__FILE__, __LINE__, "task %d: %.*s", number, (int)strcspn(line, "\n"), line);
}

/* ---- text ---- */

/* The rest of a task's line, behind its name and address. */
static void check_line(int number, const char *line)
{
    char wanted[200];
    int len = snprintf(wanted, sizeof wanted, " waits for %s", waits_for[kind_of(number)]);
    if (object_of(number))
        snprintf(wanted + len, sizeof wanted - (size_t)len, " %p", object_of(number));
    expect(strncmp(line, wanted, strlen(wanted)) == 0, number, line);
    const char *end = line + strcspn(line, "\n"), *held_by = strstr(line, ", held by ");
    bool locks = kind_of(number) == LOCKER || kind_of(number) == READER;
    expect(locks == (held_by && held_by < end), number, line);
    if (kind_of(number) == LOCKER) {
        snprintf(wanted, sizeof wanted, ", held by task %d 0x", lock_that_is_wanted(number));
        expect(strncmp(held_by, wanted, strlen(wanted)) == 0, number, line);
    } else if (kind_of(number) == READER) {
        expect(strncmp(held_by, ", held by main 0x", 17) == 0, number, line);
    }
}

static void check_text(void)
{
    static bool seen[TASKS];
    int count = 0, number, len = 0;
    const char *end = strstr(text, "\nfinding: ");
    CHECK(end != NULL);
    for (const char *at = text; (at = strstr(at, "\n    task ")) && at < end; at++) {
        CHECK_EQ(sscanf(at, "\n    task %d 0x%*x%n", &number, &len), 1);
        CHECK(number >= 0 && number < TASKS && !seen[number]);
        seen[number] = true;
        count++;
        check_line(number, at + len);
    }
    CHECK_EQ(count, TASKS);
}

/* Each pair once, and nothing else. */
static void check_findings(void)
{
    static bool seen[TASKS];
    static const char head[] =
        "\nfinding: 2 tasks wait for each other, each for a lock that the next one holds:\n";
    int count = 0, first, second;
    for (const char *at = text; (at = strstr(at, "\nfinding: ")); at++, count++) {
        CHECK(strncmp(at, head, sizeof head - 1) == 0);
        CHECK_EQ(sscanf(at + sizeof head - 1, " task %d", &first), 1);
        const char *other = strchr(at + sizeof head, '\n');
        CHECK_EQ(sscanf(other, " task %d", &second), 1);
        CHECK(is_stuck(first) && second == (first ^ 1) && !seen[first] && !seen[second]);
        seen[first] = seen[second] = true;
    }
    CHECK_EQ(count, TASKS / 4);
}

/* ---- JSON ---- */

static void check_json(void)
{
    char wanted[200];
    int count = 0, number;
    for (const char *at = text; (at = strstr(at, "\"name\":\"task ")); at++, count++) {
        CHECK_EQ(sscanf(at, "\"name\":\"task %d\"", &number), 1);
        CHECK(number >= 0 && number < TASKS);
        snprintf(wanted, sizeof wanted, "\"name\":\"task %d\",\"state\":\"waiting\",", number);
        expect(strncmp(at, wanted, strlen(wanted)) == 0, number, at);
        int len = snprintf(wanted, sizeof wanted, "\"waitsFor\":{\"kind\":\"%s\"",
                           waits_for[kind_of(number)]);
        if (object_of(number))
            snprintf(wanted + len, sizeof wanted - (size_t)len, ",\"object\":\"%p\"",
                     object_of(number));
        const char *wait = strstr(at, "\"waitsFor\"");
        expect(wait && strncmp(wait, wanted, strlen(wanted)) == 0, number, wait);
        const char *held_by = strstr(wait, "\"heldBy\":");
        bool locks = kind_of(number) == LOCKER || kind_of(number) == READER;
        expect(locks == (held_by && held_by < strchr(wait, '}')), number, wait);
    }
    CHECK_EQ(count, TASKS);
    count = 0;
    for (const char *at = text; (at = strstr(at, "{\"kind\":\"cycle\"")); at++)
        count++;
    CHECK_EQ(count, TASKS / 4);
}

static int start(void *arg)
{
    int item = 0;
    (void)arg;
    CHECK_EQ(coir_channel_new(sizeof item, 1, &empty), 0);
    CHECK_EQ(coir_channel_new(sizeof item, 1, &full), 0);
    CHECK_EQ(coir_channel_try_send(full, &item), 0);
    CHECK_EQ(coir_shared_mutex_lock(&shared), 0);
    {
        COIR_SERVING_SCOPE(scope);
        for (int i = 0; i < TASKS; i++)
            go(scope, i);
        do
            CHECK_EQ(coir_sleep_for(COIR_MS), 0);
        while (dump(COIR_DUMP_TEXT),
               strstr(text, " is ready to run\n") || strstr(text, "has not begun"));
        check_text();
        check_findings();
        dump(COIR_DUMP_JSON);
        check_json();
        coir_scope_cancel(scope);
    }
    coir_channel_free(empty);
    coir_channel_free(full);
    coir_shared_mutex_unlock(&shared);
    free(text);
    return 0;
}

TEST(each_line_of_10000_tasks_is_true)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.log = NULL;
    CHECK_EQ(test_run(&config, start, NULL), 0);
}

/* How much of their stacks tasks have used, by name. */
#include "task/stack_use.h"

#include <coir.h>
#include <coir/metrics.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sanitizer.h"
#include "harness.h"

enum { SMALL = 2000, LARGE = 20000, SLACK = 6000 };
static char text[1 << 20];

/* -1: there is no such line. */
static long metric(const char *line)
{
    CHECK(coir_metrics_text(coir_runtime_current(), text, sizeof text) < (int64_t)sizeof text);
    const char *at = strstr(text, line);
    return at ? strtol(at + strlen(line), NULL, 10) : -1;
}

static long used(const char *name)
{
    char line[100];
    snprintf(line, sizeof line, "\ncoir_stack_used_bytes_max{task=\"%s\"} ", name);
    return metric(line);
}

static void go(coir_scope *scope, const char *name, coir_task_fn *fn, void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = name;
    CHECK_EQ(coir_go_with(scope, &options, fn, arg), 0);
}

/* Writes to so many bytes of the stack. */
static __attribute__((noinline)) int use(void *size)
{
    size_t bytes = *(const size_t *)size;
    volatile char *frame = __builtin_alloca(bytes);
    for (size_t i = 0; i < bytes; i++)
        frame[i] = 1;
    return 0;
}

static int use_and_wait(void *size)
{
    use(size);
    return coir_sleep_for(1 * COIR_S * 3600);
}

static void check_near(long bytes, long expected)
{
    if (bytes < expected || bytes > expected + SLACK)
        test_fail(__FILE__, __LINE__, "%ld bytes, but %ld and a little more are used", bytes,
                  expected);
}

static int measure(void *arg)
{
    static const size_t small = SMALL, large = LARGE;
    (void)arg;
    coir_yield();
    COIR_SCOPE(scope);
    for (int i = 0; i < 3; i++) { /* one after the other, on the same stack */
        go(scope, "large", use, (void *)(uintptr_t)&large);
        CHECK_EQ(coir_scope_wait(scope), 0);
        go(scope, "small", use, (void *)(uintptr_t)&small);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    check_near(used("large"), LARGE);
    check_near(used("small"), SMALL);
    go(scope, "waits", use_and_wait, (void *)(uintptr_t)&large);
    go(scope, NULL, use, (void *)(uintptr_t)&small);
    coir_yield();
    coir_yield();
    check_near(used("waits"), LARGE);
    check_near(used("(without a name)"), SMALL);
    CHECK_EQ(metric("\ncoir_stack_size_bytes "), 128 * 1024);
    CHECK_EQ(metric("\ncoir_stack_size_suggested_bytes "),
             (long)ci_stack_use_suggest((size_t)used("waits")));
    coir_scope_cancel(scope);
    coir_scope_wait(scope);
    return 0;
}

TEST(the_use_of_stacks_is_told_by_name)
{
    coir_config config = COIR_CONFIG;
    if (ci_sanitizer)
        return; /* their frames have other sizes */
    config.workers = 1;
    config.stack_use = true;
    config.stack_size = 128 * 1024;
    CHECK_EQ(test_run(&config, measure, NULL), 0);
}

/* An empty name is none; a name that is looked for later in the same place is its own. */
static int measure_without_names(void *arg)
{
    static const size_t small = SMALL, large = LARGE;
    static char name[8];
    (void)arg;
    coir_yield();
    COIR_SCOPE(scope);
    go(scope, name, use, (void *)(uintptr_t)&large);
    CHECK_EQ(coir_scope_wait(scope), 0);
    check_near(used("(without a name)"), LARGE);
    CHECK_EQ(used(""), -1);
    strcpy(name, "later");
    go(scope, name, use, (void *)(uintptr_t)&small);
    CHECK_EQ(coir_scope_wait(scope), 0);
    check_near(used("later"), SMALL);
    return 0;
}

TEST(an_empty_name_is_none)
{
    coir_config config = COIR_CONFIG;
    if (ci_sanitizer)
        return;
    config.workers = 1;
    config.stack_use = true;
    CHECK_EQ(test_run(&config, measure_without_names, NULL), 0);
}

/* More tasks than stacks, which share them. */
static int churn(void *arg)
{
    (void)arg;
    static const size_t sizes[] = {500, SMALL, LARGE};
    COIR_SCOPE(scope);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 30; i++)
            go(scope, "churn", use, (void *)(uintptr_t)&sizes[i % 3]);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    CHECK(used("churn") >= LARGE);
    return 0;
}

static int find_none(void *arg)
{
    (void)arg;
    coir_yield();
    CHECK_EQ(used("main"), -1);
    CHECK_EQ(metric("\ncoir_stack_size_suggested_bytes "), -1);
    CHECK(metric("\ncoir_stack_size_bytes ") > 0);
    return 0;
}

/* What a fiber has deferred lies before what has its stack measured. */
static int deferred;

static void count_deferred(void *arg)
{
    deferred += *(const int *)arg;
}

static int defer_and_use(void *size)
{
    static int one = 1, ten = 10, hundred = 100;
    CHECK(!coir_defer_disarm(NULL, NULL));
    CHECK_EQ(coir_defer(count_deferred, &one), 0);
    CHECK_EQ(coir_defer(count_deferred, &ten), 0);
    CHECK_EQ(coir_defer(count_deferred, &hundred), 0);
    CHECK(coir_defer_disarm(count_deferred, &ten));
    CHECK(!coir_defer_disarm(count_deferred, &ten));
    return use(size);
}

static int end_at_once(coir_generator *generator, uint64_t value, void *arg)
{
    (void)generator, (void)value, (void)arg;
    return 0;
}

static int defer(void *arg)
{
    static const size_t small = SMALL, large = LARGE;
    coir_generator *generator;
    uint64_t value;
    (void)arg;
    COIR_SCOPE(scope);
    for (int i = 1; i <= 3; i++) {
        CHECK_EQ(coir_generator_new(end_at_once, NULL, &generator), 0);
        coir_generator_next(generator, 0, &value);
        coir_generator_free(generator); /* its stack is the next task's */
        go(scope, "defers", defer_and_use, (void *)(uintptr_t)(i == 3 ? &large : &small));
        CHECK_EQ(coir_scope_wait(scope), 0);
        CHECK_EQ(deferred, 101 * i);
        CHECK(used("defers") >= (i == 3 ? LARGE : SMALL));
    }
    return 0;
}

TEST(stacks_of_fibers_that_defer_calls_are_measured)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.stack_use = true;
    deferred = 0;
    CHECK_EQ(test_run(&config, defer, NULL), 0);
}

TEST(nothing_is_measured_unless_asked_for)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    CHECK_EQ(test_run(&config, find_none, NULL), 0);
    CHECK_EQ(setenv("COIR_STACK_USE", "1", 1), 0);
    CHECK_EQ(test_run(&config, churn, NULL), 0);
}

TEST(a_suggestion_has_room_for_twice_the_use)
{
    CHECK_EQ(ci_stack_use_suggest(1), 32 * 1024);
    CHECK_EQ(ci_stack_use_suggest(8 * 1024), 32 * 1024);
    CHECK_EQ(ci_stack_use_suggest(8 * 1024 + 1), 64 * 1024);
    CHECK_EQ(ci_stack_use_suggest(100 * 1024), 256 * 1024);
}

TEST(stacks_are_used_again)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.stack_use = true;
    CHECK_EQ(test_run(&config, churn, NULL), 0);
}

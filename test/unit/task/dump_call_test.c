/* Dumps: what every kind of task waits for and where, from fibers, callbacks and plain threads,
 * also of workers that do not answer. */
#include <coir.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "harness.h"
#include "sys/symbol.h"
#include "task/current.h"

static char text[8 << 20];

/* Reads what a dump has written to a file without a name. */
static const char *dump(enum coir_dump_format format)
{
    FILE *file = tmpfile();
    CHECK(file != NULL);
    CHECK_EQ(coir_dump(fileno(file), format), 0);
    rewind(file);
    size_t len = fread(text, 1, sizeof text - 1, file);
    CHECK(len < sizeof text - 1);
    text[len] = '\0';
    fclose(file);
    return text;
}

static bool is_settled(void)
{
    static const char *const passing[] = {"does not answer",     "has not begun",
                                          "is a message",        "is ready to run",
                                          "\"answered\":false",  "\"state\":\"new\"",
                                          "\"state\":\"ready\"", "\"state\":\"travelling\""};
    for (size_t i = 0; i < ci_countof(passing); i++)
        if (strstr(text, passing[i]))
            return false;
    return true;
}

/* Once every worker has answered, which takes longer on a loaded machine, and every task has come
 * to where it waits. */
static const char *dump_of_all(enum coir_dump_format format)
{
    for (dump(format); !is_settled(); dump(format))
        if (coir_runtime_current())
            CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    return text;
}

static void expect_in(const char *where, const char *words)
{
    if (!strstr(where, words))
        test_fail(__FILE__, __LINE__, "not found: %s\nin: %.6000s", words, where);
}

/* What follows the words: up to the next task of this depth or less. */
static const char *after(const char *words)
{
    expect_in(text, words);
    return strstr(text, words) + strlen(words);
}

static unsigned tasks_in_text(void)
{
    unsigned count = 0;
    CHECK_EQ(sscanf(after(", process"), "%*d: %u tasks", &count), 1);
    return count;
}

static void go(coir_scope *scope, const char *name, int place, coir_task_fn *fn, void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = name;
    options.place = place;
    CHECK_EQ(coir_go_with(scope, &options, fn, arg), 0);
}

static void run(unsigned workers, coir_task_fn *fn, void *arg)
{
    coir_config config = COIR_CONFIG;
    config.workers = workers;
    CHECK_EQ(test_run(&config, fn, arg), 0);
}

/* ---- one of every kind ---- */

static coir_mutex mutex = COIR_MUTEX_INIT;
static coir_event event = COIR_EVENT_INIT;
static coir_semaphore semaphore = COIR_SEMAPHORE_INIT(0);
static coir_channel *channel;
static int pipe_ends[2];

static __attribute__((noinline)) int take_the_mutex(void)
{
    int rc = coir_mutex_lock(&mutex);
    if (rc == 0)
        coir_mutex_unlock(&mutex);
    return rc;
}

static int locks(void *arg)
{
    (void)arg;
    int rc = take_the_mutex();
    return rc == -ECANCELED ? 0 : rc;
}

static int sleeps(void *arg)
{
    (void)arg;
    return coir_sleep_for(1000 * COIR_S);
}

static int waits_for_an_event(void *arg)
{
    (void)arg;
    COIR_DEADLINE(coir_now() + 500 * COIR_S);
    return coir_event_wait(&event);
}

static int acquires(void *arg)
{
    (void)arg;
    return coir_semaphore_acquire(&semaphore, 3);
}

static int receives(void *arg)
{
    int item;
    (void)arg;
    return coir_channel_recv(channel, &item);
}

static int reads_a_pipe(void *arg)
{
    (void)arg;
    return coir_fd_wait(pipe_ends[0], COIR_READ);
}

static int selects(void *arg)
{
    (void)arg;
    coir_case cases[] = {coir_case_after(1000 * COIR_S), coir_case_after(2000 * COIR_S)};
    return coir_select(cases, 2);
}

static int generates(coir_generator *generator, uint64_t first, void *arg)
{
    (void)generator, (void)first, (void)arg;
    int rc = coir_sleep_for(1000 * COIR_S);
    return rc < 0 ? -ECANCELED : 0;
}

static int drives_a_generator(void *arg)
{
    uint64_t value;
    coir_generator *generator;
    CHECK_EQ(coir_generator_new(generates, arg, &generator), 0);
    int rc = coir_generator_next(generator, 0, &value);
    coir_generator_free(generator);
    return rc;
}

static int opens_a_scope(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    go(scope, "child", 0, sleeps, NULL);
    return coir_scope_wait(scope);
}

/* A future that awaits another one. */
struct outer {
    coir_future future;
    coir_sleep_op op;
};
static coir_future *outer_poll(coir_future *future)
{
    struct outer *self = coir_frame(future, struct outer);
    COIR_BEGIN(future);
    COIR_AWAIT(future, coir_sleep_for_op(&self->op, 1000 * COIR_S));
    COIR_RETURN(future, self->op.future.result);
}
static const coir_future_kind outer_kind = COIR_FUTURE_KIND("an outer one", outer_poll, NULL);

/* A stackless task, and a fiber that awaits several futures at once. */
static struct outer alone, awaited;

static int awaits_both(void *arg)
{
    coir_sleep_op op;
    (void)arg;
    coir_branch branches[] = {COIR_BRANCH(coir_future_init(&awaited.future, &outer_kind)),
                              COIR_BRANCH(coir_sleep_for_op(&op, 1000 * COIR_S))};
    return coir_join_all(branches, 2, 0);
}

static const struct {
    const char *name;
    coir_task_fn *fn;
    const char *waits_for;
    const char *function; /* in its stack, where the compiler may not leave it out */
} kinds[] = {
    {"locker", locks, "waits for a mutex 0x", "take_the_mutex"},
    {"sleeper", sleeps, "waits for time", NULL},
    {"event", waits_for_an_event, "waits for an event 0x", "waits_for_an_event"},
    {"acquirer", acquires, "waits for a semaphore 0x", NULL},
    {"receiver", receives, "waits for an item of a channel 0x", "receives"},
    {"reader", reads_a_pipe, "waits for a descriptor (", NULL},
    {"selector", selects, "waits for several futures", "selects"},
    {"generator", drives_a_generator, "waits for time", "drives_a_generator"},
    {"parent", opens_a_scope, "waits for the tasks of a scope 0x", "opens_a_scope"},
    {"both", awaits_both, "waits for several futures", "awaits_both"},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* `each`: what is done while they wait; by a fiber of worker 0. */
static int start_all(void (*each)(void), int place)
{
    alone = awaited = (struct outer){0};
    CHECK_EQ(coir_mutex_lock(&mutex), 0);
    CHECK_EQ(coir_channel_new(sizeof(int), 1, &channel), 0);
    CHECK_EQ(pipe(pipe_ends), 0);
    {
        COIR_SERVING_SCOPE(scope);
        for (int i = 0; i < KINDS; i++)
            go(scope, kinds[i].name, place, kinds[i].fn, NULL);
        CHECK_EQ(coir_go_future(scope, coir_future_init(&alone.future, &outer_kind)), 0);
        each();
        coir_scope_cancel(scope);
    }
    coir_mutex_unlock(&mutex);
    coir_channel_free(channel);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    return 0;
}

/* The lines of one task. */
static const char *lines_of(const char *name)
{
    static char lines[1 << 14];
    char words[100];
    snprintf(words, sizeof words, "\n    %s 0x", name);
    expect_in(text, words);
    const char *begin = strstr(text, words) + 1, *end = begin;
    do
        end = strchr(end, '\n') + 1;
    while (strncmp(end, "      ", 6) == 0);
    CHECK((size_t)(end - begin) < sizeof lines);
    memcpy(lines, begin, (size_t)(end - begin));
    lines[end - begin] = '\0';
    return lines;
}

static void check_all(void)
{
    for (int i = 0; i < KINDS; i++) {
        const char *lines = lines_of(kinds[i].name);
        expect_in(lines, kinds[i].waits_for);
        if (kinds[i].function && ci_has_symbols) {
            expect_in(lines, kinds[i].function);
            expect_in(lines, "dump_call_test.c:");
        }
        CHECK(!strstr(lines, "ci_context_entry") && !strstr(lines, "fiber_main"));
    }
    expect_in(lines_of("event"), ", deadline in ");
    expect_in(lines_of("locker"), ", held by main 0x");
    expect_in(lines_of("acquirer"), "(wants 3, it has 0)");
    if (ci_has_symbols) {
        expect_in(lines_of("locker"), " (mutex), held by ");
        expect_in(lines_of("locker"), "\n        spawned by go at ");
        expect_in(lines_of("an outer one"), "\n        spawned by start_all at ");
    }
    expect_in(lines_of("parent"), "\n      child 0x");
    const char *both = lines_of("both");
    expect_in(both, "- a member:\n");
    expect_in(both, "an outer one, a future of ");
    if (ci_has_symbols)
        expect_in(lines_of("generator"), "generates at ");
    const char *stackless = lines_of("an outer one");
    expect_in(stackless, "waits for time");
    expect_in(stackless, "#0  time, a future of ");
    expect_in(stackless, "#1  an outer one, a future of ");
    CHECK_EQ(tasks_in_text(), 1 + KINDS + 1 + 1); /* main, the child and the stackless one */
}

static void dump_from_a_fiber(void)
{
    dump_of_all(COIR_DUMP_TEXT);
    check_all();
    expect_in(text, "\n  main 0x");
    expect_in(text, " runs\n");
    if (ci_has_symbols) {
        expect_in(after(" runs\n"), "#0  coir_dump");
        expect_in(after(" runs\n"), "start_all");
    }
}

static int start_here(void *arg)
{
    (void)arg;
    int rc = start_all(dump_from_a_fiber, COIR_HERE);
    return rc;
}

TEST(every_kind_of_task_is_shown)
{
    run(1, start_here, NULL);
}

static int start_remote(void *arg)
{
    (void)arg;
    return start_all(dump_from_a_fiber, COIR_ON_WORKER(1));
}

TEST(tasks_of_another_worker_are_shown)
{
    run(2, start_remote, NULL);
}

static void *dump_in_a_thread(void *arg)
{
    (void)arg;
    dump_of_all(COIR_DUMP_TEXT);
    check_all();
    expect_in(text, "\n  main 0x");
    return NULL;
}

static int dump_and_wait(void *arg)
{
    (void)arg;
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, dump_in_a_thread, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    return 0;
}

static void dump_from_a_thread(void)
{
    CHECK_EQ(coir_offload(dump_and_wait, NULL), 0);
}

static int start_for_a_thread(void *arg)
{
    (void)arg;
    return start_all(dump_from_a_thread, COIR_ON_WORKER(1));
}

TEST(a_plain_thread_may_ask)
{
    run(2, start_for_a_thread, NULL);
}

TEST(without_a_run_there_is_nothing)
{
    coir_runtime *runtime;
    CHECK_EQ(coir_runtime_new(NULL, &runtime), 0);
    dump(COIR_DUMP_TEXT);
    CHECK_EQ(tasks_in_text(), 0);
    coir_runtime_free(runtime);
    CHECK_EQ(coir_dump(-1, COIR_DUMP_TEXT), -EBADF);
}

/* ---- many alike ---- */

static int start_many(void *arg)
{
    (void)arg;
    COIR_SERVING_SCOPE(scope);
    for (int i = 0; i < 3000; i++)
        go(scope, i % 3 ? "one of many" : "one of others", COIR_HERE, i % 2 ? sleeps : acquires,
           NULL);
    dump_of_all(COIR_DUMP_TEXT);
    CHECK_EQ(tasks_in_text(), 3001);
    int folded = 0;
    for (const char *at = text; (at = strstr(at, " more: each")); at++)
        folded++;
    CHECK_EQ(folded, 4);
    expect_in(text, " and 999 more: each waits for a semaphore 0x");
    expect_in(text, " and 499 more: each waits for time");
    coir_scope_cancel(scope);
    expect_in(dump(COIR_DUMP_TEXT), ", cancelled (ECANCELED)\n");
    return 0;
}

TEST(tasks_that_do_the_same_are_counted)
{
    run(1, start_many, NULL);
}

/* ---- a descriptor that does not block ---- */

static void *read_late(void *arg)
{
    int *ends = arg;
    size_t len = 0;
    struct pollfd room = {.fd = ends[1], .events = POLLOUT};
    while (poll(&room, 1, 0) > 0) /* until the dump has filled it */
        sched_yield();
    for (ssize_t n = 1; n > 0; len += (size_t)n)
        CHECK((n = read(ends[0], text + len, sizeof text - 1 - len)) >= 0);
    text[len] = '\0';
    return NULL;
}

static int dump_to_a_full_pipe(void *arg)
{
    pthread_t reader;
    int ends[2];
    (void)arg;
    CHECK_EQ(pipe2(ends, O_NONBLOCK), 0);
    CHECK_EQ(fcntl(ends[0], F_SETFL, 0), 0);
    COIR_SERVING_SCOPE(scope);
    for (int i = 0; i < 1000; i++)
        go(scope, "one of many", COIR_HERE, acquires, NULL);
    CHECK_EQ(coir_yield(), 0);
    CHECK_EQ(pthread_create(&reader, NULL, read_late, ends), 0);
    CHECK_EQ(coir_dump(ends[1], COIR_DUMP_JSON), 0);
    close(ends[1]);
    CHECK_EQ(pthread_join(reader, NULL), 0);
    close(ends[0]);
    CHECK(strlen(text) > 100000 && strcmp(text + strlen(text) - 4, "]}}\n") == 0);
    coir_scope_cancel(scope);
    return 0;
}

TEST(a_descriptor_that_does_not_block_is_waited_for)
{
    run(1, dump_to_a_full_pipe, NULL);
}

/* ---- JSON ---- */

static void check_json(void)
{
    dump_of_all(COIR_DUMP_JSON);
    expect_in(text, "{\"threadDump\":{\"schema\":1,\"runtimeVersion\":\"coir ");
    expect_in(text, "\"name\":\"locker\",\"state\":\"waiting\"");
    expect_in(text, "\"waitsFor\":{\"kind\":\"a mutex\",\"object\":\"0x");
    expect_in(text, "\"parent\":null,\"owner\":null");
    expect_in(text, "\"deadlineSeconds\":");
    FILE *python = popen("python3 -c 'import json, sys\n"
                         "d = json.load(sys.stdin)[\"threadDump\"]\n"
                         "c = d[\"threadContainers\"]\n"
                         "t = {t[\"tid\"]: t for x in c for t in x[\"threads\"]}\n"
                         "ids = {x[\"container\"] for x in c}\n"
                         "assert len(t) == 13, len(t)\n"
                         "assert all(x[\"owner\"] is None or x[\"owner\"] in t for x in c)\n"
                         "assert all(x[\"parent\"] is None or x[\"parent\"] in ids for x in c)\n"
                         "assert all(y[\"stack\"] for y in t.values())\n"
                         "assert sorted(x[\"parent\"] is None for x in c) == [False, False, True]\n"
                         "'",
                         "w");
    CHECK(python != NULL);
    CHECK_EQ(fwrite(text, 1, strlen(text), python), strlen(text));
    CHECK_EQ(pclose(python), 0);
}

static int start_for_json(void *arg)
{
    (void)arg;
    return start_all(check_json, COIR_HERE);
}

TEST(programs_can_read_it)
{
    run(1, start_for_json, NULL);
}

/* ---- functions without debugging information ---- */

#if defined(__x86_64__)
/* Awaits a future by the library's own function, as if the public one had left no frame. */
int64_t await_without_lines(struct ci_worker *worker, coir_future *future);
__asm__(".text\n"
        ".globl await_without_lines\n"
        ".type await_without_lines, @function\n"
        "await_without_lines:\n"
        ".cfi_startproc\n"
        "sub $8, %rsp\n"
        ".cfi_adjust_cfa_offset 8\n"
        "call ci_await\n"
        "add $8, %rsp\n"
        ".cfi_adjust_cfa_offset -8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size await_without_lines, . - await_without_lines\n");

static __attribute__((noinline)) int call_it(void *arg)
{
    coir_sleep_op op;
    int64_t rc = await_without_lines(ci_worker_current, coir_sleep_for_op(&op, 100 * COIR_S));
    return arg ? 1 : (int)rc;
}

static int look_at_it(void *arg)
{
    (void)arg;
    COIR_SERVING_SCOPE(scope);
    go(scope, "without lines", COIR_HERE, call_it, NULL);
    CHECK_EQ(coir_yield(), 0);
    dump(COIR_DUMP_TEXT);
    const char *first = strstr(after("without lines 0x"), "#0 ");
    CHECK(first && strncmp(first, "#0  await_without_lines (", 25) == 0);
    coir_scope_cancel(scope);
    return 0;
}

TEST(a_function_of_the_program_without_debugging_information_is_the_first)
{
    if (ci_has_symbols)
        run(1, look_at_it, NULL);
}
#endif

/* ---- workers that do not answer ---- */

static bool seen;

static __attribute__((noinline)) int spin_until_it_is_seen(void *arg)
{
    (void)arg;
    while (!ci_load(&seen))
        (void)coir_now(); /* where TSan lets signals in */
    return 0;
}

static int dump_a_spinning_worker(void *arg)
{
    const char *name = arg;
    char begins[100];
    COIR_SCOPE(scope);
    ci_store(&seen, false);
    go(scope, name, COIR_ON_WORKER(1), spin_until_it_is_seen, NULL);
    snprintf(begins, sizeof begins, "worker 1 does not answer; it runs %s\n",
             name             ? name
             : ci_has_symbols ? "spin_until_it_is_seen"
                              : "");
    while (!strstr(dump(COIR_DUMP_TEXT), begins) ||
           (ci_has_symbols && !strstr(after(begins), "spin_until_it_is_seen at ")))
        continue; /* it had not begun, or a loaded machine was late */
    expect_in(dump(COIR_DUMP_JSON), "\"answered\":false,");
    ci_store(&seen, true);
    return coir_scope_wait(scope);
}

TEST(a_worker_that_spins_is_shown_with_its_stack)
{
    coir_config config = COIR_CONFIG;
    config.workers = 2;
    CHECK_EQ(test_run(&config, dump_a_spinning_worker, "spinner"), 0);
    CHECK_EQ(test_run(&config, dump_a_spinning_worker, NULL), 0);
}

/* ---- at any time ---- */

static int32_t ended;

static void *dump_until_the_end(void *arg)
{
    int null = open("/dev/null", O_WRONLY);
    for (int i = 0; !ci_load(&ended) || i < 3; i++)
        CHECK_EQ(coir_dump(null, i % 2 ? COIR_DUMP_TEXT : COIR_DUMP_JSON), 0);
    close(null);
    return arg;
}

static int work(void *arg)
{
    (void)arg;
    for (int i = 0; i < 5; i++)
        if (coir_yield() < 0 || coir_mutex_lock(&mutex) < 0)
            return 0;
        else
            coir_mutex_unlock(&mutex);
    return coir_sleep_for(10 * COIR_US);
}

static int spawn_much(void *arg)
{
    int *rounds = arg;
    int null = open("/dev/null", O_WRONLY);
    for (int i = 0; i < *rounds; i++) {
        COIR_SCOPE(scope);
        for (int j = 0; j < 20; j++)
            go(scope, "worker", j % 3 ? j % 3 == 1 ? COIR_ANYWHERE : COIR_ON_WORKER(1) : COIR_HERE,
               work, NULL);
        if (i % 8 == 0)
            CHECK_EQ(coir_dump(null, COIR_DUMP_TEXT), 0);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    close(null);
    return 0;
}

/* Two threads ask while runtimes begin, work, ask as well, and end. */
TEST(runtimes_may_begin_and_end_meanwhile)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, dump_until_the_end, NULL), 0);
    for (int rounds = 0; rounds < 24; rounds++)
        run(2, spawn_much, &rounds);
    ci_store(&ended, true);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

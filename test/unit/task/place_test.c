/* Where tasks wait, and where they were spawned. */
#include "task/place.h"

#include <coir.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "sys/symbol.h"
#include "task/runtime.h"

static char text[CI_PLACE_TEXT];
static coir_event event = COIR_EVENT_INIT;

static __attribute__((noinline)) int wait_in_here(void)
{
    int rc = coir_event_wait(&event);
    return rc < 0 ? rc : 0;
}

static int wait_in_a_task(void *arg)
{
    int rc = wait_in_here();
    return arg ? 1 : rc;
}

static const struct ci_task *first_of(coir_scope *scope)
{
    return ci_container_of(ci_scope_of(scope)->tasks.next, const struct ci_task, sibling);
}

static void expect_place(const char *function)
{
    char words[100];
    snprintf(words, sizeof words, "%s at ", function);
    if (ci_has_symbols &&
        (strncmp(text, words, strlen(words)) != 0 || !strstr(text, "place_test.c:")))
        test_fail(__FILE__, __LINE__, "not %s, but: %s", function, text);
}

static __attribute__((noinline)) void spawn(coir_scope *scope)
{
    CHECK_EQ(coir_go(scope, wait_in_a_task, NULL), 0);
}

/* The function from which on a stack is shown, by its number. */
static int first_shown(const char *const functions[], int count)
{
    struct ci_place_search search = {.found = -1};
    for (int i = 0; i < count && !search.over; i++)
        ci_place_search(&search, functions[i]);
    return search.found;
}

TEST(a_stack_is_shown_from_the_public_function_or_the_program_on)
{
    char own[200];
    int len = (int)(strlen(__FILE__) - strlen("test/unit/task/place_test.c"));
    snprintf(own, sizeof own, "park at %.*ssrc/task/fiber.c:2\n", len, __FILE__);
    static const char jump[] = "ci_context_jump (a+0x1)\n", entry[] = "fiber_main (a+0x1)\n",
                      bare[] = "take (a+0x2)\n", other[] = "start (a+0x3)\n",
                      call[] = "coir_mutex_lock (a+0x4)\n", main_file[] = "start at main.c:3\n",
                      unknown[] = "? (a+0x5)\n";
    CHECK_EQ(first_shown((const char *[]){jump, own, call, main_file}, 4), 2);
    CHECK_EQ(first_shown((const char *[]){jump, own, main_file, call}, 4), 2);
    CHECK_EQ(first_shown((const char *[]){jump, own, bare, call}, 4), 2);
    CHECK_EQ(first_shown((const char *[]){jump, own, bare, other, entry}, 5), 2);
    CHECK_EQ(first_shown((const char *[]){jump, bare, call, other, entry}, 5), 2);
    CHECK_EQ(first_shown((const char *[]){jump, unknown, bare, other, entry}, 5), 2);
    CHECK_EQ(first_shown((const char *[]){jump, bare, jump, other, entry}, 5), 3);
    CHECK_EQ(first_shown((const char *[]){unknown, unknown, entry, call}, 4), -1);
}

TEST(static_functions_of_coir_are_its_own)
{
    char line[200];
    size_t len = strlen(__FILE__) - strlen("test/unit/task/place_test.c");
    CHECK(ci_place_is_own("coir_yield at other.c:3\n") &&
          ci_place_is_own("ci_wake (libcoir.so+0x1)"));
    CHECK(!ci_place_is_own("main at src/task/main.d/main.c:3") || !len);
    snprintf(line, sizeof line, "queue_and_park at %.*ssrc/sync/channel.c:214\n", (int)len,
             __FILE__);
    CHECK(ci_place_is_own(line));
    snprintf(line, sizeof line, "queue_and_park at /b/%.*ssrc/sync/channel.c:214\n", (int)len,
             __FILE__);
    CHECK(ci_place_is_own(line));
    snprintf(line, sizeof line, "start at %.*ssrc/server/main.c:12\n", (int)len, __FILE__);
    CHECK(!ci_place_is_own(line));
}

TEST_REAL(a_fiber_waits_in_the_function_that_has_called_coir)
{
    COIR_SCOPE(scope);
    spawn(scope);
    ci_place_of_task(first_of(scope), text);
    CHECK(!*text); /* it has not begun */
    CHECK_EQ(coir_yield(), 0);
    ci_place_of_task(first_of(scope), text);
    expect_place("wait_in_here");
    ci_place_of_call(first_of(scope)->spawned_at, text);
    expect_place("spawn");
    ci_place_of_call(NULL, text);
    CHECK(!*text);
    coir_event_set(&event);
    CHECK_EQ(coir_scope_wait(scope), 0);
}

static coir_future *frame_poll(coir_future *future)
{
    static coir_wait_op op;
    COIR_BEGIN(future);
    COIR_AWAIT(future, coir_event_wait_op(&op, &event));
    COIR_RETURN(future, 0);
    COIR_END(future);
}

static const coir_future_kind frame_kind = COIR_FUTURE_KIND("a frame", frame_poll, NULL);

TEST_REAL(a_task_without_a_stack_waits_in_its_outermost_future)
{
    coir_future frame;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go_future(scope, coir_future_init(&frame, &frame_kind)), 0);
    CHECK_EQ(coir_yield(), 0);
    ci_place_of_task(first_of(scope), text);
    expect_place("frame_poll");
    coir_event_set(&event);
    CHECK_EQ(coir_scope_wait(scope), 0);
}

/* Task-locals: into children, and wherever else a request is served. */
#include <coir.h>
#include <fcntl.h>
#include <string.h>

#include "harness.h"

static const char user_key, trace_key;

static int child_of_locals(void *arg)
{
    (void)arg;
    CHECK(strcmp(coir_local_get(&user_key), "ann") == 0);
    coir_local_set(&user_key, "child");
    CHECK(strcmp(coir_local_get(&user_key), "child") == 0);
    CHECK(strcmp(coir_task_name(), "kid") == 0);
    return 0;
}

TEST_SIM(locals_follow_into_children)
{
    CHECK(coir_local_get(&user_key) == NULL);
    CHECK_EQ(coir_local_set(&user_key, "bob"), 0);
    CHECK_EQ(coir_local_set(&user_key, "ann"), 0);
    COIR_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = "kid";
    coir_go_with(scope, &options, child_of_locals, NULL);
    coir_scope_wait(scope);
    CHECK(strcmp(coir_local_get(&user_key), "ann") == 0);
    CHECK(coir_local_get(&trace_key) == NULL);
    coir_task_set_name("renamed");
    CHECK(strcmp(coir_task_name(), "renamed") == 0);
}

/* ---- the context of a request follows it wherever it is served ---- */

enum { REQUESTS = 8 };

/* A request: its context is its own address, and nothing else may be found by the key. */
struct request {
    int hops; /* places in which the context was found */
    coir_event posted;
};

static bool is_context(const struct request *request)
{
    return coir_local_get(&trace_key) == request;
}

static int check_here(void *arg)
{
    struct request *request = arg;
    CHECK(is_context(request));
    __atomic_add_fetch(&request->hops, 1, __ATOMIC_RELAXED);
    return 0;
}

static int check_in_child_scope(void *arg)
{
    int count = (int)coir_worker_count(coir_runtime_current());
    COIR_SCOPE(scope);
    for (int i = 0; i < count; i++)
        CHECK_EQ(coir_go_on(scope, i, check_here, arg), 0);
    CHECK_EQ(coir_go_anywhere(scope, check_here, arg), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    return check_here(arg);
}

static int check_and_tell(void *arg)
{
    check_here(arg);
    coir_event_set(&((struct request *)arg)->posted);
    return 0;
}

/* A posted call is in no task, and what it spawns is of the request all the same. */
static void check_in_post(void *arg)
{
    check_here(arg);
    CHECK_EQ(coir_go(NULL, check_and_tell, arg), 0);
}

static int serve_request(void *arg)
{
    struct request *request = arg;
    int count = (int)coir_worker_count(coir_runtime_current()), expected = 0;
    CHECK(!coir_local_get(&trace_key));
    CHECK_EQ(coir_local_set(&trace_key, request), 0);
    for (int i = 0; i < count; i++) {
        COIR_SCOPE(scope);
        CHECK_EQ(coir_call_on(i, check_here, request), 0);
        CHECK_EQ(coir_go_on(scope, i, check_in_child_scope, request), 0);
        CHECK_EQ(coir_scope_wait(scope), 0);
        expected += 1 + count + 1 + 1;
        CHECK_EQ(coir_runtime_post(coir_runtime_current(), i, check_in_post, request), 0);
        /* the post has the context of its time */
        CHECK_EQ(coir_local_set(&trace_key, &expected), 0);
        CHECK_EQ(coir_event_wait(&request->posted), 0);
        coir_event_reset(&request->posted);
        CHECK_EQ(coir_local_set(&trace_key, request), 0);
        expected += 2;
        CHECK_EQ(coir_offload(check_here, request), 0);
        expected += 1;
    }
    CHECK_EQ(__atomic_load_n(&request->hops, __ATOMIC_RELAXED), expected);
    return 0;
}

static void serve_requests(void)
{
    struct request requests[REQUESTS] = {{0}};
    int count = (int)coir_worker_count(coir_runtime_current());
    COIR_SCOPE(scope);
    for (int i = 0; i < REQUESTS; i++)
        CHECK_EQ(coir_go_on(scope, i % count, serve_request, &requests[i]), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK(!coir_local_get(&trace_key));
}

TEST(the_context_of_a_request_follows_it)
{
    test_in_runtime(serve_requests, 3);
    for (uint64_t seed = 1; seed <= 20; seed++)
        test_in_sim(serve_requests, 3, seed);
}

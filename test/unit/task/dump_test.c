/* The list of tasks and what each of them waits for. */
#include "task/dump.h"

#include <coir.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"

static char listed[1000];

static void list(void *arg, int depth, const char *name, const char *waits_for, int cancelled,
                 const struct ci_task *task)
{
    (void)task;
    size_t len = strlen(listed);
    CHECK(!arg);
    snprintf(listed + len, sizeof listed - len, "%d %s: %s%s\n", depth, name, waits_for,
             cancelled ? "!" : "");
}

static int nap(void *arg)
{
    (void)arg;
    return coir_sleep_for(COIR_S);
}

static int choose(void *arg)
{
    (void)arg;
    coir_case cases[] = {coir_case_after(COIR_S), coir_case_after(COIR_S)};
    return coir_select(cases, 2);
}

static void go(coir_scope *scope, const char *name, coir_task_fn *fn)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = name;
    CHECK_EQ(coir_go_with(scope, &options, fn, NULL), 0);
}

static int look(void *arg)
{
    COIR_SCOPE(scope);
    go(scope, "napper", nap);
    go(scope, "chooser", choose);
    CHECK_EQ(coir_yield(), 0);
    go(scope, NULL, nap);
    coir_scope_cancel(scope);
    ci_runtime_dump(*(coir_runtime **)arg, list, NULL);
    return 0;
}

TEST(tasks_are_listed_with_their_scopes_and_waits)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    coir_runtime *runtime;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    CHECK_EQ(coir_runtime_run(runtime, look, &runtime), 0);
    coir_runtime_free(runtime);
    CHECK(strstr(listed, "0 main: nothing: it runs\n") == listed);
    CHECK(strstr(listed, "\n1 chooser: "));
    CHECK(strstr(listed, "!\n1 (without a name): not started!\n") ||
          strstr(listed, "\n1 (without a name): not started!\n"));
}

static int open_a_scope(void *arg)
{
    COIR_SCOPE(scope);
    (void)arg;
    go(scope, "child of a member", nap);
    return coir_scope_wait(scope);
}

static int wait_for_members(void *arg)
{
    coir_call calls[2];
    coir_branch branches[2];
    (void)arg;
    memset(branches, 0, sizeof branches);
    for (int i = 0; i < 2; i++)
        branches[i].future = coir_call_init(&calls[i], i ? nap : open_a_scope, NULL);
    return coir_join_all(branches, 2, 0);
}

TEST_SIM(tasks_of_scopes_that_members_opened_are_listed)
{
    COIR_SCOPE(scope);
    go(scope, "joiner", wait_for_members);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    ci_runtime_dump(coir_runtime_current(), list, NULL);
    CHECK(strstr(listed, "\n1 joiner: all of "));
    CHECK(strstr(listed, "\n2 child of a member: time\n"));
    coir_scope_cancel(scope);
}

/* A simulated worker does nothing while another one is in its turn. */
static void look_at_a_traveller(void)
{
    COIR_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = "traveller";
    options.place = COIR_ON_WORKER(1);
    CHECK_EQ(coir_go_with(scope, &options, nap, NULL), 0);
    coir_scope_cancel(scope);
    ci_runtime_dump(coir_runtime_current(), list, NULL);
    CHECK(strstr(listed, "1 traveller: a message to another worker"));
}

TEST(a_task_on_its_way_to_another_worker_is_listed_as_that)
{
    test_in_sim(look_at_a_traveller, 2, 1);
}

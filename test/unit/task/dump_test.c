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

/* A task that ends inside of a scope, deadline or shield: the report says which task, and what it
 * has not left. */
#include "task/left_open.h"

#include <coir.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sanitizer.h"
#include "harness.h"
#include "sys/symbol.h"

/* What a function leaves behind on its stack is gone soon with sanitizers. */
static const bool overwrites_stacks = CI_ASAN || CI_TSAN;

static __attribute__((noinline)) int leave_a_scope_open(void *arg)
{
    coir_scope scope;
    coir_scope_open(&scope);
    return arg ? 1 : 0;
}

static int leave_a_shield(void *arg)
{
    coir_cancel_scope shield;
    coir_shield_enter(&shield);
    return arg ? 1 : 0;
}

static int spawn(void *arg)
{
    coir_task_fn *const *fn = arg;
    COIR_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = "leaky\n";
    CHECK_EQ(coir_go_with(scope, &options, *fn, NULL), 0);
    return coir_scope_wait(scope);
}

/* What a child says before it aborts. */
static const char *said_by(coir_task_fn *fn)
{
    static char text[4096];
    int ends[2], status;
    CHECK_EQ(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        dup2(ends[1], STDERR_FILENO);
        coir_main(spawn, &fn);
        _exit(0);
    }
    close(ends[1]);
    size_t len = 0;
    for (ssize_t n; (n = read(ends[0], text + len, sizeof text - 1 - len)) > 0;)
        len += (size_t)n;
    text[len] = '\0';
    close(ends[0]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    return text;
}

static void expect(const char *text, const char *words)
{
    if (!strstr(text, words))
        test_fail(__FILE__, __LINE__, "not found: %s\nin: %s", words, text);
}

TEST(a_scope_is_named_with_its_task)
{
    const char *text = said_by(leave_a_scope_open);
    expect(text, "coir: task leaky?");
    expect(text, " ended inside of ");
    if (ci_has_symbols) {
        expect(text, "coir: task leaky?, spawned by spawn at ");
        expect(text, "left_open_test.c:");
    }
    if (ci_has_symbols && !overwrites_stacks)
        expect(text, "inside of a task scope, opened by leave_a_scope_open at ");
    expect(text, ": close it first\n");
}

TEST(so_is_a_shield)
{
    const char *text = said_by(leave_a_shield);
    expect(text, "coir: task leaky?");
    if (!overwrites_stacks)
        expect(text, " ended inside of the block of a shield: close it first\n");
}

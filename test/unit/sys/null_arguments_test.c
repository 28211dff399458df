/* Every public function with NULL for each of its pointer arguments in turn (see null_calls): where
 * NULL has no meaning the call is named, with the argument; none ends the program or hangs. */
#include <coir.h>
#include <coir/debug.h>
#include <coir/fastcgi.h>
#include <coir/sse.h>
#include <coir/tls.h>
#include <coir/ws.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "sys/misuse.h"

struct call {
    const char *function, *parameter;
    void (*make)(void);
};

/* What the other arguments point at. */
static _Alignas(64) max_align_t zeroes[512];
#define ZEROES ((void *)zeroes)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-security"
#include "null_calls.h"
#pragma GCC diagnostic pop

enum { CALLS = sizeof calls / sizeof *calls, LIMIT_S = 5 };

/* Where NULL has a meaning: in any function, and in these. */
static const char *const may_be_null[] = {"arg",          "options",   "ret_len", "ret_done",
                                          "content_type", "interface", "dir",     "to_dir"};
static const char *const may_be_null_in[] = {
    "coir_block_on.runtime",
    "coir_buffer_unref.buffer",
    "coir_buffer_wrap.free_data",
    "coir_case_line.ret_len",
    "coir_completion_start.scope",
    "coir_defer_disarm.fn",
    "coir_filter_arg.kind",
    "coir_filter_arg.stream",
    "coir_generator_yield.ret_sent",
    "coir_go.scope",
    "coir_go_anywhere.scope",
    "coir_go_future.scope",
    "coir_go_future_with.scope",
    "coir_go_on.scope",
    "coir_go_with.scope",
    "coir_local_get.key",
    "coir_local_set.key",
    "coir_local_set.value",
    "coir_loop_observe.fn",
    "coir_pty_open.size",
    "coir_route_debug.page",
    "coir_runtime_new.config",
    "coir_sim_configure.config",
    "coir_sim_run.ret_result",
    "coir_sim_set_faults.host",
    "coir_sim_set_link.a",
    "coir_sim_set_link.b",
    "coir_task_set_name.name",
    "coir_tls_unref.tls",
    "coir_udp_open.peer",
    "coir_udp_recv.from",
    "coir_udp_recv_op.from",
    "coir_udp_send_to.to",
    "coir_udp_send_to_op.to",
    "coir_ws_message_unref.message",
};

/* Where only debug builds look: their time would grow by more than a hundredth. */
static const char *const in_debug_builds[] = {
    "coir_case_recv.channel",    "coir_case_recv.item",       "coir_case_send.channel",
    "coir_case_send.item",       "coir_channel_recv.channel", "coir_channel_recv.item",
    "coir_channel_send.channel", "coir_channel_send.item",    "coir_mutex_lock.mutex",
    "coir_mutex_unlock.mutex",
};

static bool is_one_of(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}
#define IS_ONE_OF(name, names) is_one_of(name, names, sizeof names / sizeof *names)

/* What frees or closes takes NULL. */
static bool frees(const char *function)
{
    const char *verb = strrchr(function, '_');
    static const char *const verbs[] = {"_free", "_close", "_done", "_remove"};
    return IS_ONE_OF(verb, verbs);
}

static bool is_allowed(const struct call *call)
{
    char name[100];
    snprintf(name, sizeof name, "%s.%s", call->function, call->parameter);
    return frees(call->function) || IS_ONE_OF(call->parameter, may_be_null) ||
           IS_ONE_OF(name, may_be_null_in) || (!CI_DEBUG && IS_ONE_OF(name, in_debug_builds));
}

/* ---- in the child ---- */

static struct {
    size_t at; /* the call that is being made */
    int failed;
} * shared;

static char heard[1000];

static bool hear(const coir_runtime *runtime, const char *line)
{
    (void)runtime;
    if (line)
        snprintf(heard, sizeof heard, "%s", line);
    return true;
}

/* Whether the line names the call and, as a word, the argument. */
static bool is_named(const struct call *call)
{
    char start[100];
    int len = snprintf(start, sizeof start, "misuse: %s: ", call->function);
    if (strncmp(heard, start, (size_t)len) != 0)
        return false;
    for (const char *at = heard + len; (at = strstr(at, call->parameter)); at++)
        if (at[-1] == ' ' && strchr(" ,", at[strlen(call->parameter)]))
            return true;
    return false;
}

static int make_calls(void *in_fiber)
{
    for (; shared->at < CALLS; shared->at++) {
        const struct call *call = &calls[shared->at];
        if (is_allowed(call))
            continue;
        memset(zeroes, 0, sizeof zeroes);
        heard[0] = '\0';
        alarm(LIMIT_S);
        call->make();
        alarm(0);
        if (in_fiber && !is_named(call)) {
            shared->failed++;
            fprintf(stderr, "%s: %s is NULL: not named: %s\n", call->function, call->parameter,
                    heard);
        }
    }
    return 0;
}

static int run(int (*body)(void *arg))
{
    ci_misuse_aborts = false;
    ci_misuse_log = hear;
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    coir_runtime *runtime;
    if (!body)
        return make_calls(NULL);
    int rc = coir_runtime_new(&config, &runtime);
    return rc < 0 ? rc : coir_runtime_run(runtime, body, runtime);
}

/* ---- in the parent ---- */

static void make_all(int (*body)(void *arg))
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    for (; shared->at < CALLS; shared->at++) {
        int status;
        fflush(NULL);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            signal(SIGABRT, SIG_DFL);
            signal(SIGSEGV, SIG_DFL);
            _exit(run(body) != 0);
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        if (status == 0)
            break;
        shared->failed++;
        fprintf(stderr, "%s: %s is NULL: signal %d\n", calls[shared->at].function,
                calls[shared->at].parameter, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }
    CHECK_EQ(shared->at, CALLS);
    CHECK_EQ(shared->failed, 0);
}

TEST(a_fiber_that_passes_null_is_told_the_call_and_the_argument)
{
    make_all(make_calls);
}

TEST(a_plain_thread_may_pass_null)
{
    make_all(NULL);
}

/* Runtimes that threads of one program start, run again, stop and free, beside the host's own; in
 * each, calls that are offloaded to a bounded pool. Only over the simulated kernel, which has
 * threads.
 *
 * What must hold:
 * 1. A run ends, with 0, or with -ECANCELED where it was stopped; every task that was spawned has
 *    ended by then. Nothing of a runtime is left when it is freed (the host's audit).
 * 2. An offloaded call is made once, or not at all where it was refused (-EAGAIN) or withdrawn
 *    (-ECANCELED, -ETIME); no more run at a time than there may be threads; each ends soon.
 * 3. Its task goes on on the worker that it was on.
 * 4. A configuration that cannot be is refused with -EINVAL, and one line of the log names what is
 *    wrong.
 * 5. What is posted as a run ends is called once; what it spawns has run when the run ends, or is
 *    refused: with -COIR_EENDED, or -ESRCH once the worker's thread has ended.
 * 6. A watch of a worker's loop that is not stopped at the end of a run is called for what comes in
 *    the next one, on the worker that it was on.
 * 7. Each failure of a task in the background is logged once, with its name, and so is each line
 *    that a task logs, whole or cut. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { USERS = 2, RUNS = 2, TASKS_MOST = 5, CALLS_MOST = 4, POSTS = 3, LINE_MOST = 511 };
static const coir_time patience = 20 * COIR_S;

static coir_time some_time(void)
{
    return (coir_time)below((uint64_t)(2 * COIR_MS) >> below(8));
}

/* One runtime, and what has happened in it. */
struct user {
    coir_runtime *runtime;
    size_t threads_max;
    int begun, ended, running;
    int failed, failures_logged, said, heard;
    bool stopped, posts_late;
    coir_watch watch; /* of the loop of the first worker, from one run to the next */
    bool watches;
    int ends[2], heard_bytes;
    struct late {
        struct user *user;
        coir_handle handle;
        int called;
    } late[POSTS];
};

/* ---- what is logged ---- */

static const char said[] = "said by a task: ", failing[] = "one that fails";

/* Lines of this file's own tasks, and of their failures; the library may log others. */
static void hear(enum coir_log_level level, const char *line, void *arg)
{
    struct user *user = arg;
    MUST(strlen(line) <= LINE_MOST);
    if (strncmp(line, said, strlen(said)) == 0) {
        size_t len = (size_t)atoi(line + strlen(said));
        MUST_BE(level, COIR_LOG_INFO);
        MUST_BE(strlen(line), len < LINE_MOST ? len : LINE_MOST);
        user->heard++;
    }
    if (strstr(line, failing)) {
        MUST_BE(level, COIR_LOG_WARNING);
        MUST(strstr(line, coir_strerror(-EPROTO)));
        user->failures_logged++;
    }
}

static void say_something(struct user *user)
{
    static const char dots[] = "..................................................";
    char text[700];
    size_t len = strlen(said) + 4 + below(sizeof text - strlen(said) - 8);
    snprintf(text, sizeof text, "%03d ", (int)len);
    for (size_t at = 4; at < len - strlen(said); at++)
        text[at] = dots[at % (sizeof dots - 1)];
    text[len - strlen(said)] = '\0';
    user->said++;
    coir_log(COIR_LOG_INFO, "%s%s", said, text);
}

/* ---- configurations ---- */

static void count_refusal(enum coir_log_level level, const char *line, void *arg)
{
    const char **field = arg;
    MUST_BE(level, COIR_LOG_ERROR);
    MUST(*field && strstr(line, *field));
    *field = NULL; /* only once */
}

static void refuse_one(void)
{
    coir_config config = COIR_CONFIG;
    const char *field = "";
    coir_runtime *runtime = NULL;
    config.log = count_refusal;
    config.log_arg = &field;
    switch (below(12)) {
    case 0: config.workers = 1025 + below(1000), field = "workers"; break;
    case 1: config.stack_size = SIZE_MAX / (1 + below(3)), field = "stack_size"; break;
    case 2: config.budget = (size_t)INT32_MAX + 1 + below(9), field = "budget"; break;
    case 3: config.offload_threads_max = 65537 + below(9), field = "offload_threads_max"; break;
    case 4: config.name_threads_max = 1025 + below(9), field = "name_threads_max"; break;
    case 5: config.deadlock = COIR_DEADLOCK_END + 1, field = "deadlock"; break;
    case 6: config.drain_timeout = -1 - (coir_time)below(9), field = "drain_timeout"; break;
    case 7: config.slow_turn = -1, field = "slow_turn"; break;
    case 8: config.name_cache_time = -1, field = "name_cache_time"; break;
    case 9: config.driver = "epool", field = "epool"; break;
    case 10: config.resolver = "nobody", field = "nobody"; break;
    default: config.name_servers = "192.0.2.1", field = "name_servers"; break;
    }
    MUST_BE(coir_runtime_new(&config, &runtime), -EINVAL);
    MUST(!runtime && !field);
}

/* ---- offloaded calls ---- */

struct call {
    struct user *user;
    int made;
};

static int work(void *arg)
{
    struct call *call = arg;
    struct user *user = call->user;
    MUST_BE(call->made++, 0);
    MUST((size_t)++user->running <= user->threads_max);
    for (uint64_t steps = below(20); steps; steps--)
        usleep((useconds_t)(some_time() / COIR_US));
    user->running--;
    return 7;
}

static int offload_one(struct user *user)
{
    struct call call = {user, 0};
    int worker = coir_worker_index(), rc;
    if (below(3)) {
        rc = coir_offload(work, &call);
    } else {
        COIR_DEADLINE(coir_in(some_time()));
        rc = coir_offload(work, &call);
    }
    MUST(rc == 7 || rc == -EAGAIN || rc == -ETIME || (rc == -ECANCELED && user->stopped));
    MUST_BE(call.made, rc == 7);
    MUST_BE(coir_worker_index(), worker);
    return rc == -ECANCELED ? rc : 0;
}

/* ---- what runs in a runtime ---- */

static int be_a_task(void *arg)
{
    struct user *user = arg;
    int rc = coir_sleep_for(some_time());
    for (uint64_t calls = below(CALLS_MOST); rc == 0 && calls; calls--)
        rc = offload_one(user);
    MUST(rc == 0 || (rc == -ECANCELED && user->stopped));
    user->ended++;
    return rc;
}

static int stop_it(void *arg)
{
    struct user *user = arg;
    int rc = coir_sleep_for(some_time());
    if (rc == 0) {
        user->stopped = true;
        coir_runtime_stop(coir_runtime_current());
    }
    user->ended++;
    return rc;
}

static int fail(void *arg)
{
    struct user *user = arg;
    int rc = coir_sleep_for(some_time());
    user->ended++;
    if (rc == 0)
        user->failed++;
    return rc < 0 ? rc : -EPROTO;
}

/* An argument that is copied. */
struct copied {
    struct user *user;
    char rest[40];
};

static int be_a_task_of_a_copy(void *arg)
{
    const struct copied *copied = arg;
    return be_a_task(copied->user);
}

/* The run may have ended. */
static void spawn_late(void *arg)
{
    struct late *late = arg;
    struct user *user = late->user;
    coir_go_options options = COIR_GO_OPTIONS;
    int workers = (int)coir_worker_count(user->runtime);
    MUST_BE(late->called++, 0);
    options.place = below(2) ? COIR_HERE : COIR_ON_WORKER((int)below((uint64_t)workers));
    options.handle = &late->handle;
    user->begun++;
    int rc;
    if (below(2)) {
        struct copied copied = {.user = user};
        options.copy_size = sizeof copied;
        rc = coir_go_with(NULL, &options, be_a_task_of_a_copy, &copied);
    } else {
        rc = coir_go(NULL, be_a_task, user);
    }
    if (rc == 0)
        return;
    MUST(rc == -COIR_EENDED || rc == -ESRCH || (rc == -ECANCELED && user->stopped));
    user->begun--;
}

static void post_some(struct user *user)
{
    for (int i = 0; i < POSTS; i++) {
        int worker = (int)below(coir_worker_count(user->runtime));
        user->late[i] = (struct late){.user = user};
        MUST_BE(coir_runtime_post(user->runtime, worker, spawn_late, &user->late[i]), 0);
    }
}

static int run_tasks(struct user *user)
{
    COIR_SCOPE(scope);
    int rc = 0;
    for (uint64_t tasks = below(TASKS_MOST); rc == 0 && tasks; tasks--) {
        user->begun++;
        rc = coir_go_anywhere(scope, below(6) ? be_a_task : stop_it, user);
        if (rc < 0)
            user->begun--;
    }
    if (rc == 0 && below(3) == 0) { /* in the background: it may outlive this task */
        user->begun++;
        if (coir_go(NULL, be_a_task, user) < 0)
            user->begun--;
    }
    if (rc == 0 && below(3) == 0) {
        coir_go_options options = COIR_GO_OPTIONS;
        options.name = failing;
        user->begun++;
        if (coir_go_with(NULL, &options, fail, user) < 0)
            user->begun--;
    }
    for (uint64_t lines = below(3); lines; lines--)
        say_something(user);
    int waited = coir_scope_wait(scope);
    return rc < 0 ? rc : waited;
}

/* ---- a watch that outlasts a run ---- */

static void on_byte(coir_loop *loop, coir_watch *watch, int events, void *arg)
{
    struct user *user = arg;
    char byte;
    MUST(loop == coir_worker_loop() && watch == &user->watch);
    MUST(events & COIR_READ);
    user->heard_bytes += read(user->ends[0], &byte, 1) == 1;
}

static void start_watch(struct user *user)
{
    int rc;
    MUST_BE(pipe2(user->ends, O_NONBLOCK), 0);
    while ((rc = coir_watch_start(coir_worker_loop(), &user->watch, user->ends[0], COIR_READ,
                                  on_byte, user)) == -ENOMEM)
        usleep(100);
    MUST_BE(rc, 0);
    user->watches = true;
}

static void stop_watch(struct user *user)
{
    coir_watch_stop(coir_worker_loop(), &user->watch);
    user->watches = false;
    close(user->ends[0]);
    close(user->ends[1]);
}

/* A byte comes, or has come between the runs. */
static int hear_byte(void *arg)
{
    struct user *user = arg;
    bool written = user->heard_bytes < 0;
    user->heard_bytes = 0;
    if (!written)
        MUST_BE(write(user->ends[1], "x", 1), 1);
    int rc = 0;
    for (int looks = 0; rc == 0 && !user->heard_bytes; looks++) {
        MUST(looks < 1000); /* 6 */
        rc = coir_sleep_for(COIR_MS);
    }
    stop_watch(user);
    return rc;
}

static int first_task(void *arg)
{
    struct user *user = arg;
    MUST(coir_runtime_current() == user->runtime && coir_worker_loop());
    int rc = user->watches ? hear_byte(user) : 0;
    rc = rc < 0 ? rc : run_tasks(user);
    if (below(12) == 0)
        start_watch(user);
    if (user->posts_late)
        post_some(user);
    return rc;
}

/* On a thread of its own. */
static int use_runtime(void *arg)
{
    static const char *const drivers[] = {"epoll", "io_uring", "poll", "kqueue"};
    struct user user = {.threads_max = 1 + below(3)};
    coir_config config = COIR_CONFIG;
    (void)arg;
    config.driver = drivers[below(4)];
    config.workers = 1 + below(3);
    config.offload_threads_max = user.threads_max;
    config.offload_queue_max = below(2) ? COIR_UNLIMITED : 1 + below(2);
    config.log = hear;
    config.log_arg = &user;
    if (below(2))
        refuse_one();
    MUST_BE(coir_runtime_new(&config, &user.runtime), 0);
    for (int i = 0; i < RUNS; i++) {
        coir_time begin = coir_now();
        if (user.watches && below(2)) {
            MUST_BE(write(user.ends[1], "x", 1), 1);
            user.heard_bytes = -1;
        }
        user.stopped = false;
        user.posts_late = below(2);
        int rc = coir_runtime_run(user.runtime, first_task, &user);
        MUST(rc == 0 || (rc == -ECANCELED && user.stopped));
        MUST_BE(user.ended, user.begun);
        MUST_BE(user.running, 0);
        for (int j = 0; user.posts_late && j < POSTS; j++)
            MUST_BE(user.late[j].called, 1);
        MUST_BE(user.failures_logged, user.failed);
        MUST_BE(user.heard, user.said);
        MUST(coir_now() <= begin + patience);
    }
    if (user.watches)
        MUST_BE(coir_runtime_run(user.runtime, hear_byte, &user), 0);
    coir_runtime_free(user.runtime);
    return 0;
}

static int be_a_user(void *arg)
{
    MUST_BE(coir_offload(use_runtime, arg), 0);
    return 0;
}

static int play(void *arg)
{
    COIR_SCOPE(scope);
    for (int i = 0; i < USERS; i++)
        MUST_BE(coir_go_anywhere(scope, be_a_user, arg), 0);
    return coir_scope_wait(scope);
}

int scenario(coir_sim *sim)
{
    if (!posix_has_kernel())
        return -ENOTSUP;
    MUST_BE(chaos_configure(sim), 0);
    return coir_sim_host_main(sim, "host", play, NULL);
}

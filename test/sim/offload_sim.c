/* Tasks on several workers that offload work to a pool of few threads, some of it long, and give up
 * on it now and then. Only over the simulated kernel, which has threads.
 *
 * What must hold:
 * 1. A job that was not withdrawn is called once, and its result comes back to its task, soon.
 * 2. At most offload_threads_max jobs are called at a time.
 * 3. A job whose end waits for another one ends, where there are threads for both: a job in the
 *    queue never waits for one that runs while another thread could call it.
 * 4. At most offload_queue_max calls of coir_offload wait; another one is refused. Calls on files
 *    are never refused for that, nor are calls that threads are free for: as many as there may be,
 *    once a call has returned. */
#include <coir.h>
#include <coir/file.h>
#include <coir/offload.h>
#include <coir/sim.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { WORKERS_MOST = 3, THREADS_MOST = 4, QUEUE_MOST = 4, TASKS_MOST = 11, JOBS_MOST = 6 };
static const coir_time patience = 30 * COIR_S;

static struct pool {
    coir_runtime *runtime;
    size_t threads_max, queue_max;
    unsigned inside;  /* jobs that run */
    bool pairs;       /* two jobs of the first task wait for each other */
    unsigned staying; /* jobs that run until `leave` */
    bool leave;
} pool;

struct job {
    int number;
    unsigned called;
};

/* ---- on threads of the pool ---- */

static void enter(void)
{
    pool.inside++;
    MUST(pool.inside <= pool.threads_max);
}

static int work(void *arg)
{
    struct job *job = arg;
    enter();
    job->called++;
    if (below(4) == 0)
        usleep((useconds_t)(below(1000) >> below(10)));
    pool.inside--;
    return job->number;
}

static int meet(void *arg)
{
    unsigned *met = arg;
    coir_time begin = coir_now();
    enter();
    ++*met;
    while (*met < 2) {
        usleep(10);
        MUST(coir_now() < begin + patience);
    }
    pool.inside--;
    return 0;
}

/* ---- tasks ---- */

static void offload_one(int number)
{
    struct job job = {.number = number};
    int rc = coir_offload(work, &job);
    if (rc == -EAGAIN)
        MUST(pool.queue_max);
    else if (rc != -ECANCELED && rc != -ETIME)
        MUST_BE(rc, number);
    MUST_BE(job.called, rc == number);
}

static void offload_impatiently(int number)
{
    COIR_DEADLINE(coir_in((coir_time)below(COIR_MS)));
    offload_one(number);
}

static void look_at_file(void)
{
    struct stat what;
    int rc = coir_dir_stat(NULL, "/tmp", 0, &what);
    MUST(rc == 0 || rc == -ECANCELED || rc == -ENOMEM || rc == -EIO);
}

static int use_pool(void *arg)
{
    (void)arg;
    for (uint64_t jobs = 1 + below(JOBS_MOST); jobs; jobs--)
        switch (below(4)) {
        case 0: offload_impatiently((int)jobs); break;
        case 1: look_at_file(); break;
        case 2: coir_sleep_for((coir_time)below(COIR_MS)); break;
        default: offload_one((int)jobs);
        }
    return 0;
}

static int offload_meet(void *arg)
{
    int rc;
    while ((rc = coir_offload(meet, arg)) == -EAGAIN)
        MUST_BE(coir_sleep_for(COIR_MS), 0); /* the queue is full */
    MUST_BE(rc, 0);
    return 0;
}

static void meet_in_pool(coir_scope *scope, unsigned *met)
{
    for (int i = 0; i < 2; i++)
        MUST_BE(coir_go(scope, offload_meet, met), 0);
}

/* ---- a full pool ---- */

static int stay(void *arg)
{
    (void)arg;
    enter();
    pool.staying++;
    while (!pool.leave)
        usleep(10);
    pool.inside--;
    return 0;
}

static int offload_stay(void *arg)
{
    MUST_BE(coir_offload(stay, arg), 0);
    return 0;
}

/* A file, and a connection that takes it. */
struct copy {
    coir_file *file;
    coir_stream *near, *far;
};

static void open_copy(struct copy *copy)
{
    static const char address[] = "127.0.0.1:7";
    coir_listener *listener;
    MUST_BE(coir_file_open("/tmp/file", O_RDWR | O_CREAT, 0600, &copy->file), 0);
    MUST_BE(coir_file_write_all(copy->file, "bytes", 5, 0), 0);
    MUST_BE(coir_tcp_listen(address, &listener), 0);
    MUST_BE(coir_tcp_connect(address, &copy->near), 0);
    MUST_BE(coir_accept(listener, &copy->far), 0);
    coir_listener_close(listener);
}

static void close_copy(struct copy *copy)
{
    char bytes[5];
    MUST_BE(coir_file_copy_to(copy->file, 0, COIR_UNLIMITED, copy->near, NULL), 5);
    MUST_BE(coir_read_full(copy->far, bytes, 5, NULL), 5);
    coir_close(copy->near);
    coir_close(copy->far);
    coir_file_close(copy->file);
}

/* Every thread is at work, and then as many calls wait as may: one more is refused. */
static void fill_pool(void)
{
    struct copy copy = {.file = NULL};
    COIR_SCOPE(scope);
    if (below(4) == 0)
        open_copy(&copy);
    pool.staying = 0;
    pool.leave = false;
    for (unsigned i = 0; i < pool.threads_max + pool.queue_max; i++) {
        MUST_BE(coir_go(scope, offload_stay, NULL), 0);
        do
            MUST_BE(coir_sleep_for(100 * COIR_US), 0);
        while (i < pool.threads_max && pool.staying <= i);
    }
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        MUST_BE(coir_offload(stay, NULL), -EAGAIN);
        if (copy.file)
            MUST_BE(coir_file_copy_to(copy.file, 0, COIR_UNLIMITED, copy.near, NULL), -ETIME);
    }
    pool.leave = true;
    MUST_BE(coir_scope_wait(scope), 0);
    if (copy.file)
        close_copy(&copy);
}

static int offload_in_burst(void *arg)
{
    struct job *job = arg;
    for (uint64_t calls = 1 + below(3); calls; calls--)
        MUST_BE(coir_offload(work, job), job->number); /* 4 */
    return 0;
}

/* As many tasks as there may be calls, for which the threads have to be started at first, or are
 * on their way back from a call. */
static void fill_at_once(void)
{
    struct job jobs[THREADS_MOST + QUEUE_MOST];
    COIR_SCOPE(scope);
    for (unsigned i = 0; i < pool.threads_max + pool.queue_max; i++) {
        jobs[i] = (struct job){.number = (int)i};
        MUST_BE(coir_go(scope, offload_in_burst, &jobs[i]), 0);
    }
    MUST_BE(coir_scope_wait(scope), 0);
}

/* A thread without a call for ten seconds ends: the next call comes before that, after it, or at
 * the same moment. */
static void let_threads_end(void)
{
    for (int i = 1; i <= 3; i++) {
        COIR_DEADLINE(coir_in(patience));
        MUST_BE(coir_sleep_for(10 * COIR_S - 10 * COIR_US + (coir_time)below(100 * COIR_US)), 0);
        struct job job = {.number = i};
        MUST_BE(coir_offload(work, &job), i);
    }
}

static int first_task(void *arg)
{
    coir_time begin = coir_now();
    unsigned met = 0;
    (void)arg;
    if (pool.queue_max && below(3) == 0)
        fill_at_once();
    if (pool.queue_max && below(2))
        fill_pool();
    COIR_SCOPE(pair);
    if (pool.pairs)
        meet_in_pool(pair, &met);
    COIR_SERVING_SCOPE(others);
    int workers = (int)coir_worker_count(pool.runtime);
    for (uint64_t tasks = 1 + below(TASKS_MOST); tasks; tasks--)
        MUST_BE(coir_go_on(others, (int)below((uint64_t)workers), use_pool, NULL), 0);
    if (below(2)) {
        coir_sleep_for((coir_time)below(COIR_MS));
        coir_scope_cancel(others);
    }
    MUST_BE(coir_scope_wait(others), 0);
    MUST_BE(coir_scope_wait(pair), 0);
    MUST(coir_now() <= begin + patience);
    if (below(2))
        let_threads_end();
    return 0;
}

/* On a thread of its own: a runtime whose pool is small. */
static int use_runtime(void *arg)
{
    coir_config config = COIR_CONFIG;
    config.driver = arg;
    config.workers = 1 + below(WORKERS_MOST);
    config.offload_threads_max = pool.threads_max = 1 + below(THREADS_MOST);
    config.offload_queue_max = pool.queue_max = below(3) ? 0 : 1 + below(QUEUE_MOST);
    pool.pairs = pool.threads_max > 1;
    MUST_BE(coir_runtime_new(&config, &pool.runtime), 0);
    for (uint64_t runs = 1 + below(3); runs; runs--)
        MUST_BE(coir_runtime_run(pool.runtime, first_task, NULL), 0);
    coir_runtime_free(pool.runtime);
    MUST_BE(pool.inside, 0);
    return 0;
}

static int play(void *arg)
{
    static char *const drivers[] = {"epoll", "kqueue", "io_uring", "poll"};
    (void)arg;
    return coir_offload(use_runtime, drivers[below(4)]);
}

int scenario(coir_sim *sim)
{
    if (!posix_has_kernel())
        return -ENOTSUP;
    memset(&pool, 0, sizeof pool);
    MUST_BE(chaos_configure(sim), 0);
    return coir_sim_host_main(sim, "host", play, NULL);
}

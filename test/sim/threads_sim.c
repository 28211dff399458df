/* A runtime and plain threads beside it, which wake its tasks, post functions to its workers, have
 * futures run by it, send to its channels, raise signals, and hold it. It runs on a thread of its
 * own, or is stepped by another event loop; now and then nothing in it can ever run again. Only
 * over the simulated kernel, which has threads.
 *
 * What must hold:
 * 1. A function that was posted is called once, on its worker, in the order of its sender.
 * 2. A future that a thread has run by the runtime gives its result, once.
 * 3. No wake-up is lost, and no signal: the first task goes on after each, soon. One that came
 *    since the last wait that a wake-up ended, whatever has ended others, ends the next at once.
 * 4. What the threads sent to a channel arrives, each item once and in its sender's order.
 * 5. A run in which every task waits and nothing can wake one ends with -EDEADLK, and its log names
 *    each task, whatever it waits for, and those of the scopes that members of it have open; no
 *    other run does.
 * 6. A signal that stops the program cancels the tasks, and the run ends.
 * 7. What only a worker can do is refused on the other threads, with -ESRCH. */
#include <coir.h>
#include <coir/channel.h>
#include <coir/dir.h>
#include <coir/filter.h>
#include <coir/process.h>
#include <coir/signal.h>
#include <coir/sim.h>
#include <coir/terminal.h>
#include <coir/udp.h>
#include <coir/waker.h>
#include <coir/watcher.h>
#include <coir/write_queue.h>
#include <errno.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { WORKERS_MOST = 3, THREADS = 3, ACTS_MOST = 6, ROOM = 2, RUNS = 40 };
static const coir_time patience = 30 * COIR_S;

static coir_time some_time(void)
{
    return (coir_time)below((uint64_t)(2 * COIR_MS) >> below(8));
}

static void nap(void)
{
    usleep((useconds_t)(some_time() / COIR_US));
}

struct post {
    struct beside *by;
    int number, worker;
};

/* A thread beside the runtime. */
struct beside {
    struct talk *talk;
    pthread_t thread;
    struct post posts[ACTS_MOST];
    int index, posted, called, last[WORKERS_MOST], sent, received;
};

static struct talk {
    coir_runtime *runtime;
    coir_channel *channel;
    coir_waker waker;
    bool serves; /* its first task waits for the threads */
    bool signals;
    int threads_done, raised, heard;
    int wakes_begun, wakes_ended;
    int wakes_taken; /* begun when a wait in the parker ended: they may be what has ended it */
    int deadlock_lines, any_lines, all_lines; /* of the log */
    coir_listener *listener;
    coir_stream *stream, *peer;
    coir_udp *udp;
    struct beside beside[THREADS];
} talk;

/* ---- the threads ---- */

static void wake_first_task(void)
{
    talk.wakes_begun++;
    coir_waker_wake_by_ref(&talk.waker);
    talk.wakes_ended++;
}

static void called_there(void *arg)
{
    struct post *post = arg;
    int *last = &post->by->last[post->worker];
    MUST(*last < post->number); /* posts to several workers have no order */
    *last = post->number;
    post->by->called++;
    MUST_BE(coir_worker_index(), post->worker);
    wake_first_task();
}

static void post_one(struct beside *self)
{
    int worker = (int)below(coir_worker_count(self->talk->runtime));
    self->posts[self->posted] = (struct post){self, self->posted + 1, worker};
    MUST_BE(
        coir_runtime_post(self->talk->runtime, worker, called_there, &self->posts[self->posted]),
        0);
    self->posted++;
}

static int rest_and_count(void *arg)
{
    MUST_BE(coir_sleep_for(some_time()), 0);
    return ++*(int *)arg;
}

/* On the runtime that runs, or on one of its own. */
static void block_on_one(struct beside *self)
{
    int count = (int)below(9), before = count;
    coir_call call;
    coir_future *future = coir_call_init(&call, rest_and_count, &count);
    MUST_BE(coir_block_on(below(4) ? self->talk->runtime : NULL, future), before + 1);
    MUST_BE(count, before + 1);
}

static void send_one(struct beside *self)
{
    int item = self->index * ACTS_MOST + self->sent++, rc;
    while ((rc = coir_channel_try_send(self->talk->channel, &item)) == -EAGAIN)
        nap();
    MUST_BE(rc, 0);
}

static void wake_one(struct beside *self)
{
    coir_waker clone = coir_waker_clone(&self->talk->waker);
    MUST(coir_waker_will_wake(&clone, &self->talk->waker));
    if (below(2)) {
        talk.wakes_begun++;
        coir_waker_wake(clone);
        talk.wakes_ended++;
    } else {
        coir_waker_drop(clone);
    }
}

static void hold_a_while(struct beside *self)
{
    coir_counters counters = COIR_COUNTERS;
    coir_runtime_hold(self->talk->runtime);
    nap();
    MUST_BE(coir_counters_get(self->talk->runtime, &counters), 0);
    MUST(counters.tasks_started >= 1);
    coir_runtime_release(self->talk->runtime);
}

static int do_nothing(void *arg)
{
    return arg ? 1 : 0;
}

static void open_without_worker(void)
{
    static const char *const arguments[] = {"child", NULL};
    static const int numbers[] = {SIGUSR1};
    coir_udp_options udp_options = COIR_UDP_OPTIONS;
    coir_go_options go_options = COIR_GO_OPTIONS;
    coir_stream *stream = NULL, *other = NULL;
    coir_udp *udp = NULL;
    coir_signals *signals = NULL;
    coir_watcher *watcher = NULL;
    coir_process process = {{0}};
    coir_pty pty = {{0}};
    MUST(!coir_worker_loop());
    MUST_BE(coir_go(NULL, do_nothing, NULL), -ESRCH);
    MUST_BE(coir_go_with(NULL, &go_options, do_nothing, NULL), -ESRCH);
    MUST_BE(coir_stream_adopt(0, &stream), -ESRCH);
    MUST_BE(coir_duplex(0, &stream, &other), -ESRCH);
    MUST_BE(coir_udp_open(NULL, NULL, &udp), -ESRCH);
    MUST_BE(coir_udp_open_with(&udp_options, &udp), -ESRCH);
    MUST_BE(coir_signals_open(numbers, 1, &signals), -ESRCH);
    MUST_BE(coir_watcher_open(&watcher), -ESRCH);
    MUST_BE(coir_process_spawn(&process, arguments), -ESRCH);
    MUST_BE(coir_pty_open(&pty, NULL), -ESRCH);
    MUST(!stream && !other && !udp && !signals && !watcher);
}

/* On what a worker of the runtime has open. */
static void use_without_worker(void)
{
    char text[64];
    size_t len;
    coir_fd fd;
    coir_write_queue *queue = NULL;
    coir_address group;
    MUST_BE(coir_stream_detach(talk.stream), -ESRCH);
    MUST_BE(coir_stream_release(talk.stream, text, sizeof text, &len, &fd), -ESRCH);
    MUST_BE(coir_write_queue_new(talk.stream, &queue), -ESRCH);
    MUST_BE(coir_listener_local(talk.listener, text, sizeof text), -ESRCH);
    MUST_BE(coir_listener_pause(talk.listener), -ESRCH);
    MUST_BE(coir_address_parse("224.0.0.251:0", &group), 0);
    MUST_BE(coir_udp_join(talk.udp, &group, NULL), -ESRCH);
    MUST(!queue);
}

static void *be_beside(void *arg)
{
    struct beside *self = arg;
    while (!self->talk->serves)
        usleep(10);
    if (below(4) == 0) {
        open_without_worker();
        use_without_worker();
    }
    for (uint64_t acts = below(ACTS_MOST); acts; acts--) {
        nap();
        switch (below(self->talk->signals ? 6 : 5)) {
        case 0: post_one(self); break;
        case 1: block_on_one(self); break;
        case 2: send_one(self); break;
        case 3: wake_one(self); break;
        case 4: hold_a_while(self); break;
        default: self->talk->raised++; MUST_BE(raise(SIGUSR1), 0);
        }
    }
    self->talk->threads_done++;
    wake_first_task();
    return NULL;
}

/* ---- the runtime ---- */

static bool everything_came(void)
{
    if (talk.threads_done < THREADS || talk.heard < talk.raised)
        return false;
    for (int i = 0; i < THREADS; i++)
        if (talk.beside[i].called < talk.beside[i].posted ||
            talk.beside[i].received < talk.beside[i].sent)
            return false;
    return true;
}

static void take_item(int item)
{
    struct beside *from = &talk.beside[item / ACTS_MOST];
    MUST_BE(item % ACTS_MOST, from->received++);
}

/* More wake-ups have ended than had begun then: so one came since. */
static void take_wake_up(coir_parker *parker)
{
    coir_case cases[] = {coir_case_parker(parker), coir_case_after(0)};
    if (talk.wakes_ended <= talk.wakes_taken || below(2))
        return;
    MUST_BE(coir_select_in_order(cases, 2), 0);
    talk.wakes_taken = talk.wakes_begun;
}

/* Until all has come. Without a deadline, whose timer would keep the run from being dead. */
static void serve_threads(coir_parker *parker, coir_signals *signals)
{
    while (!everything_came()) {
        int item;
        coir_case cases[] = {coir_case_parker(parker), coir_case_recv(talk.channel, &item),
                             signals ? coir_case_signal(signals) : coir_case_after(COIR_NEVER)};
        int won = coir_select(cases, signals ? 3 : 2);
        MUST(won >= 0);
        if (won == 0)
            talk.wakes_taken = talk.wakes_begun;
        if (won == 2) {
            MUST_BE(cases[2].result, SIGUSR1);
            MUST(talk.raised);
            talk.heard = talk.raised; /* one report for those that came before it */
        }
        if (won == 1)
            take_item(item);
        take_wake_up(parker);
    }
}

static void open_what_threads_have_not(void)
{
    MUST_BE(coir_tcp_listen("127.0.0.1:7", &talk.listener), 0);
    MUST_BE(coir_duplex(0, &talk.stream, &talk.peer), 0);
    MUST_BE(coir_udp_open("127.0.0.1:7", NULL, &talk.udp), 0);
}

/* All of it is as it was. */
static void close_what_threads_have_not(void)
{
    char byte = 0, address[32];
    MUST_BE(coir_write(talk.stream, "x", 1), 1);
    MUST_BE(coir_read(talk.peer, &byte, 1), 1);
    MUST_BE(coir_listener_local(talk.listener, address, sizeof address), strlen("127.0.0.1:7"));
    coir_close(talk.stream);
    coir_close(talk.peer);
    coir_listener_close(talk.listener);
    coir_udp_close(talk.udp);
}

static int first_task(void *arg)
{
    static const int numbers[] = {SIGUSR1};
    coir_parker parker;
    coir_signals *signals = NULL;
    coir_time begin = coir_now();
    (void)arg;
    MUST_BE(coir_parker_init(&parker), 0);
    open_what_threads_have_not();
    if (talk.signals) /* an operation in flight: never taken for dead */
        MUST_BE(coir_signals_open(numbers, 1, &signals), 0);
    talk.waker = coir_parker_waker(&parker);
    talk.serves = true;
    serve_threads(&parker, signals);
    MUST(coir_now() <= begin + patience);
    coir_waker_drop(talk.waker);
    coir_parker_done(&parker);
    coir_signals_close(signals);
    close_what_threads_have_not();
    return 0;
}

/* ---- runs in which all wait ---- */

/* No thread sends, or one does that holds the runtime until then. */
static int wait_for_item(void *arg)
{
    int item;
    (void)arg;
    MUST_BE(coir_task_set_name("who waits"), 0);
    return coir_channel_recv(talk.channel, &item);
}

static int wait_for_one_of_two(void *arg)
{
    int item;
    (void)arg;
    MUST_BE(coir_task_set_name("who waits"), 0);
    coir_case cases[] = {coir_case_recv(talk.channel, &item), coir_case_after(COIR_NEVER)};
    int won = coir_select(cases, 2);
    return won < 0 ? won : (int)cases[won].result;
}

static int wait_in_a_scope(void *arg)
{
    COIR_SCOPE(scope);
    MUST_BE(coir_go(scope, wait_for_item, arg), 0);
    return coir_scope_wait(scope);
}

static int wait_for_all(void *arg)
{
    coir_call calls[2];
    coir_branch branches[2];
    for (int i = 0; i < 2; i++) {
        coir_branch branch = COIR_BRANCH(coir_call_init(&calls[i], wait_in_a_scope, arg));
        branches[i] = branch;
    }
    MUST_BE(coir_task_set_name("who waits"), 0);
    int rc = coir_join_all(branches, 2, 0);
    for (int i = 0; rc >= 0 && i < 2; i++)
        rc = (int)calls[i].future.result;
    return rc;
}

static int wait_for_set(void *arg)
{
    coir_set set;
    coir_call call;
    coir_branch branch = COIR_BRANCH(coir_call_init(&call, wait_in_a_scope, arg)), *ended;
    MUST_BE(coir_task_set_name("who waits"), 0);
    coir_set_init(&set);
    MUST_BE(coir_set_add(&set, &branch), 0);
    int rc = coir_set_next(&set, &ended);
    coir_set_done(&set);
    return rc < 0 ? rc : (int)call.future.result;
}

enum { DEAD_ENDS = 4 };
static const struct dead_end {
    coir_task_fn *fn;
    int items; /* that it waits for */
    int inner; /* tasks beside the first one */
} dead_ends[DEAD_ENDS] = {
    {wait_for_item, 1, 0}, {wait_for_one_of_two, 1, 0}, {wait_for_all, 2, 2}, {wait_for_set, 1, 1}};

static void *send_late(void *arg)
{
    const struct dead_end *end = arg;
    int item = 0, rc;
    for (int sent = 0; sent < end->items; sent += rc == 0) {
        nap();
        rc = coir_channel_try_send(talk.channel, &item);
        MUST(rc == 0 || rc == -EAGAIN);
    }
    coir_runtime_release(talk.runtime);
    return NULL;
}

static void run_dead(bool held)
{
    pthread_t thread;
    const struct dead_end *end = &dead_ends[below(DEAD_ENDS)];
    if (held) {
        coir_runtime_hold(talk.runtime);
        MUST_BE(pthread_create(&thread, NULL, send_late, (void *)(uintptr_t)end), 0);
    }
    MUST_BE(coir_runtime_run(talk.runtime, end->fn, NULL), held ? 0 : -EDEADLK);
    MUST_BE(talk.deadlock_lines, held ? 0 : 1 + end->inner);
    MUST_BE(talk.any_lines, !held && end->fn == wait_for_one_of_two);
    MUST_BE(talk.all_lines, !held && end->fn == wait_for_all);
    if (held)
        MUST_BE(pthread_join(thread, NULL), 0);
}

static void *raise_late(void *arg)
{
    nap();
    MUST_BE(raise(SIGTERM), 0);
    coir_runtime_release(talk.runtime);
    return arg;
}

static int wait_to_be_stopped(void *arg)
{
    pthread_t thread;
    MUST_BE(pthread_create(&thread, NULL, raise_late, arg), 0);
    MUST_BE(dead_ends[below(DEAD_ENDS)].fn(arg), -ECANCELED);
    MUST_BE(coir_task_interrupted(), -ECANCELED);
    MUST_BE(pthread_join(thread, NULL), 0);
    return -ECANCELED;
}

static void run_until_signal(void)
{
    coir_runtime_hold(talk.runtime);
    MUST_BE(coir_runtime_run(talk.runtime, wait_to_be_stopped, NULL), -ECANCELED);
    MUST_BE(talk.deadlock_lines, 0);
}

static void look_for_deadlock(enum coir_log_level level, const char *line, void *arg)
{
    (void)arg;
    if (level != COIR_LOG_ERROR || !strstr(line, "who waits"))
        return;
    talk.deadlock_lines++;
    talk.any_lines += strstr(line, "waits for any of an item of a channel, ") != NULL;
    talk.all_lines += strstr(line, "waits for all of ") != NULL;
}

/* Ends while the other workers look at an alert, that of a stop: they must see the next one. */
static int end_soon(void *arg)
{
    (void)arg;
    MUST_BE(coir_sleep_for(1), 0); /* they sleep */
    coir_runtime_stop(talk.runtime);
    for (uint64_t points = below(200); points; points--)
        if (below(8))
            coir_now();
        else
            coir_runtime_stop(talk.runtime);
    return 0;
}

static void run_shortly(void)
{
    for (int i = 0; i < RUNS; i++)
        MUST_BE(coir_runtime_run(talk.runtime, end_soon, NULL), 0);
}

/* The worker that the caller drives looks again when something may be due. */
static int drive(coir_task_fn *fn)
{
    MUST_BE(coir_runtime_begin(talk.runtime, fn, NULL), 0);
    while (coir_runtime_step(talk.runtime)) {
        coir_time next = coir_runtime_next(talk.runtime), latest = coir_in(100 * COIR_US);
        MUST_BE(coir_runtime_end(talk.runtime), -EBUSY);
        if (next)
            usleep((useconds_t)((next < latest ? next : latest) > coir_now() ? below(100) : 0));
    }
    return coir_runtime_end(talk.runtime);
}

static void run_beside_threads(bool driven)
{
    for (int i = 0; i < THREADS; i++) {
        talk.beside[i] = (struct beside){.talk = &talk, .index = i};
        MUST_BE(pthread_create(&talk.beside[i].thread, NULL, be_beside, &talk.beside[i]), 0);
    }
    MUST_BE(driven ? drive(first_task) : coir_runtime_run(talk.runtime, first_task, NULL), 0);
    MUST(everything_came());
    for (int i = 0; i < THREADS; i++)
        MUST_BE(pthread_join(talk.beside[i].thread, NULL), 0);
    MUST_BE(coir_runtime_post(talk.runtime, 0, called_there, NULL), -COIR_EENDED);
}

/* On a thread of its own. */
static int use_runtime(void *arg)
{
    static const char *const drivers[] = {"epoll", "kqueue", "io_uring", "poll", NULL};
    coir_config config = COIR_CONFIG;
    uint64_t driver = below(5);
    bool driven = below(2) && drivers[driver] != drivers[2] && drivers[driver] != drivers[3];
    (void)arg;
    config.driver = drivers[driver];
    config.workers = 1 + below(WORKERS_MOST);
    config.deadlock = COIR_DEADLOCK_END;
    config.stop_signals = below(3) == 0;
    config.log = look_for_deadlock;
    MUST_BE(coir_channel_new(sizeof(int), ROOM, &talk.channel), 0);
    MUST_BE(coir_runtime_new(&config, &talk.runtime), 0);
    if (below(3) == 0) {
        if (config.stop_signals)
            run_until_signal();
        else
            run_dead(below(2));
    } else {
        talk.signals = below(2);
        run_beside_threads(driven);
        MUST_BE(talk.deadlock_lines, 0);
    }
    if (below(2) == 0)
        run_shortly();
    coir_runtime_free(talk.runtime);
    coir_channel_free(talk.channel);
    return 0;
}

static int play(void *arg)
{
    return coir_offload(use_runtime, arg);
}

int scenario(coir_sim *sim)
{
    if (!posix_has_kernel())
        return -ENOTSUP;
    memset(&talk, 0, sizeof talk);
    MUST_BE(chaos_configure(sim), 0);
    return coir_sim_host_main(sim, "host", play, NULL);
}

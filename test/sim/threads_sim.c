/* A runtime and plain threads beside it, which wake its tasks, post functions to its workers, have
 * futures run by it, send to its channels, raise signals, and hold it. It runs on a thread of its
 * own, or is stepped by another event loop; now and then nothing in it can ever run again. Only
 * over the simulated kernel, which has threads.
 *
 * What must hold:
 * 1. A function that was posted is called once, on its worker, in the order of its sender.
 * 2. A future that a thread has run by the runtime gives its result, once.
 * 3. No wake-up is lost, and no signal: the first task goes on after each, soon.
 * 4. What the threads sent to a channel arrives, each item once and in its sender's order.
 * 5. A run in which every task waits and nothing can wake one ends with -EDEADLK, and its log names
 *    the task; no other run does. */
#include <coir.h>
#include <coir/channel.h>
#include <coir/signal.h>
#include <coir/sim.h>
#include <coir/waker.h>
#include <errno.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { WORKERS_MOST = 3, THREADS = 3, ACTS_MOST = 6, ROOM = 2 };
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
    int threads_done, raised, heard, deadlock_lines;
    struct beside beside[THREADS];
} talk;

/* ---- the threads ---- */

static void called_there(void *arg)
{
    struct post *post = arg;
    int *last = &post->by->last[post->worker];
    MUST(*last < post->number); /* posts to several workers have no order */
    *last = post->number;
    post->by->called++;
    MUST_BE(coir_worker_index(), post->worker);
    coir_waker_wake_by_ref(&post->by->talk->waker);
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
    if (below(2))
        coir_waker_wake(clone);
    else
        coir_waker_drop(clone);
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

static void *be_beside(void *arg)
{
    struct beside *self = arg;
    while (!self->talk->serves)
        usleep(10);
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
    coir_waker_wake_by_ref(&self->talk->waker);
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

/* Until all has come. Without a deadline, whose timer would keep the run from being dead. */
static void serve_threads(coir_parker *parker, coir_signals *signals)
{
    while (!everything_came()) {
        int item;
        coir_case cases[] = {coir_case_parker(parker), coir_case_recv(talk.channel, &item),
                             signals ? coir_case_signal(signals) : coir_case_after(COIR_NEVER)};
        int won = coir_select(cases, signals ? 3 : 2);
        MUST(won >= 0);
        if (won == 2) {
            MUST_BE(cases[2].result, SIGUSR1);
            MUST(talk.raised);
            talk.heard = talk.raised; /* one report for those that came before it */
        }
        if (won == 1)
            take_item(item);
    }
}

static int first_task(void *arg)
{
    static const int numbers[] = {SIGUSR1};
    coir_parker parker;
    coir_signals *signals = NULL;
    coir_time begin = coir_now();
    (void)arg;
    MUST_BE(coir_parker_init(&parker), 0);
    if (talk.signals) /* an operation in flight: never taken for dead */
        MUST_BE(coir_signals_open(numbers, 1, &signals), 0);
    talk.waker = coir_parker_waker(&parker);
    talk.serves = true;
    serve_threads(&parker, signals);
    MUST(coir_now() <= begin + patience);
    coir_waker_drop(talk.waker);
    coir_parker_done(&parker);
    coir_signals_close(signals);
    return 0;
}

/* No thread sends, or one does that holds the runtime until then. */
static int wait_for_item(void *arg)
{
    int item;
    (void)arg;
    MUST_BE(coir_task_set_name("who waits"), 0);
    return coir_channel_recv(talk.channel, &item);
}

static void *send_late(void *arg)
{
    int item = 0;
    nap();
    MUST_BE(coir_channel_try_send(talk.channel, &item), 0);
    coir_runtime_release(talk.runtime);
    return arg;
}

static void run_dead(bool held)
{
    pthread_t thread;
    if (held) {
        coir_runtime_hold(talk.runtime);
        MUST_BE(pthread_create(&thread, NULL, send_late, NULL), 0);
    }
    MUST_BE(coir_runtime_run(talk.runtime, wait_for_item, NULL), held ? 0 : -EDEADLK);
    MUST_BE(talk.deadlock_lines, !held);
    if (held)
        MUST_BE(pthread_join(thread, NULL), 0);
}

static void look_for_deadlock(enum coir_log_level level, const char *line, void *arg)
{
    (void)arg;
    talk.deadlock_lines += level == COIR_LOG_ERROR && strstr(line, "who waits") != NULL;
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
    config.log = look_for_deadlock;
    MUST_BE(coir_channel_new(sizeof(int), ROOM, &talk.channel), 0);
    MUST_BE(coir_runtime_new(&config, &talk.runtime), 0);
    if (below(4) == 0) {
        run_dead(below(2));
    } else {
        talk.signals = below(2);
        run_beside_threads(driven);
        MUST_BE(talk.deadlock_lines, 0);
    }
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

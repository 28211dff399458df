/* Every order of what workers and plain threads do to each other: wakers against suspension,
 * inboxes against sleep, channels against cancellation, joins against ends, closing against
 * receiving, selects against each other. */
#include "model/model.h"

#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "harness.h"
#include "task/runtime.h"

enum { PREEMPTIONS = 3 };

static int count, results[4];
static coir_channel *channel;
static coir_mutex mutex;
static coir_event event;
static coir_waker waker;
static coir_handle handle;

static void reset(void)
{
    count = 0;
    memset(results, 0x55, sizeof results);
    mutex = (coir_mutex)COIR_MUTEX_INIT;
    event = (coir_event)COIR_EVENT_INIT;
}

static void no_check(void)
{
}

/* ---- inbox against sleep, and the end of the run against both ---- */

static void add_one(void *arg)
{
    (void)arg;
    count++;
}

static int post_twice(void *arg)
{
    coir_runtime_post(arg, 1, add_one, NULL);
    coir_runtime_post(arg, 1, add_one, NULL);
    return 0;
}

static void check_two(void)
{
    /* one that is still under way when the run ends is made when the runtime is freed */
    CHECK_EQ(count, 2);
}

TEST(inbox_against_sleep)
{
    model_run(&(struct model){"inbox against sleep",
                              2,
                              PREEMPTIONS + 1,
                              reset,
                              post_twice,
                              {NULL, NULL},
                              check_two,
                              0,
                              0});
}

/* ---- far tasks: spawn, cancel and join against their end ---- */

static int yield_once(void *arg)
{
    (void)arg;
    count++;
    return coir_yield();
}

static int join_far(void *arg)
{
    (void)arg;
    COIR_SERVING_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.place = COIR_ON_WORKER(1);
    options.handle = &handle;
    CHECK_EQ(coir_go_with(scope, &options, yield_once, NULL), 0);
    CHECK_EQ(coir_join(&handle), 0);
    return 0;
}

static int cancel_far(void *arg)
{
    (void)arg;
    COIR_SERVING_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.place = COIR_ON_WORKER(1);
    options.handle = &handle;
    CHECK_EQ(coir_go_with(scope, &options, yield_once, NULL), 0);
    coir_yield();
    coir_cancel(&handle);
    results[0] = coir_join(&handle);
    CHECK(results[0] == 0 || results[0] == -ECANCELED);
    return 0;
}

static int cancel_shared(void *arg)
{
    (void)arg;
    COIR_SERVING_SCOPE(scope);
    coir_go_anywhere(scope, yield_once, NULL);
    coir_yield();
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
    return 0;
}

static void check_one(void)
{
    CHECK_EQ(count, 1);
}

TEST(join_against_finish)
{
    model_run(&(struct model){
        "join against finish", 2, PREEMPTIONS, reset, join_far, {NULL, NULL}, check_one, 0, 0});
}

TEST(cancel_against_finish)
{
    model_run(&(struct model){
        "cancel against finish", 2, PREEMPTIONS, reset, cancel_far, {NULL, NULL}, check_one, 0, 0});
    model_run(&(struct model){"cancel of a shared task",
                              2,
                              PREEMPTIONS,
                              reset,
                              cancel_shared,
                              {NULL, NULL},
                              check_one,
                              0,
                              0});
}

/* ---- shared tasks against a worker that falls asleep ---- */

/* Worker 0 never looks: the other one has to. */
static int compute_until_it_has_run(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go_anywhere(scope, yield_once, NULL), 0);
    while (ci_load(&count) == 0)
        model_pause();
    return coir_scope_wait(scope);
}

TEST(an_idle_worker_does_not_sleep_past_shared_work)
{
    model_run(&(struct model){"shared work against sleep",
                              2,
                              PREEMPTIONS,
                              reset,
                              compute_until_it_has_run,
                              {NULL, NULL},
                              check_one,
                              0,
                              0});
}

/* ---- wakers, events and other plain threads against suspension ---- */

static int park_once(void *arg)
{
    (void)arg;
    coir_parker parker;
    CHECK_EQ(coir_parker_init(&parker), 0);
    waker = coir_parker_waker(&parker);
    __atomic_store_n(&count, 1, __ATOMIC_RELEASE);
    CHECK_EQ(coir_parker_wait(&parker), 0);
    coir_parker_done(&parker);
    return 0;
}

static void wake_it(void)
{
    while (!__atomic_load_n(&count, __ATOMIC_ACQUIRE))
        model_pause();
    coir_waker_wake_by_ref(&waker);
    coir_waker_wake(waker);
}

TEST(waker_against_suspension)
{
    model_run(&(struct model){"waker against suspension",
                              1,
                              PREEMPTIONS + 1,
                              reset,
                              park_once,
                              {wake_it, NULL},
                              no_check,
                              0,
                              0});
    model_run(&(struct model){"waker against suspension and deadlock",
                              1,
                              PREEMPTIONS + 1,
                              reset,
                              park_once,
                              {wake_it, NULL},
                              no_check,
                              0,
                              COIR_DEADLOCK_END});
}

static int wait_for_event(void *arg)
{
    (void)arg;
    return coir_event_wait(&event);
}

static void set_event(void)
{
    coir_event_set(&event);
}

TEST(event_against_suspension)
{
    model_run(&(struct model){"event against suspension",
                              2,
                              PREEMPTIONS,
                              reset,
                              wait_for_event,
                              {set_event, set_event},
                              no_check,
                              0,
                              0});
}

/* A wake-up that comes while another case happens is kept. */
static int select_beside_an_event(void *arg)
{
    coir_parker parker;
    (void)arg;
    CHECK_EQ(coir_parker_init(&parker), 0);
    waker = coir_parker_waker(&parker);
    __atomic_store_n(&count, 1, __ATOMIC_RELEASE);
    coir_case waits[] = {coir_case_parker(&parker), coir_case_event(&event)};
    if (coir_select_in_order(waits, 2) == 1)
        CHECK_EQ(coir_parker_wait(&parker), 0);
    coir_parker_done(&parker);
    return coir_event_wait(&event);
}

static void wake_once(void)
{
    while (!__atomic_load_n(&count, __ATOMIC_ACQUIRE))
        model_pause();
    coir_waker_wake(waker);
}

TEST(waker_against_another_case)
{
    model_run(&(struct model){"waker against another case",
                              1,
                              PREEMPTIONS,
                              reset,
                              select_beside_an_event,
                              {wake_once, set_event},
                              no_check,
                              0,
                              0});
}

/* ---- channels ---- */

static int send_42(void *arg)
{
    (void)arg;
    uint64_t item = 42;
    results[0] = coir_channel_send(channel, &item);
    return 0;
}

static int receive_one(void *arg)
{
    (void)arg;
    uint64_t item = 0;
    results[1] = coir_channel_recv(channel, &item);
    count += (int)item;
    return 0;
}

static int channel_against_cancel(size_t capacity)
{
    CHECK_EQ(coir_channel_new(sizeof(uint64_t), capacity, &channel), 0);
    COIR_SERVING_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.place = COIR_ON_WORKER(1);
    CHECK_EQ(coir_go_with(scope, &options, send_42, NULL), 0);
    options.place = COIR_HERE;
    options.handle = &handle;
    CHECK_EQ(coir_go_with(scope, &options, receive_one, NULL), 0);
    coir_yield();
    coir_yield();
    coir_cancel(&handle);
    CHECK_EQ(coir_join(&handle), 0);
    coir_channel_close(channel);
    CHECK_EQ(coir_scope_wait(scope), 0);
    uint64_t left = 0;
    coir_channel_try_recv(channel, &left);
    CHECK(results[1] == 0 || results[1] == -ECANCELED);
    /* what was sent was received, or is still there */
    CHECK_EQ(results[0] == 0, count + (int)left == 42);
    coir_channel_free(channel);
    return 0;
}

static int cancel_receive_0(void *arg)
{
    (void)arg;
    return channel_against_cancel(0);
}

static int cancel_receive_1(void *arg)
{
    (void)arg;
    return channel_against_cancel(1);
}

TEST(channel_against_cancel_and_close)
{
    model_run(&(struct model){"unbuffered channel against cancel",
                              2,
                              PREEMPTIONS,
                              reset,
                              cancel_receive_0,
                              {NULL, NULL},
                              no_check,
                              0,
                              0});
    model_run(&(struct model){"channel against cancel",
                              2,
                              PREEMPTIONS,
                              reset,
                              cancel_receive_1,
                              {NULL, NULL},
                              no_check,
                              0,
                              0});
}

static int close_it(void *arg)
{
    (void)arg;
    coir_channel_close(channel);
    return 0;
}

static int close_against_receive(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_channel_new(sizeof(uint64_t), 1, &channel), 0);
    {
        COIR_SERVING_SCOPE(scope);
        CHECK_EQ(coir_go_on(scope, 1, close_it, NULL), 0);
        receive_one(NULL);
        CHECK_EQ(results[1], -EPIPE);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    coir_channel_free(channel);
    return 0;
}

TEST(close_against_receive_)
{
    model_run(&(struct model){"close against receive",
                              2,
                              PREEMPTIONS,
                              reset,
                              close_against_receive,
                              {NULL, NULL},
                              no_check,
                              0,
                              0});
}

/* ---- selects that must be decided together ---- */

static coir_channel *sides[2];

static int select_both(void *arg)
{
    uint64_t out = 10, in = 0;
    coir_case waits[] = {coir_case_send(sides[0], &out), coir_case_recv(sides[1], &in),
                         coir_case_event(&event)};
    int which = coir_select_in_order(waits, 3);
    *(int *)arg = which == 0 ? -10 : which == 1 ? (int)in : 0;
    return 0;
}

static int select_other_way(void *arg)
{
    uint64_t out = 20, in = 0;
    coir_case waits[] = {coir_case_event(&event), coir_case_send(sides[1], &out),
                         coir_case_recv(sides[0], &in)};
    /* it waits for the event already when it meets the other one */
    int which = coir_select_in_order(waits, 3);
    *(int *)arg = which == 1 ? -20 : which == 2 ? (int)in : 0;
    return 0;
}

/* `yields`: the other one waits already, perhaps, when this one begins. */
static void let_two_select(bool yields)
{
    for (int i = 0; i < 2; i++)
        CHECK_EQ(coir_channel_new(sizeof(uint64_t), 0, &sides[i]), 0);
    {
        COIR_SERVING_SCOPE(scope);
        CHECK_EQ(coir_go_on(scope, 1, select_both, &results[0]), 0);
        if (yields)
            coir_yield();
        select_other_way(&results[1]);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    CHECK_EQ(results[0] + results[1], 0); /* what one gave the other got */
    for (int i = 0; i < 2; i++)
        coir_channel_free(sides[i]);
}

static int two_selects(void *arg)
{
    (void)arg;
    let_two_select(false);
    CHECK(results[0] != 0);
    return 0;
}

static int two_selects_and_an_event(void *arg)
{
    (void)arg;
    let_two_select(true);
    return 0;
}

TEST(selects_are_decided_together)
{
    model_run(&(struct model){
        "two selects", 2, PREEMPTIONS, reset, two_selects, {NULL, NULL}, no_check, 0, 0});
    model_run(&(struct model){"two selects and an event",
                              2,
                              PREEMPTIONS,
                              reset,
                              two_selects_and_an_event,
                              {set_event, NULL},
                              no_check,
                              0,
                              0});
}

/* ---- mutexes ---- */

static int lock_and_count(void *arg)
{
    (void)arg;
    int rc = coir_mutex_lock(&mutex);
    if (rc < 0)
        return 0;
    int before = count;
    coir_yield();
    count = before + 1;
    coir_mutex_unlock(&mutex);
    return 0;
}

static int contend(void *arg)
{
    (void)arg;
    COIR_SERVING_SCOPE(scope);
    CHECK_EQ(coir_go_on(scope, 1, lock_and_count, NULL), 0);
    CHECK_EQ(coir_go(scope, lock_and_count, NULL), 0);
    lock_and_count(NULL);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(count, 3);
    return 0;
}

static int contend_and_cancel(void *arg)
{
    (void)arg;
    COIR_SERVING_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = &handle;
    CHECK_EQ(coir_go_on(scope, 1, lock_and_count, NULL), 0);
    CHECK_EQ(coir_go_with(scope, &options, lock_and_count, NULL), 0);
    coir_yield();
    coir_cancel(&handle);
    lock_and_count(NULL);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK(count == 2 || count == 3);
    CHECK_EQ(coir_mutex_try_lock(&mutex), 0);
    return 0;
}

static int try_and_count(void *arg)
{
    (void)arg;
    if (coir_mutex_try_lock(&mutex) == 0) {
        count++;
        coir_mutex_unlock(&mutex);
    }
    return 0;
}

/* A waiter that was woken to try again, finds the mutex taken by another worker, and is cancelled:
 * the mutex is not left CONTENDED without a waiter. */
static int cancel_who_retries(void *arg)
{
    (void)arg;
    COIR_SERVING_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = &handle;
    CHECK_EQ(coir_mutex_lock(&mutex), 0);
    CHECK_EQ(coir_go_with(scope, &options, lock_and_count, NULL), 0);
    coir_yield();
    CHECK_EQ(coir_go_on(scope, 1, try_and_count, NULL), 0);
    coir_mutex_unlock(&mutex);
    coir_cancel(&handle);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_mutex_try_lock(&mutex), 0);
    return 0;
}

TEST(mutex_between_workers)
{
    model_run(&(struct model){"mutex against a cancelled retry",
                              2,
                              PREEMPTIONS,
                              reset,
                              cancel_who_retries,
                              {NULL, NULL},
                              no_check,
                              0,
                              0});
    model_run(
        &(struct model){"mutex", 2, PREEMPTIONS, reset, contend, {NULL, NULL}, no_check, 0, 0});
    model_run(&(struct model){"mutex against cancel",
                              2,
                              PREEMPTIONS,
                              reset,
                              contend_and_cancel,
                              {NULL, NULL},
                              no_check,
                              0,
                              0});
}

/* ---- deadlocks are found in every order, and only they ---- */

static int wait_here_too(void *arg)
{
    coir_event_wait(arg);
    return 0;
}

static int dead(void *arg)
{
    (void)arg;
    COIR_SERVING_SCOPE(scope);
    CHECK_EQ(coir_go_on(scope, 1, wait_here_too, &event), 0);
    wait_here_too(&event);
    coir_scope_wait(scope);
    return 0;
}

static int not_dead(void *arg)
{
    (void)arg;
    COIR_SERVING_SCOPE(scope);
    CHECK_EQ(coir_go_on(scope, 1, wait_here_too, &event), 0);
    coir_yield();
    coir_event_set(&event);
    CHECK_EQ(coir_scope_wait(scope), 0);
    return 0;
}

/* ---- what may wake a task, and goes without a message ---- */

static int wait_for_a_holder(void *arg)
{
    coir_runtime_hold(coir_runtime_current());
    __atomic_store_n(&count, 1, __ATOMIC_RELEASE);
    return wait_for_event(arg);
}

static void wait_for_the_start(void)
{
    while (!__atomic_load_n(&count, __ATOMIC_ACQUIRE))
        model_pause();
}

static void release_it(void)
{
    wait_for_the_start();
    coir_runtime_release(model_runtime);
}

static int wait_for_a_waker(void *arg)
{
    coir_parker parker;
    (void)arg;
    CHECK_EQ(coir_parker_init(&parker), 0);
    waker = coir_parker_waker(&parker);
    __atomic_store_n(&count, 1, __ATOMIC_RELEASE);
    int rc = coir_parker_wait(&parker);
    coir_parker_done(&parker);
    return rc;
}

static void drop_it(void)
{
    wait_for_the_start();
    coir_waker_drop(waker);
}

/* The waker is of a parker in which nobody waits. */
static int wait_beside_a_parker(void *arg)
{
    coir_parker parker;
    CHECK_EQ(coir_parker_init(&parker), 0);
    waker = coir_parker_waker(&parker);
    __atomic_store_n(&count, 1, __ATOMIC_RELEASE);
    int rc = wait_for_event(arg);
    coir_parker_done(&parker);
    return rc;
}

static void use_it(void)
{
    wait_for_the_start();
    coir_waker_wake(waker);
}

static void hold_drop_and_set(void)
{
    wait_for_the_start();
    coir_runtime_hold(model_runtime);
    coir_waker_drop(waker);
    coir_event_set(&event);
    coir_runtime_release(model_runtime);
}

/* A drain, and what is to be stopped, have timers: with one, no worker is stuck. */
static int wait_behind_a_stop(void *arg)
{
    coir_runtime_current()->config.drain_timeout = COIR_NEVER;
    __atomic_store_n(&count, 1, __ATOMIC_RELEASE);
    CHECK_EQ(coir_sleep_for(COIR_S), -ECANCELED);
    COIR_SHIELD;
    return wait_for_event(arg);
}

static void stop_and_set(void)
{
    wait_for_the_start();
    coir_runtime_stop(model_runtime);
    while (!ci_load(&model_runtime->deadlocked))
        model_pause();
    coir_event_set(&event);
}

TEST(who_goes_without_a_message_hides_no_deadlock)
{
    static const struct {
        const char *name;
        coir_task_fn *start;
        void (*plain)(void);
    } rows[] = {{"deadlock behind a hold", wait_for_a_holder, release_it},
                {"deadlock behind a waker", wait_for_a_waker, drop_it},
                {"deadlock beside a waker that is dropped", wait_beside_a_parker, drop_it},
                {"deadlock beside a waker that is used", wait_beside_a_parker, use_it},
                {"deadlock behind a stop", wait_behind_a_stop, stop_and_set}};
    for (int i = 0; i < 10; i++)
        model_run(&(struct model){rows[i / 2].name,
                                  1 + (unsigned)i % 2,
                                  PREEMPTIONS - 1 - i % 2,
                                  reset,
                                  rows[i / 2].start,
                                  {rows[i / 2].plain, NULL},
                                  no_check,
                                  -EDEADLK,
                                  COIR_DEADLOCK_END});
}

TEST(who_holds_before_it_drops_its_waker_is_waited_for)
{
    for (unsigned workers = 1; workers <= 2; workers++)
        model_run(&(struct model){"no deadlock behind a hold after a waker",
                                  workers,
                                  PREEMPTIONS - (int)workers + 1,
                                  reset,
                                  wait_beside_a_parker,
                                  {hold_drop_and_set, NULL},
                                  no_check,
                                  0,
                                  COIR_DEADLOCK_END});
}

TEST(deadlocks_and_only_deadlocks_are_found)
{
    model_run(&(struct model){"deadlock",
                              2,
                              PREEMPTIONS,
                              reset,
                              dead,
                              {NULL, NULL},
                              no_check,
                              -EDEADLK,
                              COIR_DEADLOCK_END});
    model_run(&(struct model){"no deadlock",
                              2,
                              PREEMPTIONS,
                              reset,
                              not_dead,
                              {NULL, NULL},
                              no_check,
                              0,
                              COIR_DEADLOCK_END});
}

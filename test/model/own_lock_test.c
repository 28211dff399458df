/* Every order of a worker that owns a lock and another thread that takes it away: alone, and in
 * mutexes, semaphores and channels. */
#include "sync/own_lock.h"

#include <coir.h>
#include <errno.h>
#include <string.h>

#include "harness.h"
#include "model/model.h"
#include "sync/channel.h"

enum { PREEMPTIONS = 3 };

static struct ci_own_lock lock;
static coir_mutex mutex;
static coir_semaphore semaphore;
static coir_channel *channel;
static int count, taken, meetings;
static bool inside;

static void reset(void)
{
    lock = (struct ci_own_lock){0, 0, 0};
    mutex = (coir_mutex)COIR_MUTEX_INIT;
    semaphore = (coir_semaphore)COIR_SEMAPHORE_INIT(1);
    count = taken = 0;
    inside = false;
}

/* What the lock guards: another thread in it would be seen. */
static void enter_and_leave(void)
{
    meetings += ci_load_relaxed(&inside);
    ci_store_relaxed(&inside, true);
    count++;
    ci_store_relaxed(&inside, false);
}

static void no_meeting(void)
{
    CHECK_EQ(meetings, 0);
}

/* ---- the lock by itself ---- */

static void use_lock(void)
{
    ci_own_lock_take(&lock);
    enter_and_leave();
    ci_own_lock_give(&lock);
}

static int use_lock_thrice(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++)
        use_lock();
    return 0;
}

static int use_lock_on_both(void *arg)
{
    COIR_SERVING_SCOPE(scope);
    CHECK_EQ(coir_go_on(scope, 1, use_lock_thrice, arg), 0);
    use_lock_thrice(arg);
    return coir_scope_wait(scope);
}

static void check_three_and_one(void)
{
    CHECK_EQ(count, 4);
    no_meeting();
}

static void check_six(void)
{
    CHECK_EQ(count, 6);
    no_meeting();
    CHECK_EQ(lock.word, CI_OWN_LOCK_SHARED);
}

static const struct model owner_and_thread = {"a lock, its owner and a thread",
                                              1,
                                              PREEMPTIONS,
                                              reset,
                                              use_lock_thrice,
                                              {use_lock, NULL},
                                              check_three_and_one,
                                              0,
                                              0};

TEST(a_lock_is_taken_away_from_its_owner)
{
    model_run(&owner_and_thread);
}

TEST(a_lock_is_first_taken_by_two_workers)
{
    model_run(&(struct model){"a lock and two workers",
                              2,
                              PREEMPTIONS,
                              reset,
                              use_lock_on_both,
                              {NULL, NULL},
                              check_six,
                              0,
                              0});
}

static void check_nothing(void)
{
    ci_store_relaxed(&inside, false);
}

/* Without the barrier both are inside in some order: were this not found, the model would prove
 * nothing. */
TEST(a_missing_barrier_is_found)
{
    struct model planted = owner_and_thread;
    planted.name = "the same without the barrier";
    planted.check = check_nothing;
    model_without_barrier = true;
    model_run(&planted);
    model_without_barrier = false;
    CHECK(meetings > 0);
    meetings = 0;
}

/* ---- in mutexes, semaphores and channels ---- */

static int lock_and_unlock_twice(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(coir_mutex_lock(&mutex), 0);
        enter_and_leave();
        coir_mutex_unlock(&mutex);
    }
    return 0;
}

static int lock_on_both(void *arg)
{
    COIR_SERVING_SCOPE(scope);
    CHECK_EQ(coir_go_on(scope, 1, lock_and_unlock_twice, arg), 0);
    lock_and_unlock_twice(arg);
    return coir_scope_wait(scope);
}

static void try_mutex(void)
{
    if (coir_mutex_try_lock(&mutex) < 0)
        return;
    enter_and_leave();
    taken++;
    coir_mutex_unlock(&mutex);
}

static void check_mutex(void)
{
    CHECK_EQ(count, 2 + taken);
    no_meeting();
    CHECK_EQ(coir_mutex_try_lock(&mutex), 0);
}

static void check_four(void)
{
    CHECK_EQ(count, 4);
    no_meeting();
}

TEST(a_mutex_is_tried_by_a_thread)
{
    model_run(&(struct model){"a mutex, its owner and a thread",
                              1,
                              PREEMPTIONS,
                              reset,
                              lock_and_unlock_twice,
                              {try_mutex, NULL},
                              check_mutex,
                              0,
                              0});
}

TEST(a_mutex_is_locked_by_two_workers)
{
    model_run(&(struct model){"a mutex and two workers",
                              2,
                              PREEMPTIONS - 1,
                              reset,
                              lock_on_both,
                              {NULL, NULL},
                              check_four,
                              0,
                              0});
}

/* HELD, and owned by no worker. */
static void reset_held(void)
{
    reset();
    mutex.opaque[0] = 1 /* HELD */ | (uint64_t)CI_OWN_LOCK_SHARED << 32;
    mutex.opaque[1] = CI_OWN_LOCK_SHARED;
}

static int spin_and_lock(void *arg)
{
    (void)arg;
    ci_worker_current->loop.spin_ticks = 1; /* as with several CPUs */
    CHECK_EQ(coir_mutex_lock(&mutex), 0);
    CHECK(mutex.opaque[4] != 0); /* dumps are told that this task has it */
    enter_and_leave();
    coir_mutex_unlock(&mutex);
    return 0;
}

static void unlock_mutex(void)
{
    coir_mutex_unlock(&mutex);
}

static void check_spun(void)
{
    CHECK_EQ(count, 1 + taken);
    no_meeting();
    CHECK_EQ(coir_mutex_try_lock(&mutex), 0);
}

TEST(a_mutex_is_spun_for)
{
    model_run(&(struct model){"a mutex that a fiber spins for",
                              1,
                              PREEMPTIONS,
                              reset_held,
                              spin_and_lock,
                              {unlock_mutex, try_mutex},
                              check_spun,
                              0,
                              0});
}

static int lock_for_a_thread(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_mutex_lock(&mutex), 0);
    coir_mutex_unlock(&mutex);
    CHECK_EQ(coir_mutex_lock(&mutex), 0); /* owned, and held: the thread gives it back */
    ci_store(&taken, 1);
    CHECK_EQ(coir_mutex_lock(&mutex), 0);
    coir_mutex_unlock(&mutex);
    return 0;
}

static void unlock_for_the_owner(void)
{
    while (!ci_load(&taken))
        model_pause();
    coir_mutex_unlock(&mutex);
}

static void check_free(void)
{
    CHECK_EQ(coir_mutex_try_lock(&mutex), 0);
}

TEST(a_mutex_is_unlocked_by_a_thread)
{
    model_run(&(struct model){"a mutex that a thread gives back",
                              1,
                              PREEMPTIONS,
                              reset,
                              lock_for_a_thread,
                              {unlock_for_the_owner, NULL},
                              check_free,
                              0,
                              0});
}

static int acquire_and_release_twice(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(coir_semaphore_acquire(&semaphore, 1), 0);
        enter_and_leave();
        CHECK_EQ(coir_semaphore_release(&semaphore, 1), 0);
    }
    return 0;
}

static void try_semaphore(void)
{
    if (coir_semaphore_try_acquire(&semaphore, 1) < 0)
        return;
    enter_and_leave();
    taken++;
    CHECK_EQ(coir_semaphore_release(&semaphore, 1), 0);
}

static void check_semaphore(void)
{
    CHECK_EQ(count, 2 + taken);
    no_meeting();
    CHECK_EQ(coir_semaphore_units(&semaphore), 1);
}

TEST(a_semaphore_is_tried_by_a_thread)
{
    model_run(&(struct model){"a semaphore, its owner and a thread",
                              1,
                              PREEMPTIONS,
                              reset,
                              acquire_and_release_twice,
                              {try_semaphore, NULL},
                              check_semaphore,
                              0,
                              0});
}

static int receive_what_comes(void *arg)
{
    char item = 0;
    while (coir_channel_recv(arg, &item) == 0)
        CHECK_EQ(item, ++count);
    return 0;
}

static void send_one(void)
{
    const char item = 2;
    while (!ci_load(&taken))
        model_pause();
    CHECK_EQ(coir_channel_try_send(channel, &item), 0);
    coir_channel_close(channel);
}

static int send_and_receive(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_channel_new(1, 2, &channel), 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, receive_what_comes, channel), 0);
    CHECK_EQ(coir_channel_send(channel, &(char){1}), 0);
    ci_store(&taken, 1);
    return coir_scope_wait(scope);
}

static void check_channel(void)
{
    CHECK_EQ(count, 2);
    coir_channel_free(channel);
}

TEST(a_channel_is_sent_to_by_a_thread)
{
    model_run(&(struct model){"a channel, its owner and a thread",
                              1,
                              PREEMPTIONS,
                              reset,
                              send_and_receive,
                              {send_one, NULL},
                              check_channel,
                              0,
                              0});
}

/* ---- leases of a channel ---- */

enum { LEASED_SLOTS = 3, LEASED_ITEMS = 5 };

static int calm, ended;

static int send_past_the_end(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_channel_new(1, LEASED_SLOTS, &channel), 0);
    channel->own_lock.word = channel->own_lock.owner = CI_OWN_LOCK_SHARED;
    ci_channel_begin_leases(channel);
    channel->lease.calm = (uint32_t)calm;
    ci_store(&taken, 1);
    COIR_SERVING_SCOPE(scope);
    for (char item = 1; item <= LEASED_ITEMS; item++) {
        CHECK_EQ(coir_channel_send(channel, &item), 0);
        if (item == 2)
            CHECK_EQ(coir_go_on(scope, 1, receive_what_comes, channel), 0);
        size_t waiting = coir_channel_count(channel); /* settles */
        CHECK(waiting <= LEASED_SLOTS);
    }
    coir_channel_close(channel);
    return coir_scope_wait(scope);
}

/* What a child of fork has of the channel, whose other threads stand where they stood. */
static void look_as_a_child(void)
{
    while (!ci_load(&taken))
        model_pause();
    ci_load(&taken); /* at any later time */
    size_t leased = ci_glance(&channel->lease.left) + ci_glance(&channel->lease.taken);
    CHECK(leased <= ci_glance(&channel->ring.count));
}

static void check_leased(void)
{
    CHECK_EQ(count, LEASED_ITEMS);
    ended += !channel->lease.begun;
    coir_channel_free(channel);
}

static void model_leases(const char *name, void (*thread)(void))
{
    model_run(&(struct model){
        name, 2, PREEMPTIONS - 1, reset, send_past_the_end, {thread, NULL}, check_leased, 0, 0});
}

TEST(leases_of_a_channel_between_two_workers)
{
    model_leases("leases of a channel", NULL);
    CHECK_EQ(ended, 0);
}

TEST(leases_that_end_between_two_workers)
{
    calm = CI_CHANNEL_CALM - 2;
    model_leases("leases that end", NULL);
    CHECK(ended > 0);
    calm = ended = 0;
}

TEST(a_child_of_fork_never_has_more_leased_than_there_is)
{
    model_leases("leases and a child of fork", look_as_a_child);
}

static int sum;

static int receive_two(void *arg)
{
    for (char item, i = 0; i < 2; i++) {
        CHECK_EQ(coir_channel_recv(arg, &item), 0);
        sum += item;
        count++;
    }
    return 0;
}

/* Leases begin, and another receiver has one, while a receive that has seen none takes the lock. */
static int begin_leases_late(void *arg)
{
    (void)arg;
    sum = 0;
    CHECK_EQ(coir_channel_new(1, LEASED_ITEMS, &channel), 0);
    channel->own_lock.word = channel->own_lock.owner = CI_OWN_LOCK_SHARED;
    for (char item = 1; item <= LEASED_ITEMS; item++)
        CHECK_EQ(coir_channel_send(channel, &item), 0);
    COIR_SERVING_SCOPE(scope);
    CHECK_EQ(coir_go_on(scope, 1, receive_two, channel), 0);
    ci_own_lock_take(channel->lock);
    ci_channel_begin_leases(channel);
    ci_own_lock_give(channel->lock);
    receive_two(channel);
    return coir_scope_wait(scope);
}

static void check_all_once(void)
{
    CHECK_EQ(count, 4);
    CHECK_EQ(sum, 1 + 2 + 3 + 4);
    CHECK_EQ(coir_channel_count(channel), LEASED_ITEMS - 4);
    coir_channel_free(channel);
}

TEST(leases_begin_beside_a_receive)
{
    model_run(&(struct model){"leases that begin",
                              2,
                              PREEMPTIONS - 1,
                              reset,
                              begin_leases_late,
                              {NULL, NULL},
                              check_all_once,
                              0,
                              0});
}

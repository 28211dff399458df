/* Every order of who lets an object go, and who finds that and releases its memory at once. */
#include "model/model.h"

#include <errno.h>
#include <string.h>

#include "harness.h"

enum { PREEMPTIONS = 3 };

static int count;
static coir_mutex mutex;
static coir_event event;
static coir_semaphore semaphore;
static coir_shared_mutex shared;
static coir_handle handle;

static void reset(void)
{
    count = 0;
    mutex = (coir_mutex)COIR_MUTEX_INIT;
    event = (coir_event)COIR_EVENT_INIT;
    semaphore = (coir_semaphore)COIR_SEMAPHORE_INIT(0);
    shared = (coir_shared_mutex)COIR_SHARED_MUTEX_INIT;
}

/* Nothing may be written to what was released. */
static void release_memory(void *memory, size_t size)
{
    memset(memory, 0x5a, size);
}

static void check_released(const void *memory, size_t size)
{
    for (size_t i = 0; i < size; i++)
        CHECK_EQ(((const unsigned char *)memory)[i], 0x5a);
}

static void release_event(void)
{
    while (!coir_event_is_set(&event))
        model_pause();
    release_memory(&event, sizeof event);
}

static void set_event(void)
{
    coir_event_set(&event);
}

static int set_from_a_worker(void *arg)
{
    (void)arg;
    coir_event_set(&event);
    return 0;
}

static void check_event(void)
{
    check_released(&event, sizeof event);
}

static int lock_in_vain(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_mutex_lock(&mutex), -ECANCELED);
    return 0;
}

/* Its last waiter has given up. */
static int unlock_for_good(void *arg)
{
    (void)arg;
    COIR_SERVING_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = &handle;
    CHECK_EQ(coir_mutex_lock(&mutex), 0);
    CHECK_EQ(coir_go_with(scope, &options, lock_in_vain, NULL), 0);
    coir_yield();
    coir_cancel(&handle);
    CHECK_EQ(coir_scope_wait(scope), 0);
    __atomic_store_n(&count, 1, __ATOMIC_RELEASE);
    coir_mutex_unlock(&mutex);
    __atomic_store_n(&count, 2, __ATOMIC_RELEASE);
    return 0;
}

static void release_mutex(void)
{
    while (!__atomic_load_n(&count, __ATOMIC_ACQUIRE))
        model_pause();
    while (coir_mutex_try_lock(&mutex) < 0)
        if (__atomic_load_n(&count, __ATOMIC_ACQUIRE) == 1)
            model_pause();
    coir_mutex_unlock(&mutex);
    release_memory(&mutex, sizeof mutex);
}

static void check_mutex(void)
{
    check_released(&mutex, sizeof mutex);
}

static int wait_and_release_event(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_event_wait(&event), 0);
    release_memory(&event, sizeof event);
    return 0;
}

static int give_unit(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_semaphore_units(&semaphore), 0);
    __atomic_store_n(&count, 1, __ATOMIC_RELEASE);
    CHECK_EQ(coir_semaphore_release(&semaphore, 1), 0);
    __atomic_store_n(&count, 2, __ATOMIC_RELEASE);
    return 0;
}

static void release_semaphore(void)
{
    while (coir_semaphore_try_acquire(&semaphore, 1) < 0)
        if (__atomic_load_n(&count, __ATOMIC_ACQUIRE) < 2)
            model_pause();
    release_memory(&semaphore, sizeof semaphore);
}

static void check_semaphore(void)
{
    check_released(&semaphore, sizeof semaphore);
}

static int give_shared_back(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_shared_mutex_share(&shared), 0);
    __atomic_store_n(&count, 1, __ATOMIC_RELEASE);
    coir_shared_mutex_unlock(&shared);
    __atomic_store_n(&count, 2, __ATOMIC_RELEASE);
    return 0;
}

static void release_shared(void)
{
    while (!__atomic_load_n(&count, __ATOMIC_ACQUIRE))
        model_pause();
    while (coir_shared_mutex_try_lock(&shared) < 0)
        if (__atomic_load_n(&count, __ATOMIC_ACQUIRE) < 2)
            model_pause();
    coir_shared_mutex_unlock(&shared);
    release_memory(&shared, sizeof shared);
}

static void check_shared(void)
{
    check_released(&shared, sizeof shared);
}

TEST(what_was_let_go_is_not_touched)
{
    model_run(&(struct model){"event that was waited for",
                              1,
                              PREEMPTIONS,
                              reset,
                              wait_and_release_event,
                              {set_event, NULL},
                              check_event,
                              0,
                              0});
    model_run(&(struct model){"semaphore",
                              1,
                              PREEMPTIONS,
                              reset,
                              give_unit,
                              {release_semaphore, NULL},
                              check_semaphore,
                              0,
                              0});
    model_run(&(struct model){"shared mutex",
                              1,
                              PREEMPTIONS,
                              reset,
                              give_shared_back,
                              {release_shared, NULL},
                              check_shared,
                              0,
                              0});
    model_run(&(struct model){"event that is set",
                              1,
                              PREEMPTIONS,
                              reset,
                              set_from_a_worker,
                              {release_event, NULL},
                              check_event,
                              0,
                              0});
    model_run(&(struct model){"mutex that is given back",
                              1,
                              PREEMPTIONS,
                              reset,
                              unlock_for_good,
                              {release_mutex, NULL},
                              check_mutex,
                              0,
                              0});
}

/* The public poller: a selector, a table of tokens, and sources, which the program sets itself.
 *
 * Each registration of a descriptor has a new generation, so an event of an earlier user of its
 * number is recognised. Sources that were set are in a list under a lock; a thread that sets one
 * while the poller sleeps clears `asleep`, and wakes it: one wake-up a sleep. Waits begin with
 * descriptors and sources in turn: what is always ready of one kind leaves room for the other,
 * however few events a wait may report.
 *
 * 1. One thread at a time waits, and only while it does is the poller asleep.
 * 2. A source that is in the list has events, and is tied to this poller. A poller is freed after
 * its sources have been removed.
 */
#include "coir/poller.h"

#include <errno.h>
#include <limits.h>

#include "base/check.h"
#include "base/list.h"
#include "base/options.h"
#include "base/time.h"
#include "driver/kernel.h"
#include "driver/open.h"
#include "driver/selector.h"
#include "sys/clock.h"
#include "sys/fork.h"
#include "sys/lock.h"
#include "sys/misuse.h"

enum { BATCH = 64 };

struct registration {
    uint64_t token;
    uint32_t generation;
    bool used;
    uint8_t interest; /* COIR_READ, COIR_WRITE */
};

struct coir_poller {
    coir_allocator allocator;
    struct ci_selector *selector;
    struct registration *registrations; /* by descriptor */
    size_t room;
    bool descriptors_first; /* in the next wait */
    struct ci_lock lock;    /* guards what follows, and the sources */
    bool waiting;           /* a thread is in coir_poller_wait */
    bool asleep;            /* it sleeps, or is about to */
    struct ci_list set;
    size_t source_count; /* that are tied */
};

struct source {
    coir_poller *poller; /* NULL: not tied */
    uint64_t token;
    struct ci_list link; /* of those that were set */
    int events;
};
CI_LEAVES_SPARE_WORDS(struct source, coir_source);

/* ---- descriptors ---- */

int coir_poller_new(coir_poller **ret_poller)
{
    return ret_poller ? coir_poller_new_with(NULL, ret_poller)
                      : CI_MISUSE(-EINVAL, "ret_poller is NULL");
}

int coir_poller_new_with(const coir_poller_options *given, coir_poller **ret_poller)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!ret_poller)
        return CI_MISUSE(-EINVAL, "ret_poller is NULL");
    coir_poller_options options = COIR_POLLER_OPTIONS;
    coir_allocator allocator;
    int rc = ci_options_read(&options, sizeof options, given);
    if (rc == 0)
        rc = ci_allocator_read(&allocator, options.allocator);
    if (rc < 0)
        return rc;
    coir_poller *poller = ci_alloc_zero(&allocator, sizeof *poller);
    if (!poller)
        return -ENOMEM;
    poller->allocator = allocator;
    rc = ci_selector_open(options.driver ? options.driver : ci_driver_selector, &poller->allocator,
                          &poller->selector);
    if (rc < 0) {
        ci_free(&allocator, poller, sizeof *poller);
        return rc;
    }
    ci_list_init(&poller->set);
    ci_fork_forbid();
    *ret_poller = poller;
    return 0;
}

void coir_poller_free(coir_poller *poller)
{
    if (!poller || ci_forked() ||
        CI_REFUSED_AS(-EBUSY, poller->source_count > 0 || poller->waiting,
                      "remove its sources first, and let coir_poller_wait return"))
        return;
    ci_check(poller->source_count == 0 && !poller->waiting, "poller.c 2");
    coir_allocator allocator = poller->allocator;
    ci_selector_free(poller->selector);
    ci_free(&allocator, poller->registrations, poller->room * sizeof *poller->registrations);
    ci_free(&allocator, poller, sizeof *poller);
    ci_fork_allow();
}

static struct registration *find(coir_poller *poller, coir_fd fd)
{
    return fd >= 0 && (size_t)fd < poller->room && poller->registrations[fd].used
               ? &poller->registrations[fd]
               : NULL;
}

static enum ci_trigger trigger_of(const coir_poller *poller, int interest)
{
    /* over poll(2), level-triggered: an edge would have to be armed again by the program */
    bool edges = !poller->selector->kind->rearm;
    return interest & COIR_ONE_SHOT        ? CI_ONE_SHOT
           : interest & COIR_EDGE && edges ? CI_EDGE
                                           : CI_LEVEL;
}

static unsigned events_of(int interest)
{
    return (unsigned)interest & (COIR_READ | COIR_WRITE);
}

int coir_poller_add(coir_poller *poller, coir_fd fd, uint64_t token, int interest)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!poller)
        return CI_MISUSE(-EINVAL, "poller is NULL");
    if (fd < 0)
        return -EBADF;
    if (!events_of(interest))
        return -EINVAL;
    int rc = ci_kernel_reserve(&poller->allocator, (void **)&poller->registrations, &poller->room,
                               sizeof *poller->registrations, fd);
    if (rc < 0)
        return rc;
    struct registration *registration = &poller->registrations[fd];
    uint32_t generation = registration->generation + 1;
    rc = poller->selector->kind->add(poller->selector, fd, generation, events_of(interest),
                                     trigger_of(poller, interest));
    if (rc == 0)
        *registration =
            (struct registration){token, generation, true, (uint8_t)events_of(interest)};
    return rc;
}

int coir_poller_modify(coir_poller *poller, coir_fd fd, uint64_t token, int interest)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!poller)
        return CI_MISUSE(-EINVAL, "poller is NULL");
    struct registration *registration = find(poller, fd);
    if (!registration)
        return -ENOENT;
    if (!events_of(interest))
        return -EINVAL;
    int rc = poller->selector->kind->modify(poller->selector, fd, registration->generation,
                                            events_of(interest), trigger_of(poller, interest));
    if (rc == 0) {
        registration->token = token;
        registration->interest = (uint8_t)events_of(interest);
    }
    return rc;
}

int coir_poller_remove(coir_poller *poller, coir_fd fd)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!poller)
        return CI_MISUSE(-EINVAL, "poller is NULL");
    struct registration *registration = find(poller, fd);
    if (!registration)
        return -ENOENT;
    poller->selector->kind->remove(poller->selector, fd);
    registration->used = false;
    return 0;
}

/* ---- sources ---- */

static struct source *source_of(coir_source *source)
{
    return (struct source *)(void *)source;
}

int coir_source_add(coir_source *opaque, coir_poller *poller, uint64_t token)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!opaque || !poller)
        return CI_MISUSE(-EINVAL, "source or poller is NULL");
    struct source *source = source_of(opaque);
    if (source->poller)
        return CI_MISUSE(-EBUSY, "the source is in a poller; remove it first");
    poller->source_count++;
    ci_list_init(&source->link);
    source->token = token;
    source->events = 0;
    ci_store_release(&source->poller, poller); /* pairs with the acquire in coir_source_set */
    return 0;
}

void coir_source_remove(coir_source *opaque)
{
    if (!opaque || ci_forked())
        return;
    struct source *source = source_of(opaque);
    coir_poller *poller = source->poller;
    if (!poller)
        return;
    poller->source_count--;
    ci_lock_take(&poller->lock);
    ci_list_remove(&source->link);
    ci_store_release(&source->poller, NULL); /* as in coir_source_add */
    ci_lock_give(&poller->lock);
}

int coir_source_set(coir_source *opaque, int events)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!opaque || !events)
        return CI_MISUSE(-EINVAL, "source or events is NULL");
    struct source *source = source_of(opaque);
    /* pairs with the release in coir_source_add */
    coir_poller *poller = ci_load_acquire(&source->poller);
    if (!poller)
        return -ENOENT;
    ci_lock_take(&poller->lock);
    if (ci_load_acquire(&source->poller) != poller) { /* it was removed meanwhile */
        ci_lock_give(&poller->lock);
        return -ENOENT;
    }
    if (ci_list_empty(&source->link))
        ci_list_push(&poller->set, &source->link);
    source->events |= events;
    bool wakes = poller->asleep;
    ci_check(!wakes || ci_load_relaxed(&poller->waiting), "poller.c 1");
    poller->asleep = false;
    if (wakes) /* under the lock: the thread that gets the event may free the poller */
        poller->selector->kind->wake(poller->selector);
    ci_lock_give(&poller->lock);
    return 0;
}

/* Moves sources that were set to `events`; the lock is held. */
static int take_set(coir_poller *poller, coir_poller_event *events, int max)
{
    int count = 0;
    while (count < max && !ci_list_empty(&poller->set)) {
        struct source *source = ci_container_of(ci_list_pop(&poller->set), struct source, link);
        ci_check(source->poller == poller && source->events, "poller.c 2");
        events[count++] = (coir_poller_event){source->token, source->events};
        source->events = 0;
    }
    return count;
}

/* ---- waiting ---- */

/* An edge over epoll(7) tells the end of the peer also where only room is asked for. */
static int translate(const struct registration *registration, uint32_t events)
{
    uint32_t told = registration->interest | (uint32_t)(COIR_HANGUP | COIR_EVENT_ERROR);
    return (int)((events & CI_EVENT_END ? events | COIR_READ : events) & told);
}

static int take_ready(coir_poller *poller, coir_poller_event *events, int max, coir_time timeout)
{
    struct ci_ready ready[BATCH];
    int found = poller->selector->kind->wait(poller->selector, ready, max < BATCH ? max : BATCH,
                                             timeout),
        count = 0;
    if (found < 0)
        return found == -EINTR ? 0 : found;
    for (int i = 0; i < found; i++) {
        const struct registration *registration = find(poller, ready[i].fd);
        if (!registration || registration->generation != ready[i].generation)
            continue;
        int public = translate(registration, ready[i].events);
        if (public)
            events[count++] = (coir_poller_event){registration->token, public};
    }
    return count;
}

/* One look at both kinds; sleeps until `deadline` if there is no source to report. How many events,
 * or the error of the selector. */
static int look(coir_poller *poller, coir_poller_event *events, int events_max, coir_time deadline)
{
    bool sources_first = !poller->descriptors_first;
    poller->descriptors_first = sources_first;
    ci_lock_take(&poller->lock);
    bool sleeps = poller->asleep = ci_list_empty(&poller->set);
    int count = sources_first ? take_set(poller, events, events_max) : 0, found = 0;
    ci_lock_give(&poller->lock);
    if (count < events_max)
        found = take_ready(poller, events + count, events_max - count,
                           sleeps ? ci_time_timeout(deadline, ci_clock_now()) : 0);
    count += found > 0 ? found : 0;
    ci_lock_take(&poller->lock);
    poller->asleep = false;
    count += take_set(poller, events + count, events_max - count);
    ci_lock_give(&poller->lock);
    return count ? count : found;
}

int coir_poller_wait(coir_poller *poller, coir_poller_event *events, size_t events_max,
                     coir_time deadline)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!poller || !events)
        return CI_MISUSE(-EINVAL, "poller or events is NULL");
    if (!events_max)
        return -EINVAL;
    if (ci_exchange(&poller->waiting, true))
        return CI_MISUSE(-EBUSY, "another thread is waiting; one waits at a time");
    int count;
    do
        count = look(poller, events, events_max < INT_MAX ? (int)events_max : INT_MAX, deadline);
    while (count == 0 && (deadline == COIR_NEVER || ci_clock_now() < deadline));
    ci_store(&poller->waiting, false);
    return count;
}

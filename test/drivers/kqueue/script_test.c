/* The kqueue selector's calls, one by one. */
#include <errno.h>
#include <unistd.h>

#include "driver/selector.h"
#include "fake.h"
#include "harness.h"

static struct ci_selector *selector;
static int next;

static void expect(int ident, int filter, unsigned flags, unsigned what, uintptr_t generation)
{
    CHECK(next < fake_change_count);
    const struct kevent *change = &fake_changes[next++];
    CHECK_EQ(change->ident, ident);
    CHECK_EQ(change->filter, filter);
    CHECK_EQ(change->flags, flags);
    CHECK_EQ(change->fflags, what);
    CHECK_EQ((uintptr_t)change->udata, generation);
}

TEST(kqueue_is_asked_for_what_is_wanted)
{
    int pair[2];
    struct ci_ready ready[4];
    CHECK_EQ(ci_kqueue_open(&ci_system_allocator, &selector), 0);
    CHECK_EQ(pipe(pair), 0);
    expect(0, EVFILT_USER, EV_ADD | EV_CLEAR, 0, 0);
    CHECK_EQ(selector->kind->add(selector, pair[1], 5, COIR_READ | COIR_WRITE, CI_EDGE), 0);
    expect(pair[1], EVFILT_READ, EV_ADD | EV_CLEAR, 0, 5);
    expect(pair[1], EVFILT_WRITE, EV_ADD | EV_CLEAR, 0, 5);
    selector->kind->remove(selector, pair[1]);
    expect(pair[1], EVFILT_READ, EV_DELETE, 0, 0);
    expect(pair[1], EVFILT_WRITE, EV_DELETE, 0, 0);
    CHECK_EQ(selector->kind->add(selector, pair[0], 6, COIR_READ, CI_LEVEL), 0);
    expect(pair[0], EVFILT_READ, EV_ADD, 0, 6);
    CHECK_EQ(selector->kind->modify(selector, pair[0], 7, COIR_READ, CI_ONE_SHOT), 0);
    expect(pair[0], EVFILT_WRITE, EV_DELETE, 0, 0);
    expect(pair[0], EVFILT_READ, EV_ADD | EV_ONESHOT, 0, 7);
    CHECK_EQ(write(pair[1], "x", 1), 1);
    CHECK_EQ(selector->kind->wait(selector, ready, 4, -1), 1);
    CHECK(ready[0].fd == pair[0] && ready[0].generation == 7 && ready[0].events == COIR_READ);
    CHECK_EQ(selector->kind->wait(selector, ready, 4, 0), 0);
    selector->kind->wake(selector);
    expect(0, EVFILT_USER, 0, NOTE_TRIGGER, 0);
    CHECK_EQ(selector->kind->wait(selector, ready, 4, -1), 0);
    CHECK_EQ(selector->kind->add(selector, 1000000, 8, COIR_READ, CI_EDGE), -EBADF);
    expect(1000000, EVFILT_READ, EV_ADD | EV_CLEAR, 0, 8);
    selector->kind->free(selector);
}

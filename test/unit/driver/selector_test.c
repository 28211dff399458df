/* Selectors: which events are reported, how often, and by which of several selectors; on every
 * selector of this system. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver/open.h"
#include "harness.h"

static struct ci_selector *selector;
static int ends[2];

/* What is told of a descriptor now; 0: nothing. */
static unsigned told_of(int fd, uint32_t generation)
{
    struct ci_ready ready[8];
    unsigned events = 0;
    for (int i = 0; i < 3; i++) { /* a wake-up, or a poll that is made again, may come between */
        int count = selector->kind->wait(selector, ready, 8, 0);
        CHECK(count >= 0);
        for (int j = 0; j < count; j++) {
            CHECK_EQ(ready[j].fd, fd);
            CHECK_EQ(ready[j].generation, generation);
            events |= ready[j].events;
        }
        if (events)
            break;
    }
    return events;
}

static void on_each(void (*body)(const char *driver))
{
    static const char *const drivers[] = {"epoll", "poll", "io_uring"};
    for (int i = 0; i < 3; i++) {
        int rc = ci_selector_open(drivers[i], &ci_system_allocator, &selector);
        if (rc < 0 && i == 2)
            continue; /* it does not work here */
        CHECK_EQ(rc, 0);
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
        body(drivers[i]);
        ci_selector_free(selector);
        close(ends[0]);
        if (ends[1] >= 0)
            close(ends[1]);
    }
}

static void edge_body(const char *driver)
{
    (void)driver;
    CHECK_EQ(selector->kind->add(selector, ends[0], 7, COIR_READ, CI_EDGE), 0);
    CHECK_EQ(told_of(ends[0], 7), 0);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(told_of(ends[0], 7), COIR_READ);
    CHECK_EQ(told_of(ends[0], 7), 0); /* once */
    if (selector->kind->rearm)
        selector->kind->rearm(selector, ends[0], COIR_READ);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(told_of(ends[0], 7), COIR_READ);
    close(ends[1]);
    ends[1] = -1;
    if (selector->kind->rearm)
        selector->kind->rearm(selector, ends[0], COIR_READ);
    CHECK(told_of(ends[0], 7) & COIR_HANGUP);
    CHECK_EQ(told_of(ends[0], 7), 0); /* once, too */
    CHECK_EQ(told_of(ends[0], 7), 0);
}

/* Something that was asked for never comes, so the descriptor is asked about still. */
static void hangup_body(const char *driver)
{
    int pair[2];
    (void)driver;
    CHECK_EQ(pipe(pair), 0);
    CHECK_EQ(selector->kind->add(selector, pair[0], 3, COIR_READ | COIR_WRITE, CI_EDGE), 0);
    close(pair[1]);
    CHECK(told_of(pair[0], 3) & COIR_HANGUP);
    CHECK_EQ(told_of(pair[0], 3), 0);
    selector->kind->remove(selector, pair[0]);
    close(pair[0]);
}

TEST(an_edge_is_told_once_a_hangup_too)
{
    on_each(edge_body);
    on_each(hangup_body);
}

static void modify_body(const char *driver)
{
    (void)driver;
    CHECK_EQ(selector->kind->modify(selector, ends[0], 1, COIR_READ, CI_LEVEL), -ENOENT);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(selector->kind->add(selector, ends[0], 1, COIR_READ, CI_LEVEL), 0);
    CHECK_EQ(selector->kind->add(selector, ends[0], 1, COIR_READ, CI_LEVEL), -EEXIST);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(told_of(ends[0], 1), COIR_READ); /* again and again */
    CHECK_EQ(selector->kind->modify(selector, ends[0], 2, COIR_WRITE, CI_LEVEL), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(told_of(ends[0], 2), COIR_WRITE); /* not readable, though it is */
    CHECK_EQ(selector->kind->modify(selector, ends[0], 3, COIR_READ | COIR_WRITE, CI_LEVEL), 0);
    CHECK_EQ(told_of(ends[0], 3), COIR_READ | COIR_WRITE);
    CHECK_EQ(selector->kind->modify(selector, ends[0], 4, COIR_READ, CI_ONE_SHOT), 0);
    CHECK_EQ(told_of(ends[0], 4), COIR_READ);
    CHECK_EQ(told_of(ends[0], 4), 0);
    CHECK_EQ(selector->kind->modify(selector, ends[0], 5, COIR_READ, CI_ONE_SHOT), 0);
    CHECK_EQ(told_of(ends[0], 5), COIR_READ);
    CHECK_EQ(selector->kind->modify(selector, ends[0], 5, COIR_WRITE | COIR_READ, CI_EDGE), 0);
    CHECK_EQ(selector->kind->modify(selector, ends[0], 5, COIR_READ, CI_LEVEL), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(told_of(ends[0], 5), COIR_READ);
    selector->kind->remove(selector, ends[0]);
    CHECK_EQ(told_of(ends[0], 5), 0);
    selector->kind->remove(selector, ends[0]); /* twice does nothing */
    CHECK_EQ(selector->kind->modify(selector, ends[0], 6, COIR_READ, CI_LEVEL), -ENOENT);
    CHECK_EQ(selector->kind->add(selector, ends[0], 6, COIR_READ, CI_LEVEL), 0);
    CHECK_EQ(told_of(ends[0], 6), COIR_READ);
    selector->kind->remove(selector, ends[0]);
}

TEST(modify_changes_what_is_told_and_as_whose)
{
    on_each(modify_body);
}

enum { MANY = 600 };

static void many_body(const char *driver)
{
    static int pipes[MANY][2], seen[MANY];
    struct ci_ready ready[MANY];
    (void)driver;
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(pipe(pipes[i]), 0);
        CHECK_EQ(write(pipes[i][1], "x", 1), 1);
        CHECK_EQ(selector->kind->add(selector, pipes[i][0], (uint32_t)i, COIR_READ, CI_EDGE), 0);
    }
    for (int told = 0, idle = 0; told < MANY && idle < 100;) {
        int count = selector->kind->wait(selector, ready, MANY, 0);
        CHECK(count >= 0 && count <= MANY);
        idle = count ? 0 : idle + 1;
        for (int i = 0; i < count; i++) {
            CHECK(ready[i].fd == pipes[ready[i].generation][0] && ready[i].events == COIR_READ);
            CHECK_EQ(seen[ready[i].generation]++, 0);
            told++;
        }
    }
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(seen[i], 1);
        selector->kind->remove(selector, pipes[i][0]);
        close(pipes[i][0]);
        close(pipes[i][1]);
    }
}

TEST(many_that_are_ready_at_once_are_all_told_once)
{
    on_each(many_body);
}

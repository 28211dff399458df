/* The selector over epoll: its own descriptor, and selectors that share another one. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver/open.h"
#include "harness.h"
#include "sys/call.h"

static bool is_readable(struct ci_selector *selector)
{
    struct pollfd ask = {.fd = selector->kind->descriptor(selector), .events = POLLIN};
    return ci_sys_poll(&ask, 1, 0) == 1;
}

TEST(its_descriptor_is_readable_when_a_wait_would_return)
{
    struct ci_selector *selector;
    struct ci_ready ready[4];
    int ends[2];
    CHECK_EQ(ci_selector_open("epoll", &ci_system_allocator, &selector), 0);
    CHECK(!is_readable(selector));
    selector->kind->wake(selector);
    CHECK(is_readable(selector));
    CHECK_EQ(selector->kind->wait(selector, ready, 4, -1), 0); /* a wake-up is no event */
    CHECK(!is_readable(selector));
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(selector->kind->add(selector, ends[0], 9, COIR_READ, CI_EDGE), 0);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK(is_readable(selector));
    CHECK_EQ(selector->kind->wait(selector, ready, 4, -1), 1);
    CHECK(ready[0].fd == ends[0] && ready[0].generation == 9 && ready[0].events == COIR_READ);
    close(ends[0]);
    close(ends[1]);
    ci_selector_free(selector);
}

/* EPOLLEXCLUSIVE allows few other flags, and no change: the kernel would refuse the
 * registration. */
TEST(a_shared_descriptor_is_registered_with_each)
{
    struct ci_selector *selectors[2];
    struct ci_ready ready;
    int ends[2], reported = 0;
    CHECK_EQ(pipe(ends), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(ci_selector_open("epoll", &ci_system_allocator, &selectors[i]), 0);
        CHECK_EQ(selectors[i]->kind->add(selectors[i], ends[0], 1, COIR_READ, CI_EXCLUSIVE), 0);
    }
    CHECK_EQ(write(ends[1], "x", 1), 1);
    for (int i = 0; i < 2; i++)
        reported += selectors[i]->kind->wait(selectors[i], &ready, 1, 0);
    CHECK(reported >= 1); /* at least one, and perhaps both: no selector slept */
    for (int i = 0; i < 2; i++)
        ci_selector_free(selectors[i]);
    close(ends[0]);
    close(ends[1]);
}

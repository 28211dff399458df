/* The selector over io_uring: a poll holds its file, until it is removed. */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "driver/open.h"
#include "harness.h"

static void check_removal(struct ci_selector *selector, enum ci_trigger trigger)
{
    struct ci_ready ready;
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(selector->kind->add(selector, ends[0], 1, COIR_READ, trigger), 0);
    CHECK_EQ(selector->kind->wait(selector, &ready, 1, 0), 0); /* the kernel has the poll */
    selector->kind->remove(selector, ends[0]);
    close(ends[0]);
    CHECK(write(ends[1], "x", 1) < 0 && errno == EPIPE); /* nothing keeps the read end open */
    close(ends[1]);
}

TEST(a_removed_descriptor_is_closed_by_its_close)
{
    struct ci_selector *selector;
    signal(SIGPIPE, SIG_IGN);
    if (ci_selector_open("io_uring", &ci_system_allocator, &selector) < 0)
        return; /* it does not work here */
    check_removal(selector, CI_LEVEL);
    check_removal(selector, CI_EDGE);
    check_removal(selector, CI_ONE_SHOT);
    ci_selector_free(selector);
}

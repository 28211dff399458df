/* The poller, with more events than a wait may report: every descriptor and source gets its
 * share. */
#include <coir/poller.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

enum { SOURCES = 3, DESCRIPTORS = 3, WAITS = 1000 };

/* The descriptors are always readable, the sources are set again as soon as they were reported. */
static void share(const char *driver, int events_max)
{
    coir_poller *poller;
    coir_source sources[SOURCES] = {{{0}}};
    int ends[DESCRIPTORS][2], reported[SOURCES + DESCRIPTORS] = {0};
    int rc = coir_poller_new_with(POLLER_ON(driver), &poller);
    if (rc < 0 && strcmp(driver, "io_uring") == 0)
        return; /* it does not work here */
    CHECK_EQ(rc, 0);
    for (int i = 0; i < SOURCES; i++) {
        CHECK_EQ(coir_source_add(&sources[i], poller, (uint64_t)i), 0);
        CHECK_EQ(coir_source_set(&sources[i], COIR_READ), 0);
    }
    for (int i = 0; i < DESCRIPTORS; i++) {
        CHECK_EQ(pipe(ends[i]), 0);
        CHECK_EQ(write(ends[i][1], "x", 1), 1);
        CHECK_EQ(coir_poller_add(poller, ends[i][0], (uint64_t)(SOURCES + i), COIR_READ), 0);
    }
    for (int i = 0; i < WAITS; i++) {
        coir_poller_event events[8];
        int count = coir_poller_wait(poller, events, (size_t)events_max, COIR_NEVER);
        CHECK(count > 0 && count <= events_max);
        for (int j = 0; j < count; j++) {
            reported[events[j].token]++;
            if (events[j].token < SOURCES)
                CHECK_EQ(coir_source_set(&sources[events[j].token], COIR_READ), 0);
        }
    }
    for (int i = 0; i < SOURCES + DESCRIPTORS; i++)
        if (reported[i] < WAITS / (2 * (SOURCES + DESCRIPTORS)))
            test_fail(__FILE__, __LINE__, "%s, %d at a time: token %d was reported %d times",
                      driver, events_max, i, reported[i]);
    for (int i = 0; i < SOURCES; i++)
        coir_source_remove(&sources[i]);
    coir_poller_free(poller);
    for (int i = 0; i < DESCRIPTORS; i++) {
        close(ends[i][0]);
        close(ends[i][1]);
    }
}

TEST(what_is_always_ready_starves_nobody)
{
    static const char *const drivers[] = {"epoll", "io_uring", "poll"};
    for (int i = 0; i < 3; i++)
        for (int events_max = 1; events_max <= 7; events_max++)
            share(drivers[i], events_max);
}

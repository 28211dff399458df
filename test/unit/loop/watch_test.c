/* Watches of descriptors: level-triggered, stopped and started from inside of callbacks. */
#include <coir/loop.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"
#include "never.h"

static int calls;

static int ends[2];
static coir_watch watches[2];

static void on_readable(coir_loop *loop, coir_watch *watch, int events, void *arg)
{
    (void)arg;
    char byte;
    CHECK(events & COIR_READ);
    if (++calls < 3)
        return; /* level-triggered: it comes again */
    CHECK_EQ(read(ends[0], &byte, 1), 1);
    coir_watch_stop(loop, watch);
    coir_watch_stop(loop, watch);
}

TEST(a_watch_calls_as_long_as_it_holds_and_may_stop_itself)
{
    coir_loop *loop;
    CHECK_EQ(coir_loop_new(&loop), 0);
    CHECK_EQ(pipe2(ends, O_NONBLOCK), 0);
    CHECK_EQ(coir_watch_start(loop, &watches[0], ends[0], COIR_READ, on_readable, NULL), 0);
    CHECK_EQ(coir_watch_start(loop, &watches[1], ends[0], COIR_READ, on_readable, NULL),
             -16 /* EBUSY */);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(coir_loop_run(loop), 0); /* returns: nothing is left */
    CHECK_EQ(calls, 3);
    coir_loop_free(loop);
    close(ends[0]);
    close(ends[1]);
}

static int others[2];

/* A started watch is refused, on its own descriptor and on another, and goes on as it was. */
static void start_again(coir_loop *loop, coir_watch *watch)
{
    CHECK_EQ(coir_watch_start(loop, watch, ends[0], COIR_READ, NULL, NULL), -EBUSY);
    CHECK_EQ(coir_watch_start(loop, watch, others[0], COIR_READ, NULL, NULL), -EBUSY);
    CHECK_EQ(coir_watch_start(loop, watch, -1, COIR_READ, NULL, NULL), -EBUSY);
}

static void start_again_inside(coir_loop *loop, coir_watch *watch, int events, void *arg)
{
    CHECK(arg == &calls);
    char byte;
    CHECK_EQ(events, COIR_READ);
    start_again(loop, watch);
    CHECK_EQ(read(calls ? others[0] : ends[0], &byte, 1), 1);
    coir_watch_stop(loop, watch);
    if (calls++ == 0) /* a stopped one may start anew, also here */
        CHECK_EQ(coir_watch_start(loop, watch, others[0], COIR_READ, start_again_inside, &calls),
                 0);
}

TEST(a_started_watch_cannot_be_started_again)
{
    coir_loop *loop;
    CHECK_EQ(coir_loop_new(&loop), 0);
    CHECK_EQ(pipe2(ends, O_NONBLOCK), 0);
    CHECK_EQ(pipe2(others, O_NONBLOCK), 0);
    CHECK_EQ(coir_watch_start(loop, &watches[0], -1, COIR_READ, start_again_inside, &calls),
             -EBADF);
    CHECK_EQ(coir_watch_start(loop, &watches[0], ends[0], COIR_READ, start_again_inside, &calls),
             0);
    start_again(loop, &watches[0]);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(write(others[1], "x", 1), 1);
    CHECK_EQ(coir_loop_run(loop), 0); /* nothing is left */
    CHECK_EQ(calls, 2);
    coir_loop_free(loop);
    for (int i = 0; i < 2; i++) {
        close(ends[i]);
        close(others[i]);
    }
}

/* A loop on each driver. NULL: it does not work here. */
static coir_loop *loop_on(int driver)
{
    static const char *const drivers[] = {"epoll", "poll", "io_uring"};
    coir_loop_options options = COIR_LOOP_OPTIONS;
    coir_loop *loop;
    options.driver = drivers[driver];
    int rc = coir_loop_new_with(&options, &loop);
    CHECK(rc == 0 || driver == 2);
    return rc == 0 ? loop : NULL;
}

#define FOR_EACH_DRIVER(loop)                            \
    for (int driver_ = 0; driver_ < 3; driver_++)        \
        for (coir_loop *loop = loop_on(driver_); (loop); \
             coir_loop_free(loop), close(ends[0]), close(ends[1]), loop = NULL)

static int reads, writes;

static void count_writable(coir_loop *loop, coir_watch *watch, int events, void *arg)
{
    (void)arg;
    CHECK_EQ(events, COIR_WRITE);
    if (++writes == 3)
        coir_watch_stop(loop, watch);
}

static void count_readable(coir_loop *loop, coir_watch *watch, int events, void *arg)
{
    char byte;
    (void)arg;
    CHECK_EQ(events, COIR_READ);
    CHECK_EQ(read(ends[0], &byte, 1), 1);
    if (++reads == 2)
        coir_watch_stop(loop, watch);
    else
        CHECK_EQ(write(ends[1], "x", 1), 1);
}

static int failures;

static void close_too_early(coir_loop *loop, coir_watch *watch, int events, void *arg)
{
    (void)loop, (void)watch, (void)arg;
    if (calls++ == 0)
        close(ends[0]);
    else
        failures += events == COIR_EVENT_ERROR;
}

/* What cannot be polled any more, here because it was closed, is reported as an error. On epoll
 * nothing comes. */
TEST(a_watch_that_cannot_be_polled_reports_an_error)
{
    FOR_EACH_DRIVER(loop)
    {
        static coir_watch watch;
        calls = failures = 0;
        CHECK_EQ(pipe2(ends, O_NONBLOCK), 0);
        CHECK_EQ(write(ends[1], "x", 1), 1);
        CHECK_EQ(coir_watch_start(loop, &watch, ends[0], COIR_READ, close_too_early, NULL), 0);
        for (int i = 0; i < 5; i++)
            CHECK_EQ(coir_loop_run_once(loop, 0), 0);
        CHECK(coir_loop_alive(loop));
        CHECK(failures == calls - 1 && (failures || driver_ == 0));
        coir_watch_stop(loop, &watch);
        CHECK(!coir_loop_alive(loop));
        ends[0] = -1;
    }
}

TEST(what_is_always_ready_or_not_open_is_not_watched)
{
    FOR_EACH_DRIVER(loop)
    {
        static coir_watch watch;
        char name[] = "/tmp/coir-watch-XXXXXX";
        ends[0] = mkstemp(name);
        ends[1] = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CHECK(ends[0] >= 0 && ends[1] >= 0);
        unlink(name);
        for (int i = 0; i < 2; i++)
            CHECK_EQ(coir_watch_start(loop, &watch, ends[i], COIR_READ, count_readable, NULL),
                     -EPERM);
        close(ends[1]);
        CHECK_EQ(coir_watch_start(loop, &watch, ends[1], COIR_READ, count_readable, NULL), -EBADF);
        CHECK(!coir_loop_alive(loop));
        ends[1] = -1;
    }
}

TEST(reading_and_writing_have_a_watch_each)
{
    FOR_EACH_DRIVER(loop)
    {
        reads = writes = 0;
        coir_watch third = {{0}};
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
        CHECK_EQ(coir_watch_start(loop, &watches[0], ends[0], COIR_READ, count_readable, NULL), 0);
        CHECK_EQ(coir_watch_start(loop, &watches[1], ends[0], COIR_WRITE, count_writable, NULL), 0);
        CHECK_EQ(coir_watch_start(loop, &third, ends[0], COIR_WRITE, count_writable, NULL), -EBUSY);
        while (writes < 3) /* the one that reads is not called */
            CHECK_EQ(coir_loop_run_once(loop, COIR_NEVER), 0);
        CHECK_EQ(reads, 0);
        CHECK_EQ(write(ends[1], "x", 1), 1); /* it goes on without the other */
        CHECK_EQ(coir_loop_run(loop), 0);
        CHECK_EQ(reads, 2);
        CHECK_EQ(writes, 3);
    }
}

static void stop_the_other(coir_loop *loop, coir_watch *watch, int events, void *arg)
{
    (void)arg;
    CHECK(events);
    calls++;
    coir_watch_stop(loop, watch == &watches[0] ? &watches[1] : &watches[0]);
    coir_watch_stop(loop, watch);
}

/* Both hold in the same wait; whichever is called first stops the other. */
TEST(a_watch_may_stop_the_other_of_its_descriptor)
{
    FOR_EACH_DRIVER(loop)
    {
        calls = 0;
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
        CHECK_EQ(write(ends[1], "x", 1), 1);
        CHECK_EQ(coir_watch_start(loop, &watches[0], ends[0], COIR_READ, stop_the_other, NULL), 0);
        CHECK_EQ(coir_watch_start(loop, &watches[1], ends[0], COIR_WRITE, stop_the_other, NULL), 0);
        CHECK_EQ(coir_loop_run(loop), 0);
        CHECK_EQ(calls, 1);
    }
}

static void close_and_watch_anew(coir_loop *loop, coir_watch *watch, int events, void *arg)
{
    (void)events;
    if (++calls > 1)
        return;
    /* both watches go, and the number comes back as something else, in the middle of a dispatch */
    coir_watch_stop(loop, &watches[0]);
    coir_watch_stop(loop, &watches[1]);
    close(ends[0]);
    int fresh[2];
    CHECK_EQ(pipe2(fresh, O_NONBLOCK), 0);
    CHECK_EQ(fresh[0], ends[0]);
    close(ends[1]);
    ends[1] = fresh[1];
    CHECK_EQ(coir_watch_start(loop, watch, fresh[0], COIR_READ, arg ? never_event : NULL, NULL), 0);
}

TEST(what_came_for_a_closed_descriptor_is_not_reported_for_the_next_with_its_number)
{
    FOR_EACH_DRIVER(loop)
    {
        calls = 0;
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
        CHECK_EQ(write(ends[1], "x", 1), 1);
        for (int i = 0; i < 2; i++)
            CHECK_EQ(coir_watch_start(loop, &watches[i], ends[0], i ? COIR_WRITE : COIR_READ,
                                      close_and_watch_anew, &calls),
                     0);
        CHECK_EQ(coir_loop_run_once(loop, COIR_NEVER), 0);
        CHECK_EQ(coir_loop_run_once(loop, 0), 0);
        CHECK_EQ(calls, 1);
        coir_watch_stop(loop, &watches[0]);
        coir_watch_stop(loop, &watches[1]);
    }
}

static void count_once(coir_loop *loop, coir_watch *watch, int events, void *arg)
{
    (void)loop, (void)watch, (void)arg;
    CHECK_EQ(events, COIR_READ);
    calls++;
}

TEST(a_one_shot_watch_is_called_once_beside_a_persistent_one)
{
    FOR_EACH_DRIVER(loop)
    {
        calls = writes = 0;
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
        CHECK_EQ(write(ends[1], "x", 1), 1);
        CHECK_EQ(coir_watch_start(loop, &watches[0], ends[0], COIR_READ | COIR_WATCH_ONCE,
                                  count_once, NULL),
                 0);
        CHECK_EQ(coir_watch_start(loop, &watches[1], ends[0], COIR_WRITE, count_writable, NULL), 0);
        CHECK_EQ(coir_loop_run(loop), 0); /* returns: the one is over, the other stops itself */
        CHECK_EQ(calls, 1);
        CHECK_EQ(writes, 3);
        CHECK_EQ(coir_watch_modify(loop, &watches[0], COIR_READ), -ENOENT);
    }
}

static void turn_to_writing(coir_loop *loop, coir_watch *watch, int events, void *arg)
{
    (void)arg;
    CHECK_EQ(events, calls++ ? COIR_WRITE : COIR_READ);
    if (calls == 1)
        CHECK_EQ(coir_watch_modify(loop, watch, COIR_WRITE), 0);
    else
        coir_watch_stop(loop, watch);
}

TEST(a_watch_is_modified_from_its_own_function)
{
    FOR_EACH_DRIVER(loop)
    {
        calls = 0;
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
        CHECK_EQ(write(ends[1], "x", 1), 1);
        CHECK_EQ(coir_watch_start(loop, &watches[0], ends[0], COIR_READ, turn_to_writing, NULL), 0);
        CHECK_EQ(coir_watch_modify(loop, &watches[0], COIR_READ), 0);
        CHECK_EQ(coir_watch_modify(loop, &watches[0], COIR_HANGUP), -EINVAL);
        CHECK_EQ(coir_loop_run(loop), 0);
        CHECK_EQ(calls, 2);
    }
}

TEST(a_weak_watch_does_not_keep_the_loop_running)
{
    FOR_EACH_DRIVER(loop)
    {
        CHECK_EQ(pipe2(ends, O_NONBLOCK), 0);
        CHECK_EQ(coir_watch_start(loop, &watches[0], ends[0], COIR_READ | COIR_WATCH_WEAK,
                                  never_event, NULL),
                 0);
        CHECK(!coir_loop_alive(loop));
        CHECK_EQ(coir_loop_run(loop), 0);
        CHECK_EQ(coir_watch_modify(loop, &watches[0], COIR_READ), 0);
        CHECK(coir_loop_alive(loop));
        coir_watch_stop(loop, &watches[0]);
        CHECK(!coir_loop_alive(loop));
    }
}

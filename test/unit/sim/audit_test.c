/* The audit at the end of a simulated world: what a host that did not crash has left open fails the
 * run, by name. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "harness.h"
#include "task/current.h"
#include "task/runtime.h"

/* What is left on purpose is no leak to the sanitizer. */
static void *kept[64];
static int kept_count;

static void keep(void *object)
{
    CHECK(kept_count < 64);
    kept[kept_count++] = object;
}

static int leave_listener(void *arg)
{
    coir_listener *listener = NULL;
    (void)arg;
    int rc = coir_tcp_listen("0.0.0.0:7777", &listener);
    keep(listener);
    return rc;
}

/* The accepted end too: it is made with the connection, and belongs to no host until it is
 * accepted. */
static int leave_streams(void *arg)
{
    coir_listener *listener;
    coir_stream *client, *server;
    (void)arg;
    CHECK_EQ(coir_tcp_listen("0.0.0.0:7777", &listener), 0);
    CHECK_EQ(coir_tcp_connect("127.0.0.1:7777", &client), 0);
    CHECK_EQ(coir_accept(listener, &server), 0);
    keep(listener); /* as long as one of its streams is open */
    keep(server);
    coir_listener_close(listener);
    coir_close(client);
    return 0;
}

static int leave_datagrams(void *arg)
{
    coir_udp *udp = NULL;
    (void)arg;
    int rc = coir_udp_open("0.0.0.0:7000", NULL, &udp);
    keep(udp);
    return rc;
}

static int leave_file(void *arg)
{
    coir_file *file = NULL;
    (void)arg;
    int rc = coir_file_open("notes", O_RDWR | O_CREAT, 0600, &file);
    keep(file);
    return rc;
}

static void never_fires(struct ci_timer *timer)
{
    (void)timer;
}

static int leave_timer(void *arg)
{
    static struct ci_timer timer;
    (void)arg;
    ci_timer_init(&timer, never_fires);
    ci_wheel_start(&ci_worker_current->loop.wheel, &timer, coir_in(COIR_S));
    return 0;
}

static int leave_waker(void *arg)
{
    static coir_waker waker;
    coir_parker parker;
    (void)arg;
    CHECK_EQ(coir_parker_init(&parker), 0);
    waker = coir_parker_waker(&parker);
    coir_parker_done(&parker);
    keep(waker.data);
    return 0;
}

static int yield_once(coir_generator *generator, uint64_t first, void *arg)
{
    (void)first;
    (void)arg;
    return coir_generator_yield(generator, 1, NULL);
}

static int leave_generator(void *arg)
{
    coir_generator *generator;
    uint64_t value;
    (void)arg;
    CHECK_EQ(coir_generator_new(yield_once, NULL, &generator), 0);
    CHECK_EQ(coir_generator_next(generator, 0, &value), 1);
    keep(generator);
    return 0;
}

static int leave_memory(void *arg)
{
    coir_channel *channel = NULL;
    (void)arg;
    int rc = coir_channel_new(8, 4, &channel);
    keep(channel);
    return rc;
}

static int leave_nothing(void *arg)
{
    coir_listener *listener;
    coir_stream *client, *server;
    coir_file *file;
    coir_udp *udp;
    (void)arg;
    CHECK_EQ(coir_tcp_listen("0.0.0.0:7777", &listener), 0);
    CHECK_EQ(coir_tcp_connect("127.0.0.1:7777", &client), 0);
    CHECK_EQ(coir_accept(listener, &server), 0);
    CHECK_EQ(coir_udp_open("0.0.0.0:7000", NULL, &udp), 0);
    CHECK_EQ(coir_file_open("notes", O_RDWR | O_CREAT, 0600, &file), 0);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        char byte;
        CHECK_EQ(coir_read(server, &byte, 1), -ETIME);
    }
    coir_file_close(file);
    coir_udp_close(udp);
    coir_listener_close(listener);
    coir_close(server);
    coir_close(client);
    return 0;
}

struct ending {
    coir_task_fn *leave;
    bool crash, replace;
};

static int wait_a_while(void *arg)
{
    (void)arg;
    return coir_sleep_for(100 * COIR_MS);
}

static int leave_then_wait(void *arg)
{
    const struct ending *ending = arg;
    int rc = ending->leave(NULL);
    return rc < 0 || !ending->crash ? rc : coir_sleep_for(COIR_S);
}

static int scenario(coir_sim *sim, void *arg)
{
    const struct ending *ending = arg;
    coir_host *host = coir_sim_host(sim, "careless", leave_then_wait, arg);
    int rc = coir_sim_host_main(sim, "other", wait_a_while, NULL);
    if (ending->crash)
        coir_sim_crash(sim, host);
    while (rc == 0 && !coir_host_is_down(host))
        rc = coir_sim_host_main(sim, "other", wait_a_while, NULL);
    return rc == 0 && ending->replace ? coir_sim_host_main(sim, "careless", wait_a_while, NULL)
                                      : rc;
}

static void must_leave(coir_task_fn *leave, const char *what)
{
    for (unsigned workers = 1; workers <= 2; workers++)
        for (int way = 0; way < 3; way++) {
            struct ending ending = {.leave = leave, .crash = way == 1, .replace = way == 2};
            coir_sim_options options = test_sim_options(workers, workers);
            coir_sim_result result = COIR_SIM_RESULT;
            CHECK_EQ(coir_sim_run(&options, scenario, &ending, &result),
                     *what && way != 1 ? -COIR_ELEFT : 0);
            if (way == 1 || !*what)
                CHECK_EQ(result.left[0], 0);
            else if (!strstr(result.left, what) || strncmp(result.left, "careless: ", 10) != 0)
                test_fail(__FILE__, __LINE__, "left: %s, not %s", result.left, what);
        }
}

TEST(an_open_listener_is_named)
{
    must_leave(leave_listener, "listener fd=0 port=7777");
}

TEST(an_open_stream_is_named)
{
    must_leave(leave_streams, "stream fd=");
}

TEST(an_open_datagram_socket_is_named)
{
    must_leave(leave_datagrams, "datagram socket fd=0 port=7000");
}

TEST(an_open_file_is_named)
{
    must_leave(leave_file, "file fd=1048576 notes");
}

TEST(a_started_timer_is_named)
{
    must_leave(leave_timer, "timers (1)");
}

TEST(a_waker_is_named)
{
    must_leave(leave_waker, "wakers (1)");
}

TEST(a_stack_is_named)
{
    must_leave(leave_generator, "stacks (1)");
}

TEST(memory_of_the_runtime_is_named)
{
    must_leave(leave_memory, "memory (");
}

TEST(a_host_that_closes_what_it_opened_passes)
{
    must_leave(leave_nothing, "");
}

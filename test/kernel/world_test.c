/* Hosts on real drivers over the simulated kernel: the same seed is the same run, what can never
 * end is told, and what is left open too. */
#include <coir.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sanitizer.h"
#include "harness.h"
#include "scenario/host.h"
#include "sim/kernel/kernel.h"
#include "sys/call.h"
#include "sys/misuse.h"
#include "sys/stack_guard.h"
#include "task/fiber.h"

static const char *const drivers[] = {"epoll", "poll", "kqueue"};

/* With the seeds from 1 to `seeds`, and a worker each. */
static void on_every_driver(coir_scenario_fn *scenario, uint64_t seeds, int result)
{
    for (unsigned i = 0; i < sizeof drivers / sizeof *drivers; i++)
        for (uint64_t seed = 1; seed <= seeds; seed++) {
            coir_sim_options options = test_sim_options(seed, 1);
            options.driver = drivers[i];
            CHECK_EQ(coir_sim_run(&options, scenario, NULL, NULL), result);
        }
}

static int echo(coir_stream *stream, void *arg)
{
    char buf[100];
    (void)arg;
    ssize_t n;
    while ((n = coir_read(stream, buf, sizeof buf)) > 0)
        if ((n = coir_write_all(stream, buf, (size_t)n)) < 0)
            break;
    return (int)n;
}

static int serve(void *arg)
{
    (void)arg;
    return coir_serve_tcp("0.0.0.0:7", echo, NULL);
}

/* As soon as the server listens. */
static int connect_to_server(coir_stream **ret_stream)
{
    int rc;
    while ((rc = coir_tcp_connect("server:7", ret_stream)) == -ECONNREFUSED &&
           coir_sleep_for(COIR_MS) == 0)
        continue;
    return rc;
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

enum { TALK_STACK = 6000 };

/* Streams, a name, a timer, an offloaded call. */
static int talk(void *arg)
{
    (void)arg;
    coir_stream *stream;
    char out[TALK_STACK / 2] = "word", in[sizeof out];
    COIR_DEADLINE(coir_in(60 * COIR_S));
    int rc = connect_to_server(&stream);
    if (rc < 0)
        return rc;
    for (int i = 0; rc == 0 && i < 5; i++) {
        rc = coir_write_all(stream, out, 500);
        if (rc == 0)
            rc = coir_read_full(stream, in, 500, NULL) == 500 ? 0 : -EIO;
        if (rc == 0)
            rc = coir_offload(nothing, NULL);
        if (rc == 0)
            rc = coir_sleep_for(COIR_MS);
    }
    coir_close(stream);
    return rc;
}

static int conversation(coir_sim *sim, void *arg)
{
    (void)arg;
    coir_sim_host(sim, "server", serve, NULL);
    return coir_sim_host_main(sim, "client", talk, NULL);
}

static uint64_t hash_of(coir_scenario_fn *scenario, const char *driver, unsigned workers,
                        uint64_t seed)
{
    coir_sim_options options = test_sim_options(seed, workers);
    coir_sim_result result = COIR_SIM_RESULT;
    options.driver = driver;
    CHECK_EQ(coir_sim_run(&options, scenario, NULL, &result), 0);
    return result.trace_hash;
}

static int close_twice(void *arg)
{
    (void)arg;
    coir_stream *stream;
    CHECK_EQ(connect_to_server(&stream), 0);
    coir_close(stream);
    CHECK_EQ(coir_shutdown_write(stream), -EBADF);
    return 0;
}

static void draw(enum coir_log_level level, const char *line, void *arg)
{
    (void)level, (void)line;
    coir_sim_random(arg);
}

static int misuse(coir_sim *sim, void *arg)
{
    (void)arg;
    coir_config config = COIR_CONFIG;
    config.log = draw;
    config.log_arg = sim;
    CHECK_EQ(coir_sim_configure(sim, &config), 0);
    coir_sim_host(sim, "server", serve, NULL);
    return coir_sim_host_main(sim, "client", close_twice, NULL);
}

/* What is wrong is logged once. */
TEST(a_misuse_does_not_make_the_next_run_another)
{
    if (CI_ASAN) /* the stream's memory */
        return;
    ci_misuse_aborts = false;
    for (unsigned i = 0; i < sizeof drivers / sizeof *drivers; i++)
        CHECK_EQ(hash_of(misuse, drivers[i], 1, 1), hash_of(misuse, drivers[i], 1, 1));
}

/* Whatever ran before it, in this process. */
TEST(the_same_seed_is_the_same_run)
{
    for (unsigned i = 0; i < sizeof drivers / sizeof *drivers; i++)
        for (unsigned workers = 1; workers <= 3; workers++)
            for (uint64_t seed = 1; seed <= 20; seed++) {
                uint64_t first = hash_of(conversation, drivers[i], workers, seed);
                CHECK(hash_of(conversation, drivers[i], workers, seed + 1000) != first);
                CHECK_EQ(hash_of(conversation, drivers[i], workers, seed), first);
            }
}

/* ---- stacks ---- */

enum { STACK_SIZE = 32 * 1024, ROOM = 4600 /* for the library's frames and the kernel's */ };

static int talk_with_little_stack(void *arg)
{
    volatile char used[STACK_SIZE - CI_STACK_GUARD - sizeof(struct ci_fiber) - TALK_STACK - ROOM];
    used[0] = 0; /* and a frame as large as it is declared */
    return used[0] + talk(arg);
}

static int with_little_stack(coir_sim *sim, void *arg)
{
    (void)arg;
    coir_config config = COIR_CONFIG;
    config.stack_size = STACK_SIZE;
    CHECK_EQ(coir_sim_configure(sim, &config), 0);
    coir_sim_faults(sim, NULL, (coir_faults){.late = 0.5});
    coir_sim_host(sim, "server", serve, NULL);
    return coir_sim_host_main(sim, "client", talk_with_little_stack, NULL);
}

/* A program that fits its stacks on Linux fits them here: Linux has stacks of its own. */
TEST(the_kernel_needs_little_of_the_programs_stacks)
{
    if (ci_sanitizer) /* makes every frame larger */
        return;
    on_every_driver(with_little_stack, 50, 0);
}

/* ---- what can never end ---- */

static int wait_for_nobody(void *arg)
{
    coir_channel *channel;
    int item;
    (void)arg;
    int rc = coir_channel_new(sizeof item, 1, &channel);
    if (rc == 0)
        rc = coir_channel_recv(channel, &item);
    coir_channel_free(channel);
    return rc;
}

static int stuck(coir_sim *sim, void *arg)
{
    (void)arg;
    return coir_sim_host_main(sim, "host", wait_for_nobody, NULL);
}

static bool named_the_task;

static void look_for_task(const char *line, void *arg)
{
    (void)arg;
    named_the_task |= strstr(line, "main waits for an item of a channel") != NULL;
}

TEST(what_can_never_end_is_an_error_that_names_who_waits)
{
    coir_sim_options options = test_sim_options(1, 2);
    options.driver = "epoll";
    options.trace = look_for_task;
    CHECK_EQ(coir_sim_run(&options, stuck, NULL, NULL), -EDEADLK);
    CHECK(named_the_task);
}

/* ---- what never sleeps ---- */

/* The descriptor is readable, and nobody reads. */
static int wait_in_vain(void *arg)
{
    coir_fd fds[2];
    (void)arg;
    int rc = ci_kpipe(fds) == 0 && ci_sys_write(fds[1], "x", 1) == 1 ? 0 : -EIO;
    while (rc >= 0)
        rc = coir_fd_wait(fds[0], COIR_READ);
    return rc;
}

static int spinning(coir_sim *sim, void *arg)
{
    (void)arg;
    return coir_sim_host_main(sim, "host", wait_in_vain, NULL);
}

TEST(a_thread_that_spins_ends_the_run)
{
    coir_sim_options options = test_sim_options(1, 1);
    for (unsigned i = 0; i < sizeof drivers / sizeof *drivers; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        options.driver = drivers[i];
        options.time_max = 10 * COIR_S;
        if (child == 0) {
            signal(SIGABRT, SIG_DFL);
            coir_sim_run(&options, spinning, NULL, NULL);
            _exit(0);
        }
        int status;
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

/* ---- a crash before the run ---- */

static int sleep_long(void *arg)
{
    (void)arg;
    return coir_sleep_for(3600 * COIR_S);
}

static int sleep_short(void *arg)
{
    (void)arg;
    return coir_sleep_for(COIR_S);
}

/* As soon as the other host has made its runtime: with some seeds its run has not begun. */
static int crash_early(void *arg)
{
    coir_sim *sim = arg;
    coir_host *host = coir_sim_host(sim, "crashed", sleep_long, NULL);
    CHECK(host);
    while (!host->runtime)
        coir_sleep_for(1);
    coir_sim_crash(sim, host);
    coir_sleep_for(COIR_S);
    CHECK(coir_host_is_down(host));
    return 0;
}

static int crashing(coir_sim *sim, void *arg)
{
    (void)arg;
    return coir_sim_host_main(sim, "fate", crash_early, sim);
}

TEST(a_crash_between_a_runtimes_making_and_its_run_is_not_lost)
{
    for (unsigned i = 0; i < sizeof drivers / sizeof *drivers; i++)
        for (uint64_t seed = 1; seed <= 500; seed++) {
            coir_sim_options options = test_sim_options(seed, (unsigned)(1 + seed % 3));
            options.driver = drivers[i];
            CHECK_EQ(coir_sim_run(&options, crashing, NULL, NULL), 0);
        }
}

/* ---- what is left ---- */

static int leave_stream(void *arg)
{
    coir_stream *stream;
    (void)arg;
    return connect_to_server(&stream);
}

static int leaving(coir_sim *sim, void *arg)
{
    (void)arg;
    coir_sim_host(sim, "server", serve, NULL);
    return coir_sim_host_main(sim, "client", leave_stream, NULL);
}

TEST(a_stream_that_is_left_open_fails_the_run)
{
    for (unsigned i = 0; i < sizeof drivers / sizeof *drivers; i++) {
        coir_sim_options options = test_sim_options(1, 1);
        coir_sim_result result = COIR_SIM_RESULT;
        options.driver = drivers[i];
        CHECK_EQ(coir_sim_run(&options, leaving, NULL, &result), -COIR_ELEFT);
        CHECK(strstr(result.left, "client: stream fd="));
    }
}

TEST(an_unknown_driver_is_refused)
{
    coir_sim_options options = test_sim_options(1, 1);
    options.driver = "devpoll";
    CHECK_EQ(coir_sim_run(&options, leaving, NULL, NULL), -EINVAL);
}

/* ---- configurations ---- */

static int resolve(void *arg)
{
    coir_address address;
    (void)arg;
    return coir_resolve("somewhere:80", &address, 1);
}

static int with_resolver(coir_sim *sim, void *arg)
{
    (void)arg;
    coir_config config = COIR_CONFIG;
    config.resolver = "c-ares";
    if (coir_sim_configure(sim, &config) == -EINVAL) /* built without it */
        return 1;
    coir_name_answer answer = {.addresses = "10.0.0.9", .latency = COIR_S};
    CHECK_EQ(coir_sim_name(sim, "somewhere", answer), 0);
    return coir_sim_host_main(sim, "host", resolve, NULL);
}

/* c-ares would make real sockets. */
TEST(the_world_is_the_resolver_whatever_is_configured)
{
    on_every_driver(with_resolver, 10, 1);
}

static int spawn_two(void *arg)
{
    int *second = arg;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, nothing, NULL), 0);
    *second = coir_go(scope, nothing, NULL);
    return coir_scope_wait(scope);
}

static int configure_after_start(coir_sim *sim, void *arg)
{
    static int before, after;
    (void)arg;
    coir_config config = COIR_CONFIG;
    config.tasks_max = 2;
    before = after = 1;
    CHECK(coir_sim_host(sim, "before", spawn_two, &before));
    CHECK_EQ(coir_sim_configure(sim, &config), 0);
    CHECK(coir_sim_host(sim, "after", spawn_two, &after));
    CHECK_EQ(coir_sim_host_main(sim, "main", sleep_short, NULL), 0);
    CHECK_EQ(before, 0);
    CHECK_EQ(after, -EAGAIN);
    return 0;
}

TEST(a_configuration_is_that_of_hosts_which_are_started_later)
{
    on_every_driver(configure_after_start, 1, 0);
}

/* ---- addresses ---- */

static int connect_elsewhere(void *arg)
{
    coir_stream *stream;
    (void)arg;
    return coir_tcp_connect("93.0.0.1:7", &stream); /* ends as the address of the server does */
}

static int look_elsewhere(coir_sim *sim, void *arg)
{
    (void)arg;
    CHECK(coir_sim_host(sim, "server", serve, NULL));
    CHECK_EQ(coir_sim_host_main(sim, "client", connect_elsewhere, NULL), -ENETUNREACH);
    return 0;
}

TEST(to_an_address_outside_of_the_network_there_is_no_route)
{
    on_every_driver(look_elsewhere, 1, 0);
}

/* ---- peers that are gone ---- */

static coir_host *gone;

static int never_read(coir_stream *stream, void *arg)
{
    (void)stream, (void)arg;
    return coir_sleep_for(3600 * COIR_S);
}

static int serve_no_reads(void *arg)
{
    (void)arg;
    return coir_serve_tcp("0.0.0.0:7", never_read, NULL);
}

static int fill(void *arg)
{
    static char block[100000];
    coir_stream *stream;
    CHECK_EQ(connect_to_server(&stream), 0);
    ssize_t n = 0;
    while (n >= 0) {
        COIR_DEADLINE(coir_in(COIR_S));
        n = coir_write(stream, block, sizeof block);
    }
    CHECK_EQ(n, -ETIME);
    coir_sim_crash(arg, gone);
    COIR_DEADLINE(coir_in(100 * COIR_S));
    n = coir_write_all(stream, block, sizeof block);
    coir_close(stream);
    return (int)n;
}

static int fill_up(coir_sim *sim, void *arg)
{
    (void)arg;
    CHECK((gone = coir_sim_host(sim, "server", serve_no_reads, NULL)));
    CHECK_EQ(coir_sim_host_main(sim, "client", fill, sim), -ETIMEDOUT);
    return 0;
}

TEST(a_writer_that_waits_for_room_notices_that_its_peer_is_gone)
{
    on_every_driver(fill_up, 10, 0);
}

/* The host is started again, and knows nothing of the connection. What is written before or after
 * that, or is too much to be taken at once, is answered by a reset. */
static enum { WRITES_BEFORE, WRITES_AFTER, WRITES_MUCH, WAYS } way;

static int talk_over_an_outage(void *arg)
{
    static char bytes[8000000];
    coir_stream *stream;
    CHECK_EQ(connect_to_server(&stream), 0);
    coir_sim_crash(arg, gone);
    CHECK(way != WRITES_BEFORE || coir_write(stream, "x", 1) == 1);
    coir_sleep_for(3 * COIR_S);
    CHECK(coir_sim_host(arg, "server", serve, NULL));
    COIR_DEADLINE(coir_in(20 * COIR_S)); /* less than it takes to time out */
    int rc = coir_write_all(stream, bytes, way == WRITES_MUCH ? sizeof bytes : way == WRITES_AFTER);
    CHECK_EQ(rc < 0 ? rc : coir_read(stream, bytes, 1), -ECONNRESET);
    coir_close(stream);
    rc = connect_to_server(&stream);
    coir_close(rc < 0 ? NULL : stream);
    return rc;
}

static int start_again(coir_sim *sim, void *arg)
{
    (void)arg;
    CHECK((gone = coir_sim_host(sim, "server", serve, NULL)));
    return coir_sim_host_main(sim, "client", talk_over_an_outage, sim);
}

TEST(a_host_that_is_started_again_resets_the_connections_of_the_one_before)
{
    for (way = 0; way < WAYS; way++) {
        coir_sim_options options = test_sim_options(1, 1); /* on the driver "sim" */
        CHECK_EQ(coir_sim_run(&options, start_again, NULL, NULL), 0);
        on_every_driver(start_again, 10, 0);
    }
}

/* What is on its way when the host loses its power is sent again, and is answered by the reset. */
static int write_into_an_outage(void *arg)
{
    char byte;
    coir_stream *stream;
    COIR_DEADLINE(coir_in(30 * COIR_S));
    coir_sim_link(arg, NULL, NULL, (coir_link){.latency = 10 * COIR_MS});
    CHECK_EQ(connect_to_server(&stream), 0);
    CHECK_EQ(way == WRITES_BEFORE ? coir_write(stream, "x", 1) : coir_shutdown_write(stream),
             way == WRITES_BEFORE);
    coir_sim_crash(arg, gone);
    coir_sleep_for(COIR_S);
    CHECK(coir_sim_host(arg, "server", serve, NULL));
    COIR_DEADLINE(coir_in(20 * COIR_S));
    CHECK_EQ(coir_read(stream, &byte, 1), -ECONNRESET);
    coir_close(stream);
    return 0;
}

static int crash_on_the_way(coir_sim *sim, void *arg)
{
    (void)arg;
    CHECK((gone = coir_sim_host(sim, "server", serve, NULL)));
    return coir_sim_host_main(sim, "client", write_into_an_outage, sim);
}

TEST(what_is_on_its_way_to_a_host_that_is_started_again_is_answered_by_a_reset)
{
    for (way = 0; way < 2; way++) {                        /* bytes, or the end */
        coir_sim_options options = test_sim_options(1, 1); /* on the driver "sim" */
        CHECK_EQ(coir_sim_run(&options, crash_on_the_way, NULL, NULL), 0);
        on_every_driver(crash_on_the_way, 10, 0);
    }
}

static int fall_silent(void *arg)
{
    coir_stream *stream;
    char byte;
    CHECK_EQ(connect_to_server(&stream), 0);
    coir_sim_link(arg, NULL, NULL, (coir_link){.latency = COIR_NEVER});
    CHECK_EQ(coir_write(stream, "x", 1), 1);
    coir_sleep_for(COIR_S);
    coir_sim_link(arg, NULL, NULL, (coir_link){.latency = COIR_MS});
    COIR_DEADLINE(coir_in(60 * COIR_S));
    int rc = (int)coir_read(stream, &byte, 1);
    coir_close(stream);
    return rc;
}

static int be_silent(coir_sim *sim, void *arg)
{
    (void)arg;
    CHECK(coir_sim_host(sim, "server", serve, NULL));
    CHECK_EQ(coir_sim_host_main(sim, "client", fall_silent, sim), 1);
    return 0;
}

TEST(bytes_that_were_sent_over_a_link_without_an_end_to_its_latency_arrive_later)
{
    on_every_driver(be_silent, 1, 0);
}

/* ---- a run in a run ---- */

static int run_again(coir_sim *sim, void *arg)
{
    (void)sim;
    coir_sim_options options = test_sim_options(2, 1);
    CHECK_EQ(coir_sim_run(&options, conversation, NULL, NULL), 0); /* on the driver "sim" */
    options.driver = arg;
    CHECK_EQ(coir_sim_run(&options, conversation, NULL, NULL), -EBUSY);
    return conversation(sim, NULL);
}

TEST(the_kernel_has_one_world_at_a_time)
{
    coir_sim_options options = test_sim_options(1, 1);
    options.driver = "epoll";
    CHECK_EQ(coir_sim_run(&options, run_again, "poll", NULL), 0);
    CHECK_EQ(coir_sim_run(&options, conversation, NULL, NULL), 0);
}

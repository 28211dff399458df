/* Hosts: started, stopped, crashed and replaced; and calls that are misused. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "harness.h"
#include "sys/misuse.h"

static int sleep_long(void *arg)
{
    int *ended = arg;
    int rc = coir_sleep_for(3600 * COIR_S);
    ++*ended;
    return rc;
}

static int sleep_short(void *arg)
{
    (void)arg;
    return coir_sleep_for(COIR_S);
}

/* ---- a host's life ---- */

static int live(coir_sim *sim, void *arg)
{
    static int ended, crashed, left; /* `left` ends after this function */
    ended = crashed = left = 0;
    (void)arg;
    coir_host *stopped = coir_sim_host(sim, "stopped", sleep_long, &ended);
    coir_host *lost = coir_sim_host(sim, "lost", sleep_long, &crashed);
    CHECK(coir_sim_host(sim, "left", sleep_long, &left));
    CHECK_EQ(coir_sim_host_main(sim, "main", sleep_short, NULL), 0);
    CHECK(!coir_host_is_down(stopped) && !coir_host_is_down(lost));
    coir_sim_stop(sim, stopped);
    coir_sim_crash(sim, lost);
    CHECK_EQ(coir_sim_host_main(sim, "main", sleep_short, NULL), 0);
    CHECK(coir_host_is_down(stopped) && coir_host_is_down(lost));
    CHECK(ended == 1 && crashed == 1 && left == 0);
    coir_sim_stop(sim, stopped); /* once more does nothing */
    return 0;
}

TEST(ends_when_it_is_stopped_or_crashes)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        coir_sim_options options = test_sim_options(1, workers);
        CHECK_EQ(coir_sim_run(&options, live, NULL, NULL), 0);
    }
}

static int write_file(void *arg)
{
    coir_file *file;
    (void)arg;
    CHECK_EQ(coir_file_open("notes", O_RDWR | O_CREAT, 0600, &file), 0);
    CHECK_EQ(coir_file_write(file, "x", 1, 0), 1);
    CHECK_EQ(coir_file_sync(file), 0);
    coir_file_close(file);
    return 0;
}

static int read_file(void *arg)
{
    coir_file *file;
    int rc = coir_file_open("notes", O_RDONLY, 0, &file);
    (void)arg;
    if (rc == 0)
        coir_file_close(file);
    return rc;
}

static int replace(coir_sim *sim, void *arg)
{
    (void)arg;
    CHECK_EQ(coir_sim_host_main(sim, "one", write_file, NULL), 0);
    CHECK_EQ(coir_sim_host_main(sim, "other", read_file, NULL), -ENOENT);
    CHECK_EQ(coir_sim_host_main(sim, "one", read_file, NULL), 0);
    return 0;
}

TEST(one_of_the_same_name_has_the_disk_of_the_one_before)
{
    coir_sim_options options = test_sim_options(1, 1);
    CHECK_EQ(coir_sim_run(&options, replace, NULL, NULL), 0);
}

static int crash_after_replacement(coir_sim *sim, void *arg)
{
    static int ended;
    (void)arg;
    coir_host *first = coir_sim_host(sim, "one", sleep_long, &ended);
    coir_sim_crash(sim, first);
    CHECK_EQ(coir_sim_host_main(sim, "one", write_file, NULL), 0);
    coir_sim_crash(sim, first); /* has nothing left to lose */
    CHECK_EQ(coir_sim_host_main(sim, "one", read_file, NULL), 0);
    return 0;
}

TEST(a_crash_of_one_that_was_replaced_does_not_touch_the_disk)
{
    coir_sim_options options = test_sim_options(1, 1);
    CHECK_EQ(coir_sim_run(&options, crash_after_replacement, NULL, NULL), 0);
}

/* ---- links ---- */

static int echo(coir_stream *stream, void *arg)
{
    char byte;
    (void)arg;
    ssize_t n;
    while ((n = coir_read(stream, &byte, 1)) > 0)
        if ((n = coir_write_all(stream, &byte, 1)) < 0)
            break;
    return (int)n;
}

static int serve_echo(void *arg)
{
    (void)arg;
    return coir_serve_tcp("0.0.0.0:7", echo, NULL);
}

/* For a while nothing arrives. */
static int talk(void *arg)
{
    coir_stream *stream;
    char byte;
    coir_sleep_for(COIR_S);
    CHECK_EQ(coir_tcp_connect("server:7", &stream), 0);
    coir_sim_link(arg, NULL, NULL, (coir_link){.latency = COIR_NEVER});
    CHECK_EQ(coir_write(stream, "x", 1), 1);
    coir_sleep_for(COIR_S);
    coir_sim_link(arg, NULL, NULL, (coir_link){.latency = COIR_MS});
    COIR_DEADLINE(coir_in(60 * COIR_S));
    CHECK_EQ(coir_read(stream, &byte, 1), 1);
    coir_close(stream);
    CHECK_EQ(coir_tcp_connect("server:8", &stream), -ECONNREFUSED);
    coir_sim_link(arg, NULL, NULL, (coir_link){.latency = COIR_NEVER});
    return coir_tcp_connect("server:7", &stream);
}

static int converse(coir_sim *sim, void *arg)
{
    (void)arg;
    CHECK(coir_sim_host(sim, "server", serve_echo, NULL));
    CHECK_EQ(coir_sim_host_main(sim, "client", talk, sim), -ETIMEDOUT);
    return 0;
}

static int look_for_hosts(void *arg)
{
    coir_stream *stream;
    (void)arg;
    coir_sleep_for(COIR_S);
    CHECK_EQ(coir_tcp_connect("93.0.0.1:7", &stream), -ENETUNREACH); /* is not host 1 */
    CHECK_EQ(coir_tcp_connect("192.0.2.1:7", &stream), -ETIMEDOUT);
    CHECK_EQ(coir_tcp_connect("10.0.0.9:7", &stream), -ECONNREFUSED);
    CHECK_EQ(coir_tcp_connect("10.0.0.1:7", &stream), 0);
    coir_close(stream);
    return 0;
}

static int serve_and_connect(void *arg)
{
    coir_stream *stream;
    (void)arg;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, serve_echo, NULL), 0);
    coir_sleep_for(COIR_S);
    CHECK_EQ(coir_tcp_connect("0.0.0.0:7", &stream), 0);
    coir_close(stream);
    coir_scope_cancel(scope);
    coir_scope_wait(scope);
    return 0;
}

static int look(coir_sim *sim, void *arg)
{
    (void)arg;
    CHECK(coir_sim_host(sim, "server", serve_echo, NULL));
    CHECK_EQ(coir_sim_host_main(sim, "client", look_for_hosts, NULL), 0);
    return coir_sim_host_main(sim, "both", serve_and_connect, NULL);
}

TEST(an_address_leads_to_the_host_that_has_it)
{
    coir_sim_options options = test_sim_options(1, 1);
    CHECK_EQ(coir_sim_run(&options, look, NULL, NULL), 0);
}

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

static struct {
    coir_sim *sim;
    coir_host *server;
    enum { CUT, CUT_BACK, CRASH, CUT_FOR_A_WHILE } how;
} fate;

static void befall(void)
{
    coir_link cut = {.latency = COIR_MS, .cut = true, .one_way = fate.how == CUT_BACK};
    if (fate.how == CRASH)
        coir_sim_crash(fate.sim, fate.server);
    else
        coir_sim_link(fate.sim, fate.server, NULL, cut);
}

/* Until nothing more goes out; then the server is gone. */
static int fill(void *arg)
{
    static char block[100000];
    coir_stream *stream;
    (void)arg;
    coir_sleep_for(COIR_S);
    CHECK_EQ(coir_tcp_connect("server:7", &stream), 0);
    ssize_t n = 0;
    while (n >= 0) {
        COIR_DEADLINE(coir_in(COIR_S));
        n = coir_write(stream, block, sizeof block);
    }
    CHECK_EQ(n, -ETIME);
    befall();
    if (fate.how == CUT_FOR_A_WHILE) {
        coir_sleep_for(10 * COIR_S);
        coir_sim_link(fate.sim, NULL, NULL, (coir_link){.latency = COIR_MS});
    }
    COIR_DEADLINE(coir_in(100 * COIR_S));
    n = coir_write(stream, block, sizeof block);
    coir_close(stream);
    return (int)n;
}

static int fill_up(coir_sim *sim, void *arg)
{
    (void)arg;
    fate.sim = sim;
    CHECK((fate.server = coir_sim_host(sim, "server", serve_no_reads, NULL)));
    CHECK_EQ(coir_sim_host_main(sim, "client", fill, NULL),
             fate.how == CUT_FOR_A_WHILE ? -ETIME : -ETIMEDOUT);
    return 0;
}

TEST(a_writer_that_waits_for_room_notices_that_its_peer_is_gone)
{
    coir_sim_options options = test_sim_options(1, 1);
    for (fate.how = CUT; fate.how <= CUT_FOR_A_WHILE; fate.how++)
        CHECK_EQ(coir_sim_run(&options, fill_up, NULL, NULL), 0);
}

static int read_all(coir_stream *stream, void *arg)
{
    static char block[10000];
    (void)arg;
    while (coir_read(stream, block, sizeof block) > 0)
        ;
    return 0;
}

static int serve_reads(void *arg)
{
    (void)arg;
    return coir_serve_tcp("0.0.0.0:7", read_all, NULL);
}

static int write_without_answers(void *arg)
{
    static char block[100000];
    coir_stream *stream;
    (void)arg;
    coir_sleep_for(COIR_S);
    CHECK_EQ(coir_tcp_connect("server:7", &stream), 0);
    coir_sim_link(fate.sim, fate.server, NULL, (coir_link){.cut = true, .one_way = true});
    COIR_DEADLINE(coir_in(100 * COIR_S));
    ssize_t n = coir_write_all(stream, block, sizeof block);
    coir_close(stream);
    return (int)n;
}

static int cut_back(coir_sim *sim, void *arg)
{
    (void)arg;
    fate.sim = sim;
    CHECK((fate.server = coir_sim_host(sim, "server", serve_reads, NULL)));
    CHECK_EQ(coir_sim_host_main(sim, "client", write_without_answers, NULL), -ETIMEDOUT);
    return 0;
}

TEST(so_does_one_whose_window_fills_behind_the_cut)
{
    coir_sim_options options = test_sim_options(1, 1);
    CHECK_EQ(coir_sim_run(&options, cut_back, NULL, NULL), 0);
}

/* Reads for a while, once the link is back. */
static int read_now_and_then(coir_stream *stream, void *arg)
{
    static char block[10000];
    (void)arg;
    coir_sleep_for(40 * COIR_S);
    for (coir_time until = coir_in(COIR_S); coir_now() < until; coir_sleep_for(100 * COIR_MS))
        coir_read(stream, block, sizeof block);
    coir_sleep_for(60 * COIR_S);
    return read_all(stream, NULL);
}

static int serve_now_and_then(void *arg)
{
    (void)arg;
    return coir_serve_tcp("0.0.0.0:7", read_now_and_then, NULL);
}

static int write_all(void *stream)
{
    static char block[400000];
    return (int)coir_write_all(stream, block, sizeof block);
}

static int cut_twice(void *arg)
{
    coir_stream *stream;
    coir_link cut = {.latency = COIR_MS, .cut = true}, linked = {.latency = COIR_MS};
    (void)arg;
    coir_sleep_for(COIR_S);
    CHECK_EQ(coir_tcp_connect("server:7", &stream), 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, write_all, stream), 0);
    coir_sleep_for(3 * COIR_S);
    coir_sim_link(fate.sim, NULL, NULL, cut);
    coir_sleep_for(36 * COIR_S);
    coir_sim_link(fate.sim, NULL, NULL, linked);
    coir_sleep_for(5 * COIR_S);
    coir_sim_link(fate.sim, NULL, NULL, cut);
    coir_sleep_for(20 * COIR_S);
    coir_sim_link(fate.sim, NULL, NULL, linked);
    int rc = coir_scope_wait(scope);
    coir_close(stream);
    return rc;
}

static int cut_and_cut(coir_sim *sim, void *arg)
{
    (void)arg;
    fate.sim = sim;
    CHECK((fate.server = coir_sim_host(sim, "server", serve_now_and_then, NULL)));
    CHECK_EQ(coir_sim_host_main(sim, "client", cut_twice, NULL), 0);
    return 0;
}

TEST(room_that_a_writer_hears_of_begins_its_time_anew)
{
    coir_sim_options options = test_sim_options(1, 1);
    CHECK_EQ(coir_sim_run(&options, cut_and_cut, NULL, NULL), 0);
}

static int read_over_a_cut_link(void *arg)
{
    coir_event event = COIR_EVENT_INIT;
    coir_stream *stream;
    char byte;
    (void)arg;
    coir_sleep_for(COIR_S);
    CHECK_EQ(coir_tcp_connect("server:7", &stream), 0);
    CHECK_EQ(coir_write(stream, "x", 1), 1);
    coir_sleep_for(COIR_S);
    coir_sim_link(fate.sim, NULL, NULL, (coir_link){.cut = true});
    CHECK_EQ(coir_read(stream, &byte, 1), 1);
    return coir_event_wait(&event);
}

static int wait_for_ever(coir_sim *sim, void *arg)
{
    (void)arg;
    fate.sim = sim;
    CHECK(coir_sim_host(sim, "server", serve_echo, NULL));
    CHECK_EQ(coir_sim_host_main(sim, "client", read_over_a_cut_link, NULL), -EDEADLK);
    return -EDEADLK;
}

TEST(a_cut_link_does_not_hide_that_nothing_can_happen)
{
    coir_sim_options options = test_sim_options(1, 1);
    CHECK_EQ(coir_sim_run(&options, wait_for_ever, NULL, NULL), -EDEADLK);
}

TEST(a_link_without_an_end_to_its_latency_is_cut)
{
    coir_sim_options options = test_sim_options(1, 1);
    CHECK_EQ(coir_sim_run(&options, converse, NULL, NULL), 0);
}

/* ---- misuse ---- */

static coir_sim *outer_sim;
static coir_host *outer_host;

static int run_inside(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_sim_host_main(outer_sim, "nested", sleep_short, NULL), -EBUSY);
    return 7;
}

static int other_world(coir_sim *sim, void *arg)
{
    (void)arg;
    coir_link link = {.size = sizeof link, .cut = true};
    coir_faults faults = {.size = sizeof faults, .no_memory = 1};
    coir_sim_set_link(sim, outer_host, NULL, &link);
    coir_sim_set_faults(sim, outer_host, &faults);
    coir_sim_crash(sim, outer_host);
    coir_sim_stop(sim, outer_host);
    return 0;
}

static int misuse(coir_sim *sim, void *arg)
{
    char name[65];
    static int ended; /* after this function */
    (void)arg;
    outer_sim = sim;
    memset(name, 'x', sizeof name);
    name[64] = '\0';
    CHECK(!coir_sim_host(NULL, "a", sleep_short, NULL));
    CHECK(!coir_sim_host(sim, NULL, sleep_short, NULL));
    CHECK(!coir_sim_host(sim, "", sleep_short, NULL));
    CHECK(!coir_sim_host(sim, name, sleep_short, NULL));
    CHECK(!coir_sim_host(sim, "a", NULL, NULL));
    CHECK_EQ(coir_sim_host_main(sim, name, sleep_short, NULL), -EINVAL);
    CHECK_EQ(coir_sim_host_main(NULL, "a", sleep_short, NULL), -EINVAL);
    CHECK_EQ(coir_sim_host_main(sim, "a", NULL, NULL), -EINVAL);
    CHECK((outer_host = coir_sim_host(sim, name + 1, sleep_long, &ended)));
    coir_sim_set_link(sim, NULL, NULL, NULL);
    coir_sim_set_link(sim, NULL, NULL, &(coir_link){.cut = true}); /* no size */
    coir_sim_set_faults(sim, NULL, NULL);
    coir_sim_crash(sim, NULL);
    coir_sim_stop(NULL, outer_host);
    CHECK(coir_host_is_down(NULL));
    CHECK_EQ(coir_sim_random(NULL), 0);
    coir_config config = COIR_CONFIG;
    CHECK_EQ(coir_sim_configure(NULL, &config), -EINVAL);
    CHECK_EQ(coir_sim_set_name(sim, "name", NULL), -EINVAL);
    CHECK_EQ(coir_sim_set_name(sim, NULL, &(coir_name_answer){0}), -EINVAL);
    coir_sim_options options = test_sim_options(2, 1);
    CHECK_EQ(coir_sim_run(&options, other_world, NULL, NULL), 0);
    CHECK_EQ(coir_sim_run(&options, NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(coir_sim_host_main(sim, "a", run_inside, NULL), 7);
    CHECK(!coir_host_is_down(outer_host) && ended == 0);
    return 0;
}

TEST(misuse_is_refused)
{
    coir_sim_options options = test_sim_options(1, 1);
    ci_misuse_aborts = false;
    CHECK_EQ(coir_sim_run(&options, misuse, NULL, NULL), 0);
}

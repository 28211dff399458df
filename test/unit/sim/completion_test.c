/* The fault "late": what is complete is told late, so that a deadline that passes meanwhile comes
 * too late, and a cancelled operation ends late too. Both happen, and neither does without the
 * fault. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "harness.h"

enum { ROUNDS = 200 };

static struct {
    coir_sim *sim;
    double late;
    int told_late;  /* reads told later than their byte came */
    int too_late;   /* reads that had their byte although the deadline had passed */
    int ended_late; /* reads whose deadline passed, and that ended well after it */
    int files_late; /* operations on a file that took longer than the disk */
    coir_time sent;
} w;

static int write_bytes(void *arg)
{
    coir_stream *stream = arg;
    for (int i = 0; i < ROUNDS; i++) {
        coir_sleep_for(10 * COIR_MS);
        w.sent = coir_now();
        CHECK_EQ(coir_write(stream, "x", 1), 1);
    }
    return 0;
}

/* Deadlines around the time at which the next byte comes; the rest of the byte is taken without
 * one. */
static void read_bytes(coir_stream *stream)
{
    char byte;
    for (int got = 0; got < ROUNDS;) {
        coir_time deadline = coir_in((coir_time)(coir_sim_random(w.sim) % (20 * COIR_MS)));
        ssize_t n;
        {
            COIR_DEADLINE(deadline);
            n = coir_read(stream, &byte, 1);
        }
        coir_time now = coir_now();
        CHECK(n == 1 || n == -ETIME);
        got += n == 1;
        w.told_late += n == 1 && now > w.sent + 50 * COIR_US;
        w.too_late += n == 1 && now > deadline + 50 * COIR_US;
        w.ended_late += n == -ETIME && now > deadline + 50 * COIR_US;
    }
}

static void use_streams(void)
{
    coir_listener *listener;
    coir_stream *client, *server;
    CHECK_EQ(coir_tcp_listen("0.0.0.0:7777", &listener), 0);
    CHECK_EQ(coir_tcp_connect("127.0.0.1:7777", &client), 0);
    CHECK_EQ(coir_accept(listener, &server), 0);
    {
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, write_bytes, client), 0);
        read_bytes(server);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    coir_listener_close(listener);
    coir_close(client);
    coir_close(server);
}

/* The disk takes at most 200 us for a write. */
static void use_files(void)
{
    coir_file *file;
    CHECK_EQ(coir_file_open("notes", O_RDWR | O_CREAT, 0600, &file), 0);
    for (int i = 0; i < ROUNDS; i++) {
        coir_time begun = coir_now();
        CHECK_EQ(coir_file_write(file, "x", 1, i), 1);
        w.files_late += coir_now() > begun + 250 * COIR_US;
    }
    coir_file_close(file);
}

static int use_all(void *arg)
{
    (void)arg;
    coir_sim_faults(w.sim, NULL, (coir_faults){.late = w.late});
    use_streams();
    use_files();
    return 0;
}

static int scenario(coir_sim *sim, void *arg)
{
    w.sim = sim;
    return coir_sim_host_main(sim, "host", use_all, arg);
}

static void count(double late)
{
    memset(&w, 0, sizeof w);
    w.late = late;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        coir_sim_options options = test_sim_options(seed, 1 + (unsigned)(seed % 2));
        CHECK_EQ(coir_sim_run(&options, scenario, NULL, NULL), 0);
    }
    if (late > 0)
        CHECK(w.told_late > 20 && w.too_late > 0 && w.ended_late > 20 && w.files_late > 20);
    else
        CHECK(w.told_late == 0 && w.too_late == 0 && w.ended_late == 0 && w.files_late == 0);
}

TEST(late_news_come_late)
{
    count(1);
}

TEST(some_news_come_late)
{
    count(0.3);
}

TEST(news_come_at_once_without_the_fault)
{
    count(0);
}

/* A stream goes from one driver to another with what was read of it. Here both are the same driver:
 * what it keeps of a descriptor goes in between. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "env.h"

static char sent[20000];

static void write_pattern(size_t len)
{
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (char)(i * 31 >> 3);
    for (size_t done = 0; done < len;) {
        int n = write_some(env.client, sent + done, len - done);
        CHECK(n > 0);
        done += (size_t)n;
    }
}

static void read_pattern(size_t from, size_t to)
{
    char got[3000];
    while (from < to) {
        int n = read_some(env.server, got, to - from < sizeof got ? to - from : sizeof got);
        CHECK(n > 0 && memcmp(got, sent + from, (size_t)n) == 0);
        from += (size_t)n;
    }
}

static void move(void)
{
    struct ci_ahead *ahead;
    CHECK_EQ(ci_driver_detach(env.driver, env.server, &ahead), 0);
    if (ahead)
        CHECK_EQ(env.driver->kind->adopt(env.driver, env.server, ahead), 0);
}

/* Lets the driver read ahead what it will. */
static void read_ahead(void)
{
    CHECK(wait_events(env.server, COIR_READ) & COIR_READ);
    for (int i = 0; i < 3; i++)
        pass();
}

CONFORM(what_was_read_ahead_moves)
{
    char byte;
    cancel_a_read(env.server);
    write_pattern(5000);
    read_ahead();
    move(); /* unread */
    read_pattern(0, 100);
    move(); /* in the middle */
    move(); /* and at once again */
    CHECK(wait_events(env.server, COIR_READ) & COIR_READ);
    read_pattern(100, 5000);
    struct ci_op try_read = {
        .fd = env.server, .kind = CI_OP_READ, .buf = &byte, .len = 1, .no_wait = true};
    CHECK_EQ(run(try_read), -EAGAIN);
    move(); /* with nothing */
    write_pattern(5000);
    CHECK_EQ(env.driver->kind->shutdown_write(env.driver, env.client), 0);
    read_ahead();
    move();
    read_pattern(0, 5000);
    move();
    CHECK_EQ(read_some(env.server, &byte, 1), 0);
    close_pair();
}

CONFORM(an_error_behind_what_was_read_ahead_moves)
{
    char byte;
    CHECK_EQ(write_some(env.server, "unread", 6), 6);
    cancel_a_read(env.server);
    write_pattern(100);
    read_ahead();
    CHECK(wait_events(env.client, COIR_READ) & COIR_READ);
    close_fd(env.client); /* with unread data: a reset */
    for (int i = 0; i < 3; i++)
        pass();
    move();
    move();
    int n = read_some(env.server, &byte, 1); /* a reset may destroy what came before it */
    CHECK(n == 1 || n == -ECONNRESET);
    while (n == 1)
        n = read_some(env.server, &byte, 1);
    CHECK_EQ(n, -ECONNRESET);
    close_fd(env.server);
}

/* It needs none of the driver's buffers. */
static void without_buffers_body(void)
{
    coir_fd client, server;
    cancel_a_read(env.server);
    write_pattern(8000);
    read_ahead();
    client = env.client;
    server = env.server;
    make_pair();
    crowd_in();
    close_pair();
    env.client = client;
    env.server = server;
    move();
    read_pattern(0, 50);
    move();
    read_pattern(50, 8000);
    write_pattern(8000);
    read_pattern(0, 8000);
    close_pair();
    crowd_out();
}

ON_REAL(what_was_read_ahead_moves_without_buffers, without_buffers_body)

/* Closed with unread bytes, in whichever driver they are: the connection is reset. */
static void reset_body(void)
{
    for (int moves = 0; moves < 3; moves++) {
        char byte;
        cancel_a_read(env.server);
        write_pattern(5000);
        read_ahead();
        for (int i = 0; i < moves; i++)
            move();
        read_pattern(0, 10);
        close_fd(env.server);
        CHECK_EQ(read_some(env.client, &byte, 1), -ECONNRESET);
        close_fd(env.client);
        make_pair();
    }
    close_pair();
}

ON_REAL(unread_bytes_at_close_are_a_reset, reset_body)

/* ---- between two drivers, while more comes ---- */

static size_t came;

static void send_more(size_t len)
{
    unsigned char data[4000];
    for (size_t i = 0; i < len; i++)
        data[i] = (unsigned char)((came + i) * 31 >> 3);
    CHECK_EQ(send(env.client, data, len, 0), (ssize_t)len);
    came += len;
}

static void two_drivers_body(void)
{
    struct ci_driver *drivers[2] = {env.driver};
    size_t got = 0;
    came = 0;
    CHECK_EQ(ci_driver_open(env.name, &ci_system_allocator, &drivers[1]), 0);
    for (int i = 0; i < 200; i++) {
        unsigned char in[1500];
        struct ci_ahead *ahead;
        env.driver = drivers[i % 2];
        struct counted polling;
        if (i % 3 == 0 &&
            !start(&polling,
                   (struct ci_op){.fd = env.server, .kind = CI_OP_POLL, .events = COIR_READ}))
            CHECK_EQ(stop(&polling), -ECANCELED);
        send_more(1 + (size_t)i * 19 % 4000); /* it may be on its way into a buffer */
        if (i % 5 == 0)
            env.driver->kind->wait(env.driver, 0);
        if (i % 2)
            send_more(1 + (size_t)i * 7 % 4000);
        for (int n = 0; n < i % 4 && got < came; n++) {
            int len = read_some(env.server, in, sizeof in);
            CHECK(len > 0);
            for (int j = 0; j < len; j++)
                CHECK_EQ(in[j], (unsigned char)((got + (size_t)j) * 31 >> 3));
            got += (size_t)len;
        }
        CHECK_EQ(ci_driver_detach(env.driver, env.server, &ahead), 0);
        send_more(10); /* for the other driver */
        if (ahead)
            CHECK_EQ(drivers[!(i % 2)]->kind->adopt(drivers[!(i % 2)], env.server, ahead), 0);
    }
    env.driver = drivers[0];
    while (got < came) {
        unsigned char in[4000];
        int len = read_some(env.server, in, sizeof in);
        CHECK(len > 0);
        for (int j = 0; j < len; j++)
            CHECK_EQ(in[j], (unsigned char)((got + (size_t)j) * 31 >> 3));
        got += (size_t)len;
    }
    drivers[1]->kind->free(drivers[1]);
    close_pair();
}

ON_REAL(a_stream_moves_between_two_drivers, two_drivers_body)

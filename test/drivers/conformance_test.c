/* One suite for every driver: the same calls must have the same results. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "env.h"

CONFORM(bytes_arrive_in_order_and_the_end_after_them)
{
    char buf[16];
    CHECK_EQ(write_some(env.client, "hello", 5), 5);
    CHECK_EQ(read_some(env.server, buf, 3), 3);
    CHECK_EQ(read_some(env.server, buf + 3, 13), 2);
    CHECK(memcmp(buf, "hello", 5) == 0);
    CHECK_EQ(env.driver->kind->shutdown_write(env.driver, env.client), 0);
    CHECK_EQ(read_some(env.server, buf, 16), 0);
    CHECK_EQ(write_some(env.server, "bye", 3), 3); /* half closed: the other way is open */
    CHECK_EQ(read_some(env.client, buf, 16), 3);
    close_fd(env.client);
    close_fd(env.server);
}

CONFORM(vectors_gather_and_scatter)
{
    char a[3], b[10] = "";
    struct iovec out[2] = {{(void *)(uintptr_t) "ab", 2}, {(void *)(uintptr_t) "cdef", 4}},
                 in[2] = {{a, 3}, {b, 10}};
    CHECK_EQ(run((struct ci_op){.fd = env.client, .kind = CI_OP_WRITEV, .iov = out, .count = 2}),
             6);
    CHECK_EQ(run((struct ci_op){.fd = env.server, .kind = CI_OP_READV, .iov = in, .count = 2}), 6);
    CHECK(memcmp(a, "abc", 3) == 0 && memcmp(b, "def", 3) == 0);
    close_fd(env.client);
    close_fd(env.server);
}

/* io_uring's own polls end at once where the peer will send no more. */
CONFORM(writing_to_a_half_closed_peer_without_room_takes_no_turns)
{
    enum { TURNS_MOST = 100, PIECE = 1 << 19 };
    static char data[2 * PIECE], in[1 << 16];
    struct iovec out[2] = {{data, PIECE}, {data + PIECE, PIECE}};
    struct counted writing;
    CHECK_EQ(env.driver->kind->shutdown_write(env.driver, env.client), 0);
    fill_up(env.server);
    if (start(&writing,
              (struct ci_op){.fd = env.server, .kind = CI_OP_WRITEV, .iov = out, .count = 2}))
        CHECK(writing.op.result > 0); /* a little room after all */
    int turns = 0;
    coir_time deadline = ci_driver_now(env.driver) + 200 * COIR_MS;
    while (!env.world && !writing.done && ci_driver_now(env.driver) < deadline) {
        env.driver->kind->wait(env.driver, deadline);
        turns++;
    }
    CHECK(turns <= TURNS_MOST);
    while (writing.op.pending)
        CHECK(read_some(env.client, in, sizeof in) > 0);
    CHECK(writing.op.result > 0);
    close_fd(env.client);
    close_fd(env.server);
}

CONFORM(a_cancelled_read_loses_nothing)
{
    char buf[16];
    struct counted reading;
    for (int i = 0; i < 100; i++) {
        CHECK(!start(
            &reading,
            (struct ci_op){.fd = env.server, .kind = CI_OP_READ, .buf = buf, .len = sizeof buf}));
        if (i % 2)
            CHECK_EQ(write_some(env.client, "x", 1), 1); /* races with the cancel */
        int got = stop(&reading);
        CHECK(got == -ECANCELED || (i % 2 && got == 1));
        if (i % 2 && got != 1)
            CHECK_EQ(read_some(env.server, buf, sizeof buf), 1);
    }
    close_fd(env.client);
    close_fd(env.server);
}

CONFORM(closing_completes_what_waits)
{
    char buf[16];
    struct counted reading;
    CHECK(!start(
        &reading,
        (struct ci_op){.fd = env.server, .kind = CI_OP_READ, .buf = buf, .len = sizeof buf}));
    close_fd(env.server);
    CHECK_EQ(reading.done, 1); /* inside of close: no wait is needed */
    CHECK_EQ(reading.op.result, -ECANCELED);
    close_fd(env.client);
}

CONFORM(forgetting_completes_what_waits_and_leaves_the_descriptor)
{
    char buf[16];
    struct counted reading, polling;
    for (int i = 0; i < 3; i++) {
        CHECK(!start(
            &reading,
            (struct ci_op){.fd = env.server, .kind = CI_OP_READ, .buf = buf, .len = sizeof buf}));
        CHECK(!start(&polling, (struct ci_op){.fd = env.server, .kind = CI_OP_POLL}));
        if (i == 1)
            env.driver->kind->wait(env.driver, 0);
        env.driver->kind->forget(env.driver, env.server);
        CHECK(reading.done == 1 && polling.done == 1);
        CHECK(reading.op.result == -ECANCELED && polling.op.result == -ECANCELED);
        CHECK_EQ(write_some(env.client, "here", 4), 4);
        CHECK_EQ(read_some(env.server, buf, 16), 4);
    }
    close_fd(env.client);
    close_fd(env.server);
}

CONFORM(a_descriptor_number_is_reused_without_harm)
{
    char buf[16];
    for (int i = 0; i < 20; i++) {
        coir_fd before = env.server;
        /* an event for the old user of the number */
        CHECK_EQ(write_some(env.client, "stale", 5), 5);
        close_fd(env.server);
        close_fd(env.client);
        make_pair();
        CHECK(i == 0 || env.server == before || env.client == before || env.server >= 0);
        struct counted reading;
        CHECK(!start(
            &reading,
            (struct ci_op){.fd = env.server, .kind = CI_OP_READ, .buf = buf, .len = sizeof buf}));
        CHECK_EQ(write_some(env.client, "new", 3), 3);
        CHECK_EQ(finish(&reading), 3);
    }
    close_fd(env.client);
    close_fd(env.server);
}

CONFORM(a_full_stream_makes_the_writer_wait)
{
    static char in[1 << 16];
    struct counted writing;
    size_t sent = write_until_full(env.client, &writing), got = 0;
    CHECK(!writing.done);
    while (!writing.done || got < sent + (size_t)writing.op.result) {
        got += (size_t)read_some(env.server, in, sizeof in);
        if (!writing.done)
            env.driver->kind->wait(env.driver, 0);
    }
    CHECK(writing.op.result > 0);
    close_fd(env.client);
    close_fd(env.server);
}

CONFORM(a_connection_nobody_listens_for_is_refused)
{
    struct sockaddr_storage address = listener_address();
    close_fd(env.listener);
    coir_fd fd = env.driver->kind->socket(env.driver, AF_INET);
    struct ci_op connect = {.fd = fd,
                            .kind = CI_OP_CONNECT,
                            .address = (struct sockaddr *)&address,
                            .count = sizeof(struct sockaddr_in)};
    CHECK_EQ(run(connect), -ECONNREFUSED);
    close_fd(fd);
    close_fd(env.client);
    close_fd(env.server);
    listen_anywhere();
}

CONFORM(an_accept_cancelled_in_a_race_leaks_nothing)
{
    for (int i = 0; i < 50; i++) {
        struct counted accepting, connecting;
        struct sockaddr_storage address = listener_address();
        CHECK(!start(&accepting,
                     (struct ci_op){.fd = env.listener, .kind = CI_OP_ACCEPT, .len = serial}));
        coir_fd fd = env.driver->kind->socket(env.driver, AF_INET);
        struct ci_op connect = {.fd = fd,
                                .kind = CI_OP_CONNECT,
                                .address = (struct sockaddr *)&address,
                                .count = sizeof(struct sockaddr_in)};
        bool at_once = start(&connecting, connect);
        if (i % 3 == 0)
            pass();
        int accepted = stop(&accepting);
        if (accepted < 0) {
            CHECK_EQ(accepted, -ECANCELED);
            accepted = accept_one(); /* the connection waits in the backlog */
        }
        if (!at_once && !connecting.done)
            finish(&connecting);
        close_fd(accepted);
        close_fd(fd);
    }
    close_fd(env.client);
    close_fd(env.server);
}

CONFORM(bad_descriptors_are_errors)
{
    char byte;
    CHECK_EQ(read_some(-1, &byte, 1), -EBADF);
    CHECK(read_some(9999, &byte, 1) < 0);
    close_fd(env.client);
    close_fd(env.server);
}

/* ---- how much is asked for ---- */

static int at_once(struct ci_op op)
{
    struct counted counted;
    op.no_wait = false;
    CHECK(start(&counted, op));
    return counted.op.result;
}

/* Asks for nothing, and for less than nothing, in every way. */
static void ask_for_nothing(coir_fd fd)
{
    static struct iovec empty[2000];
    char byte = 0;
    struct iovec too_long = {&byte, (size_t)INT64_MAX + 1};
    static const enum ci_op_kind vectors[] = {CI_OP_READV, CI_OP_WRITEV};
    CHECK_EQ(at_once((struct ci_op){.fd = fd, .kind = CI_OP_READ, .buf = &byte}), 0);
    CHECK_EQ(at_once((struct ci_op){.fd = fd, .kind = CI_OP_WRITE, .data = &byte}), 0);
    for (int i = 0; i < 2; i++) {
        struct ci_op op = {.fd = fd, .kind = (uint8_t)vectors[i], .iov = empty};
        static const int counts[] = {0, 1, 2000, -1, INT32_MIN};
        for (size_t j = 0; j < ci_countof(counts); j++) {
            op.count = counts[j];
            CHECK_EQ(at_once(op), counts[j] < 0 ? -EINVAL : 0);
        }
        CHECK_EQ(at_once((struct ci_op){
                     .fd = fd, .kind = (uint8_t)vectors[i], .iov = &too_long, .count = 1}),
                 -EINVAL);
    }
}

CONFORM(asking_for_nothing_is_answered_at_once)
{
    struct counted writing;
    char buf[8];
    ask_for_nothing(env.server); /* nothing there */
    CHECK_EQ(write_some(env.client, "abc", 3), 3);
    CHECK(wait_events(env.server, COIR_READ) & COIR_READ);
    ask_for_nothing(env.server);
    CHECK_EQ(read_some(env.server, buf, sizeof buf), 3); /* which took none of it */
    fill_up(env.client);
    write_until_full(env.client, &writing);
    ask_for_nothing(env.client);
    CHECK_EQ(stop(&writing), -ECANCELED);
    CHECK_EQ(env.driver->kind->shutdown_write(env.driver, env.server), 0);
    CHECK(wait_events(env.client, COIR_READ) & COIR_READ);
    ask_for_nothing(env.client); /* at the end */
    close_fd(env.client);
    close_fd(env.server);
}

CONFORM(a_vector_may_have_any_number_of_pieces)
{
    enum { PIECES = 5000 };
    static char out[PIECES], in[PIECES];
    static struct iovec sent[PIECES], received[PIECES];
    for (int i = 0; i < PIECES; i++) {
        out[i] = (char)(i * 7);
        sent[i] = (struct iovec){&out[i], 1};
        received[i] = (struct iovec){&in[i], 1};
    }
    for (int at = 0; at < PIECES;) {
        int n = run((struct ci_op){
            .fd = env.client, .kind = CI_OP_WRITEV, .iov = sent + at, .count = PIECES - at});
        CHECK(n > 0);
        at += n;
    }
    for (int at = 0; at < PIECES;) {
        int n = run((struct ci_op){
            .fd = env.server, .kind = CI_OP_READV, .iov = received + at, .count = PIECES - at});
        CHECK(n > 0);
        at += n;
    }
    CHECK(memcmp(out, in, PIECES) == 0);
    for (int i = 0; i < PIECES - 1;
         i++) /* empty ones come before the one that matters: 0 would be the end of the stream */
        sent[i].iov_len = received[i].iov_len = 0;
    CHECK_EQ(
        run((struct ci_op){.fd = env.client, .kind = CI_OP_WRITEV, .iov = sent, .count = PIECES}),
        1);
    CHECK_EQ(run((struct ci_op){
                 .fd = env.server, .kind = CI_OP_READV, .iov = received, .count = PIECES}),
             1);
    CHECK_EQ(write_some(env.client, "abc", 3), 3);
    CHECK_EQ(read_some(env.server, in, SIZE_MAX), 3); /* and a read may be told of any room */
    close_fd(env.client);
    close_fd(env.server);
}

/* ---- what only real drivers have ---- */

static bool woken;
static int early[3];

static void *wake_later(void *arg)
{
    usleep(2000);
    ci_store_release(&woken, true); /* pairs with the acquire in borders_body */
    env.driver->kind->wake(arg);
    return NULL;
}

static void wake_body(void)
{
    pthread_t thread;
    env.driver->kind->wake(env.driver); /* before the wait: it returns at once */
    env.driver->kind->wait(env.driver, COIR_NEVER);
    CHECK(pthread_create(&thread, NULL, wake_later, env.driver) == 0);
    env.driver->kind->wait(env.driver, COIR_NEVER);
    pthread_join(thread, NULL);
    close_fd(env.client);
    close_fd(env.server);
}

ON_REAL(a_wake_ends_the_wait, wake_body)

/* A wait ends when its deadline has passed, however long ago; and one that is far away is waited
 * for. */
static void borders_body(void)
{
    static const coir_time past[] = {INT64_MIN, INT64_MIN + 1, -COIR_S, -1, 1};
    static const coir_time far_away[] = {COIR_NEVER, COIR_NEVER - 1, COIR_NEVER / 2};
    close_fd(env.client); /* nothing but the wake-up happens */
    close_fd(env.server);
    for (size_t i = 0; i < ci_countof(past); i++)
        env.driver->kind->wait(env.driver, past[i]);
    for (size_t i = 0; i < ci_countof(far_away); i++) {
        pthread_t thread;
        woken = false;
        CHECK(pthread_create(&thread, NULL, wake_later, env.driver) == 0);
        do
            env.driver->kind->wait(env.driver, far_away[i]);
        while (!ci_load_acquire(&woken) && ++early[i] < 10);
        pthread_join(thread, NULL);
        CHECK(early[i] < 10); /* a refused timeout would return at once each time */
    }
}

ON_REAL(any_deadline_can_be_waited_for, borders_body)

static void foreign_body(void)
{
    int ends[2];
    char byte;
    struct counted first, second;
    CHECK_EQ(pipe(ends), 0);
    for (int i = 0; i < 50; i++) { /* closed, and the numbers reused, between two waits */
        struct ci_op op = {.fd = ends[0], .kind = CI_OP_FOREIGN, .events = COIR_READ};
        CHECK(!start(&first, op));
        CHECK(start(&second, op));
        CHECK_EQ(second.op.result, -EBUSY);
        CHECK_EQ(write(ends[1], "x", 1), 1);
        CHECK_EQ(finish(&first), COIR_READ);
        CHECK_EQ(run(op), COIR_READ); /* still there: the kernel is asked again */
        CHECK_EQ(read(ends[0], &byte, 1), 1);
        CHECK(!start(&first, op));
        close(ends[1]);
        CHECK(finish(&first) & COIR_HANGUP); /* at once, not at some deadline */
        close(ends[0]);
        CHECK_EQ(run(op), -EBADF);
        CHECK_EQ(pipe(ends), 0);
    }
    CHECK(
        !start(&first, (struct ci_op){.fd = ends[0], .kind = CI_OP_FOREIGN, .events = COIR_READ}));
    CHECK(ci_driver_cancel(env.driver, &first.op));
    CHECK_EQ(
        run((struct ci_op){.fd = fileno(tmpfile()), .kind = CI_OP_FOREIGN, .events = COIR_READ}),
        COIR_READ);
    close_fd(env.client);
    close_fd(env.server);
}

ON_REAL(foreign_descriptors_are_asked_for_each_time, foreign_body)

/* The program may close the descriptor right after the wait, not by the driver: the peer hears of
 * it. */
static void given_up_body(void)
{
    char byte;
    int ends[2];
    struct counted waiting;
    CHECK_EQ(pipe2(ends, O_NONBLOCK), 0);
    CHECK(!start(&waiting,
                 (struct ci_op){.fd = ends[0], .kind = CI_OP_FOREIGN, .events = COIR_READ}));
    env.driver->kind->wait(env.driver, 0);
    CHECK(ci_driver_cancel(env.driver, &waiting.op));
    close(ends[0]);
    CHECK_EQ(write(ends[1], &byte, 1), -1);
    CHECK_EQ(errno, EPIPE);
    close(ends[1]);
    close_pair();
}

ON_REAL(a_wait_that_was_given_up_keeps_no_file_open, given_up_body)

/* A driver that went on polling it would also keep its file open: the peer would not see the
 * end. */
static void closed_body(void)
{
    char byte;
    int ends[2];
    struct counted reading;
    struct ci_op op = {.fd = env.server, .kind = CI_OP_READ, .buf = &byte, .len = 1};
    CHECK(!start(&reading, op));
    env.driver->kind->wait(env.driver, 0);
    close_fd(env.server);
    close_fd(env.client);
    CHECK_EQ(reading.op.result, -ECANCELED);
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    if (ends[0] != env.server) /* the number is that of something readable, not of the driver's */
        CHECK_EQ(dup2(ends[0], env.server), env.server);
    coir_time deadline = ci_driver_now(env.driver) + 20 * COIR_MS;
    env.driver->kind->wait(env.driver, deadline);
    CHECK(ci_driver_now(env.driver) >= deadline);
    if (ends[0] != env.server)
        close(env.server);
    close(ends[0]);
    close(ends[1]);
}

/* Not io_uring, which closes after the call has returned: the number is not free yet. */
ON_SELECTORS(a_closed_descriptor_is_not_polled_any_more, closed_body)

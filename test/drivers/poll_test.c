/* Waits for events on a stream, beside all that a driver does on it by itself. */
#include <errno.h>
#include <poll.h>

#include "env.h"
#include "sys/call.h"

/* Waits for both directions of the server's stream: a byte must be seen. */
static void wait_for_both(void)
{
    char byte;
    struct counted both;
    for (bool waits = false; !waits;) {
        waits = !start(
            &both,
            (struct ci_op){.fd = env.server, .kind = CI_OP_POLL, .events = COIR_READ | COIR_WRITE});
        for (int i = 0; waits && i < 3; i++)
            env.driver->kind->wait(env.driver, 0);
        waits &= !both.done;
        CHECK(waits || both.op.result == COIR_WRITE);
        if (!waits)
            fill_up(env.server); /* the kernel has made room meanwhile */
    }
    CHECK_EQ(write_some(env.client, "x", 1), 1);
    CHECK(completes_soon(&both));
    CHECK(both.op.result & COIR_READ);
    CHECK_EQ(read_some(env.server, &byte, 1), 1);
}

CONFORM(a_wait_for_both_directions_sees_what_comes_to_read)
{
    fill_up(env.server); /* only reading can become possible from now on */
    wait_for_both();
    close_pair();
}

/* The driver has read ahead all that it may, and is about to stop reading, stops, or has
 * stopped. */
CONFORM(a_wait_for_both_directions_sees_what_comes_after_an_upload)
{
    for (int passes = 0; passes < 5; passes++) {
        fill_up(env.server); /* only reading can become possible from now on */
        cancel_a_read(env.server);
        write_all(env.client, 8000);
        for (int i = 0; i < passes; i++)
            env.driver->kind->wait(env.driver, 0);
        read_all(env.server, 8000);
        wait_for_both();
        close_pair();
        make_pair();
    }
    close_pair();
}

static void without_buffers_body(void)
{
    crowd_in();
    fill_up(env.server); /* only reading can become possible from now on */
    wait_for_both();
    close_pair();
    crowd_out();
}

ON_REAL(a_wait_for_both_directions_needs_no_buffer, without_buffers_body)

/* The program writes by itself, as splice(2) does: the driver does not learn that there is no room.
 * The kernel may make room while nobody reads, so the wait is begun again then. */
static void wait_for_room_after_the_end(void)
{
    static char much[65536];
    struct counted room;
    char byte;
    bool waits = false;
    size_t sent = 0;
    CHECK_EQ(env.driver->kind->shutdown_write(env.driver, env.client), 0);
    CHECK_EQ(read_some(env.server, &byte, 1), 0);
    CHECK_EQ(wait_events(env.server, COIR_WRITE), COIR_WRITE);
    for (int tries = 0; !waits && tries < 100; tries++) {
        for (ssize_t n; (n = ci_sys_write(env.server, much, sizeof much)) > 0;)
            sent += (size_t)n;
        waits = !start(
            &room, (struct ci_op){
                       .fd = env.server, .kind = CI_OP_POLL, .events = COIR_WRITE, .exact = true});
        for (int i = 0; waits && i < 3; i++)
            env.driver->kind->wait(env.driver, 0);
        waits &= !room.done;
    }
    CHECK(waits);
    read_all(env.client, sent);
    CHECK(completes_soon(&room));
    CHECK_EQ(room.op.result & COIR_WRITE, COIR_WRITE);
    close_pair();
}

ON_REAL(a_wait_for_room_is_not_answered_by_the_peers_end, wait_for_room_after_the_end)

/* ---- a wait for which the descriptor is armed alone ---- */

static bool start_alone(struct counted *wait, int events)
{
    return start(wait, (struct ci_op){.fd = env.server,
                                      .kind = CI_OP_POLL,
                                      .events = (uint8_t)events,
                                      .exact = true,
                                      .once = true});
}

static void wait_alone(int events)
{
    struct counted wait;
    int result = start_alone(&wait, events) ? wait.op.result : finish(&wait);
    CHECK_EQ(result & events, events);
}

static void receive(size_t len)
{
    char bytes[16];
    CHECK_EQ(poll(&(struct pollfd){.fd = env.server, .events = POLLIN}, 1, -1), 1);
    CHECK_EQ(recv(env.server, bytes, sizeof bytes, MSG_DONTWAIT), (ssize_t)len);
}

CONFORM(a_wait_alone_hears_what_came_before_and_after_it)
{
    struct counted wait;
    char bytes[8];
    CHECK_EQ(write_some(env.client, "a", 1), 1);
    wait_alone(COIR_READ);
    CHECK_EQ(read_some(env.server, bytes, sizeof bytes), 1);
    CHECK(!start_alone(&wait, COIR_READ));
    CHECK_EQ(write_some(env.client, "b", 1), 1);
    CHECK_EQ(finish(&wait) & COIR_READ, COIR_READ);
    wait_alone(COIR_READ); /* it still holds */
    wait_alone(COIR_WRITE);
    CHECK_EQ(read_some(env.server, bytes, sizeof bytes), 1);
    CHECK(!start_alone(&wait, COIR_READ));
    CHECK_EQ(stop(&wait), -ECANCELED);
    CHECK_EQ(write_some(env.client, "c", 1), 1);
    wait_alone(COIR_READ);
    CHECK_EQ(read_some(env.server, bytes, sizeof bytes), 1);
    CHECK_EQ(bytes[0], 'c');
    close_pair();
}

/* What comes after it, while nothing waits, is not lost: not the bytes, nor the end. */
CONFORM(after_a_wait_alone_every_other_operation_works)
{
    struct counted reading, hangup;
    char bytes[8];
    for (int round = 0; round < 3; round++) {
        CHECK_EQ(write_some(env.client, "a", 1), 1);
        wait_alone(COIR_READ);
        CHECK_EQ(read_some(env.server, bytes, sizeof bytes), 1);
        for (int i = 0; i < 3; i++)
            pass();
        CHECK_EQ(write_some(env.client, "b", 1), 1);
        for (int i = 0; i < 3; i++)
            pass();
        CHECK_EQ(read_some(env.server, bytes, sizeof bytes), 1);
        wait_alone(COIR_WRITE);
        CHECK(!start(&reading,
                     (struct ci_op){
                         .fd = env.server, .kind = CI_OP_READ, .buf = bytes, .len = sizeof bytes}));
        CHECK_EQ(write_some(env.client, "c", 1), 1);
        CHECK_EQ(finish(&reading), 1);
    }
    wait_alone(COIR_WRITE);
    CHECK(!start(&hangup,
                 (struct ci_op){.fd = env.server, .kind = CI_OP_POLL, .events = COIR_HANGUP}));
    CHECK_EQ(env.driver->kind->option(env.driver, env.client, COIR_TCP_RESET_ON_CLOSE, 1), 0);
    close_fd(env.client);
    CHECK(finish(&hangup) & (COIR_HANGUP | COIR_EVENT_ERROR));
    close_fd(env.server);
}

CONFORM(a_wait_alone_leaves_room_for_others_beside_it)
{
    struct counted wait, hangup, room;
    char bytes[8];
    struct ci_op gone = {.fd = env.server, .kind = CI_OP_POLL, .events = COIR_HANGUP};
    CHECK(!start_alone(&wait, COIR_READ));
    CHECK(!start(&hangup, gone));
    CHECK_EQ(write_some(env.client, "a", 1), 1);
    CHECK_EQ(finish(&wait) & COIR_READ, COIR_READ);
    CHECK_EQ(read_some(env.server, bytes, sizeof bytes), 1);
    CHECK(!start_alone(&wait, COIR_READ)); /* beside one that waits */
    size_t sent = write_until_full(env.server, &room);
    CHECK_EQ(write_some(env.client, "b", 1), 1);
    CHECK_EQ(finish(&wait) & COIR_READ, COIR_READ);
    read_all(env.client, sent);
    CHECK(finish(&room) > 0);
    CHECK(!hangup.done);
    CHECK_EQ(read_some(env.server, bytes, sizeof bytes), 1);
    CHECK_EQ(env.driver->kind->option(env.driver, env.client, COIR_TCP_RESET_ON_CLOSE, 1), 0);
    close_fd(env.client);
    CHECK(finish(&hangup) & (COIR_HANGUP | COIR_EVENT_ERROR));
    close_fd(env.server);
}

/* A copy waits for room in one socket while the other's bytes come: they are not to wake it. */
static void quiet_body(void)
{
    struct counted reading;
    char byte;
    coir_fd selector =
        env.driver->kind->descriptor ? env.driver->kind->descriptor(env.driver) : -ENOTSUP;
    CHECK(!start(&reading,
                 (struct ci_op){.fd = env.server, .kind = CI_OP_READ, .buf = &byte, .len = 1}));
    CHECK_EQ(write_some(env.client, "a", 1), 1);
    CHECK_EQ(finish(&reading), 1);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(send(env.client, "b", 1, MSG_DONTWAIT), 1);
        wait_alone(COIR_READ);
        receive(1);
        CHECK_EQ(send(env.client, "cc", 2, MSG_DONTWAIT), 2);
        CHECK_EQ(poll(&(struct pollfd){.fd = env.server, .events = POLLIN}, 1, -1), 1);
        CHECK_EQ(poll(&(struct pollfd){.fd = selector, .events = POLLIN}, 1, 0), 0);
        receive(2);
    }
    close_pair();
}

ON(epoll, an_armed_wait_that_has_ended_wakes_nobody, quiet_body)

/* Waits for events on a stream, beside all that a driver does on it by itself. */
#include <errno.h>

#include "env.h"
#include "sys/call.h"

/* Only reading can become possible from now on. */
static void fill_servers_side(void)
{
    struct counted writing;
    write_until_full(env.server, &writing);
    CHECK_EQ(stop(&writing), -ECANCELED);
}

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
            fill_servers_side(); /* the kernel has made room meanwhile */
    }
    CHECK_EQ(write_some(env.client, "x", 1), 1);
    CHECK(completes_soon(&both));
    CHECK(both.op.result & COIR_READ);
    CHECK_EQ(read_some(env.server, &byte, 1), 1);
}

CONFORM(a_wait_for_both_directions_sees_what_comes_to_read)
{
    fill_servers_side();
    wait_for_both();
    close_pair();
}

/* The driver has read ahead all that it may, and is about to stop reading, stops, or has
 * stopped. */
CONFORM(a_wait_for_both_directions_sees_what_comes_after_an_upload)
{
    for (int passes = 0; passes < 5; passes++) {
        fill_servers_side();
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
    fill_servers_side();
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

/* A driver whose owner changes: between an end and the next begin nothing is in flight, and what
 * was read ahead is kept. */
#include <errno.h>

#include "env.h"

static void other_pair(void)
{
    coir_fd client = env.client, server = env.server;
    char bytes[8];
    make_pair();
    CHECK_EQ(write_some(env.client, "OTHER", 5), 5);
    CHECK_EQ(read_some(env.server, bytes, sizeof bytes), 5);
    close_pair();
    env.client = client;
    env.server = server;
}

static void owners_body(void)
{
    struct counted waiting;
    char bytes[8];
    if (!env.driver->kind->begin) {
        close_pair();
        return; /* the owner makes no difference */
    }
    for (int round = 0; round < 3; round++) {
        cancel_a_read(env.server); /* the receive stays armed */
        CHECK_EQ(write_some(env.client, "ahead", 5), 5);
        CHECK(wait_events(env.server, COIR_READ) & COIR_READ);
        CHECK_EQ(read_some(env.server, bytes, 2), 2);
        env.driver->kind->end(env.driver);
        CHECK_EQ(env.driver->kind->begin(env.driver), 0);
        other_pair(); /* whose bytes must not come into a buffer that is in use */
        CHECK_EQ(read_some(env.server, bytes, sizeof bytes), 3);
        CHECK(bytes[0] == 'e' && bytes[2] == 'd');
        struct ci_op read_op = {
            .kind = CI_OP_READ, .fd = env.server, .buf = bytes, .len = sizeof bytes};
        CHECK(!start(&waiting, read_op));
        CHECK_EQ(write_some(env.client, "on", 2), 2);
        CHECK_EQ(finish(&waiting), 2);
    }
    close_pair();
}

ON_REAL(what_was_read_ahead_outlives_the_ring, owners_body)

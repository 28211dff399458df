/* What a peer sees of a stream that is closed, while the worker does not enter the kernel again. */
#include <coir.h>
#include <unistd.h>

#include "harness.h"
#include "plain.h"

TEST_REAL(a_peer_sees_the_end_while_the_fiber_that_closed_computes)
{
    char address[64];
    coir_listener *listener;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    coir_listener_local(listener, address, sizeof address);
    for (int i = 0; i < 4; i++) {
        char buf[8];
        coir_stream *stream;
        int peer = plain_dial_for(address, 1);
        CHECK_EQ(coir_accept(listener, &stream), 0);
        if (i & 1) {
            CHECK_EQ(send(peer, "x", 1, 0), 1);
            CHECK_EQ(coir_read(stream, buf, sizeof buf), 1);
        }
        if (i & 2)
            CHECK_EQ(coir_write_all(stream, "last", 4), 0);
        coir_close(stream);
        if (i & 2)
            CHECK_EQ(recv(peer, buf, sizeof buf, 0), 4);
        /* blocks the worker's thread: it enters nothing */
        CHECK_EQ(recv(peer, buf, sizeof buf, 0), 0);
        close(peer);
    }
    coir_listener_close(listener);
}

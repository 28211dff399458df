/* Two streams that are connected by TCP. */
#ifndef TEST_UNIT_IO_PAIR_H
#define TEST_UNIT_IO_PAIR_H

#include <coir.h>

#include "harness.h"

static inline void connect_pair(coir_stream **ret_client, coir_stream **ret_server)
{
    char where[64];
    coir_listener *listener;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    coir_listener_local(listener, where, sizeof where);
    CHECK_EQ(coir_tcp_connect(where, ret_client), 0);
    CHECK_EQ(coir_accept(listener, ret_server), 0);
    coir_listener_close(listener);
}

#endif

/* The end of a stream: what is left of it when one direction, its worker or all of it has gone. */
#include <coir.h>
#include <errno.h>

#include "every_driver.h"
#include "harness.h"
#include "pair.h"

static int read_one(void *arg)
{
    char byte;
    return (int)coir_read(arg, &byte, 1);
}

TEST_SIM(one_direction_ends_and_the_other_goes_on)
{
    coir_stream *a, *b;
    char byte = 0;
    CHECK_EQ(coir_duplex(0, &a, &b), 0);
    CHECK_EQ(coir_write(a, "x", 1), 1);
    CHECK_EQ(coir_shutdown_write(a), 0);
    CHECK_EQ(coir_write(a, "y", 1), -EPIPE);
    CHECK_EQ(coir_read(b, &byte, 1), 1);
    CHECK_EQ(byte, 'x');
    CHECK_EQ(coir_read(b, &byte, 1), 0);
    CHECK_EQ(coir_write(b, "z", 1), 1);
    CHECK_EQ(coir_read(a, &byte, 1), 1);
    CHECK_EQ(byte, 'z');
    coir_close(a);
    coir_close(b);
}

TEST_REAL(a_stream_in_use_is_not_detached_and_closing_wakes_its_reader)
{
    coir_stream *client, *server;
    connect_pair(&client, &server);
    COIR_HANDLE(handle);
    COIR_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    coir_go_with(scope, &options, read_one, server);
    coir_yield();
    CHECK_EQ(coir_stream_detach(server), -EBUSY);
    CHECK_EQ(coir_stream_detach(client), 0);
    CHECK_EQ(coir_stream_detach(client), 0); /* it is on no worker */
    CHECK_EQ(coir_write(client, "x", 1), 1); /* and then on this one */
    CHECK_EQ(coir_join(handle), 1);
    coir_go_with(scope, &options, read_one, server);
    coir_yield();
    coir_close(server);
    CHECK_EQ(coir_join(handle), -ECANCELED);
    coir_close(client);
}

static int wait_for_hang_up(void *arg)
{
    return coir_stream_wait(arg, 0);
}

/* On every driver: epoll and poll cancelled the wait. */
static void detach_while_a_task_waits(void)
{
    coir_stream *client, *server;
    connect_pair(&client, &server);
    COIR_HANDLE(handle);
    COIR_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    CHECK_EQ(coir_go_with(scope, &options, wait_for_hang_up, server), 0);
    CHECK_EQ(coir_yield(), 0);
    CHECK_EQ(coir_stream_detach(server), -EBUSY);
    CHECK_EQ(coir_tcp_set_option(client, COIR_TCP_RESET_ON_CLOSE, 1), 0);
    coir_close(client);
    CHECK(coir_join(handle) & COIR_HANGUP);
    CHECK_EQ(coir_stream_detach(server), 0);
    coir_close(server);
}

TEST(a_stream_whose_hang_up_is_waited_for_is_not_detached)
{
    run_on_every_driver((coir_config)COIR_CONFIG, detach_while_a_task_waits);
}

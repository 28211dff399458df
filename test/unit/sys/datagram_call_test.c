/* Datagrams by many in one system call: what there is, never more than asked for, and errors. */
#include "sys/datagram_call.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "sys/socket_call.h"

static struct sockaddr_in loopback = {.sin_family = AF_INET};

static int open_one(const struct ci_datagram_options *options)
{
    loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return ci_sys_datagram((struct sockaddr *)&loopback, sizeof loopback, options);
}

TEST(datagrams_are_sent_and_received_without_waiting)
{
    static const struct ci_datagram_options options;
    struct sockaddr_storage own;
    socklen_t len;
    char byte = 'x', room[3];
    coir_datagram out[3] = {COIR_DATAGRAM}, in[3] = {COIR_DATAGRAM};
    int a = open_one(&options), b = open_one(&options);
    CHECK(a >= 0 && b >= 0);
    CHECK_EQ(ci_sys_name(a, false, &own, &len), 0);
    for (int i = 0; i < 3; i++) {
        out[i].data = &byte;
        out[i].len = 1;
        memcpy(&out[i].peer, &own, sizeof own);
        in[i].data = &room[i];
        in[i].room = 1;
    }
    CHECK_EQ(ci_sys_receive_datagrams(a, in, 3, false), -EAGAIN);
    CHECK_EQ(ci_sys_send_datagrams(b, out, 3), 3);
    CHECK_EQ(ci_sys_receive_datagrams(a, in, 2, false), 2);
    CHECK_EQ(ci_sys_receive_datagrams(a, in, 3, false), 1);
    CHECK(in[0].len == 1 && in[0].cut == 0 && room[0] == 'x');
    memset(&out[0].peer, 0, sizeof out[0].peer);
    CHECK_EQ(ci_sys_send_datagrams(b, out, 3), -EDESTADDRREQ);
    close(a);
    CHECK_EQ(ci_sys_receive_datagrams(a, in, 3, false), -EBADF);
    close(b);
}

TEST(an_address_is_shared_where_all_ask_for_it)
{
    static const struct ci_datagram_options alone, shared = {.reuse_port = true};
    struct sockaddr_storage own;
    socklen_t len;
    int a = open_one(&shared);
    CHECK(a >= 0);
    CHECK_EQ(ci_sys_name(a, false, &own, &len), 0);
    CHECK_EQ(ci_sys_datagram((struct sockaddr *)&own, len, &alone), -EADDRINUSE);
    int b = ci_sys_datagram((struct sockaddr *)&own, len, &shared);
    CHECK(b >= 0);
    close(a);
    close(b);
}

TEST(only_a_multicast_address_is_joined)
{
    static const struct ci_datagram_options options;
    struct sockaddr_storage group = {0};
    int fd = open_one(&options);
    memcpy(&group, &loopback, sizeof loopback);
    CHECK_EQ(ci_sys_datagram_join(fd, &group, 0, false), -EINVAL);
    close(fd);
}

/* System calls on sockets, where they do more than the system's. */
#include "sys/socket_call.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include "harness.h"
#include "sys/call.h"

TEST(options_that_cannot_be_are_refused)
{
    int fd = ci_sys_socket(AF_INET);
    CHECK(fd >= 0);
    CHECK_EQ(ci_sys_tcp_option(fd, COIR_TCP_NODELAY, 1), 0);
    CHECK_EQ(ci_sys_tcp_option(fd, COIR_TCP_NODELAY, -1), -EINVAL);
    CHECK_EQ(ci_sys_tcp_option(fd, (enum coir_tcp_option)99, 1), -EINVAL);
    ci_sys_close(fd);
}

TEST(a_listener_that_refuses_still_gives_what_it_holds)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = ci_sys_listen((struct sockaddr *)&any, sizeof any, 8, false, false);
    CHECK(listener >= 0);
    struct sockaddr_storage name;
    socklen_t len;
    CHECK_EQ(ci_sys_name(listener, false, &name, &len), 0);
    int before = ci_sys_socket(AF_INET), after = ci_sys_socket(AF_INET);
    CHECK_EQ(ci_sys_connect(before, (struct sockaddr *)&name, len), -EINPROGRESS);
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    CHECK_EQ(ci_sys_poll(&ready, 1, -1), 1);
    CHECK_EQ(ci_sys_refuse(listener), 0);
    CHECK_EQ(ci_sys_connect(after, (struct sockaddr *)&name, len), -EINPROGRESS);
    int accepted = ci_sys_accept(listener);
    CHECK(accepted >= 0);
    CHECK_EQ(ci_sys_accept(listener), -EAGAIN);
    CHECK_EQ(ci_sys_socket_error(before), 0);
    CHECK_EQ(ci_sys_name(before, true, &name, &len), 0);
    CHECK_EQ(ci_sys_name(after, true, &name, &len), -ENOTCONN); /* its SYN was dropped */
    ci_sys_close(accepted);
    ci_sys_close(before);
    ci_sys_close(after);
    ci_sys_close(listener);
}

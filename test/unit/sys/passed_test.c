/* Sockets that another process has opened: by name, and what they are for. */
#include "sys/passed.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"

static void pass(const char *count, const char *names)
{
    char pid[24];
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", count, 1);
    setenv("LISTEN_FDNAMES", names, 1);
}

TEST(names_are_found_in_their_order)
{
    pass("3", "web:admin:web");
    CHECK_EQ(ci_passed_find("web"), 3);
    CHECK_EQ(ci_passed_find("admin"), 4);
    CHECK_EQ(ci_passed_find("we"), -ENOENT);
    CHECK_EQ(ci_passed_find(""), -ENOENT);
    pass("1", "web:admin"); /* fewer descriptors than names */
    CHECK_EQ(ci_passed_find("admin"), -ENOENT);
}

TEST(what_was_passed_to_another_process_is_not_ours)
{
    pass("1", "web");
    setenv("LISTEN_PID", "1", 1);
    CHECK_EQ(ci_passed_find("web"), -ENOENT);
    unsetenv("LISTEN_PID");
    CHECK_EQ(ci_passed_find("web"), -ENOENT);
    pass("nonsense", "web");
    CHECK_EQ(ci_passed_find("web"), -ENOENT);
}

TEST(a_socket_is_taken_for_what_it_is_only)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0), datagram = socket(AF_INET, SOCK_DGRAM, 0),
        pair[2];
    CHECK(listener >= 0 && datagram >= 0 && listen(listener, 1) == 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    CHECK_EQ(ci_passed_take(listener, CI_PASSED_STREAM), -COIR_EPASSED);
    CHECK_EQ(ci_passed_take(listener, CI_PASSED_DATAGRAM), -COIR_EPASSED);
    CHECK_EQ(fcntl(listener, F_GETFL) & O_NONBLOCK, 0); /* it was left as it was */
    CHECK_EQ(ci_passed_take(listener, CI_PASSED_LISTENER), 0);
    CHECK(fcntl(listener, F_GETFL) & O_NONBLOCK);
    CHECK(fcntl(listener, F_GETFD) & FD_CLOEXEC);
    CHECK_EQ(ci_passed_take(pair[0], CI_PASSED_LISTENER), -COIR_EPASSED);
    CHECK_EQ(ci_passed_take(pair[0], CI_PASSED_STREAM), 0);
    CHECK_EQ(ci_passed_take(datagram, CI_PASSED_LISTENER), -COIR_EPASSED);
    CHECK_EQ(ci_passed_take(datagram, CI_PASSED_DATAGRAM), 0);
    CHECK_EQ(ci_passed_take(STDERR_FILENO + 1000, CI_PASSED_STREAM), -COIR_EPASSED);
    int netlink = socket(AF_NETLINK, SOCK_DGRAM, 0); /* its addresses are of no known family */
    CHECK_EQ(ci_passed_take(netlink, CI_PASSED_DATAGRAM), -COIR_EPASSED);
    int file = open("/dev/null", O_RDWR);
    CHECK_EQ(ci_passed_take(file, CI_PASSED_STREAM), -COIR_EPASSED);
}

/* A connection over the loopback: its ends. */
static void connect_ends(int ends[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(bind(listener, (struct sockaddr *)&at, len), 0);
    CHECK_EQ(listen(listener, 1), 0);
    CHECK_EQ(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(connect(ends[0], (struct sockaddr *)&at, len), 0);
    CHECK((ends[1] = accept(listener, NULL, NULL)) >= 0);
    close(listener);
}

/* Resets the connection of the first end, after that many bytes. */
static void reset_after(int ends[2], size_t bytes)
{
    struct linger abort = {1, 0};
    CHECK(send(ends[1], "xyz", bytes, 0) == (ssize_t)bytes);
    CHECK_EQ(setsockopt(ends[1], SOL_SOCKET, SO_LINGER, &abort, sizeof abort), 0);
    close(ends[1]);
}

TEST(a_stream_is_connected_or_was)
{
    char buf[4];
    int ends[2];
    for (int family = 0; family < 2; family++) {
        int fd = socket(family ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
        CHECK_EQ(ci_passed_take(fd, CI_PASSED_STREAM), -COIR_EPASSED);
        CHECK_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
        close(fd);
    }
    connect_ends(ends);
    CHECK_EQ(ci_passed_take(ends[0], CI_PASSED_STREAM), 0);
    reset_after(ends, 3);
    CHECK_EQ(ci_passed_take(ends[0], CI_PASSED_STREAM), 0);
    CHECK_EQ(recv(ends[0], buf, sizeof buf, 0), 3); /* nothing is lost */
    close(ends[0]);
    connect_ends(ends);
    reset_after(ends, 0);
    CHECK_EQ(ci_passed_take(ends[0], CI_PASSED_STREAM), -ECONNRESET);
    close(ends[0]);
}

TEST(interfaces_have_numbers)
{
    CHECK(ci_sys_interface("lo") > 0);
    CHECK_EQ(ci_sys_interface("no such interface"), 0);
}

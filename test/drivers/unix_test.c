/* Unix sockets: how they connect, what is read exactly, messages on streams, and how their
 * listeners end. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "env.h"

static uint32_t unix_serial = 1u << 20; /* no other listener of the suite has it */

static coir_fd listen_unix(int backlog)
{
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    struct ci_listen listen = {.address = (struct sockaddr *)&any,
                               .address_len = offsetof(struct sockaddr_un, sun_path),
                               .backlog = backlog};
    coir_fd fd = env.driver->kind->listen(env.driver, &listen);
    CHECK(fd >= 0);
    unix_serial++;
    return fd;
}

static coir_fd open_unix(void)
{
    coir_fd fd = env.driver->kind->socket(env.driver, AF_UNIX);
    CHECK(fd >= 0);
    return fd;
}

static int connect_to(coir_fd fd, coir_fd listener)
{
    struct sockaddr_storage address;
    socklen_t len;
    CHECK_EQ(env.driver->kind->address(env.driver, listener, false, &address, &len), 0);
    return run((struct ci_op){.fd = fd,
                              .kind = CI_OP_CONNECT,
                              .address = (struct sockaddr *)&address,
                              .count = (int32_t)len});
}

static int accept_from(coir_fd listener)
{
    return run((struct ci_op){.fd = listener, .kind = CI_OP_ACCEPT, .len = unix_serial});
}

/* ---- messages ---- */

struct message {
    struct counted counted;
    struct msghdr header;
    struct iovec iov;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    char buf[8];
};

static bool receive(struct message *message, coir_fd fd)
{
    message->iov = (struct iovec){message->buf, sizeof message->buf};
    message->header = (struct msghdr){.msg_iov = &message->iov,
                                      .msg_iovlen = 1,
                                      .msg_control = message->control,
                                      .msg_controllen = sizeof message->control};
    return start(&message->counted,
                 (struct ci_op){
                     .fd = fd, .kind = CI_OP_RECEIVE, .message = &message->header, .exact = true});
}

static int send_message(coir_fd fd, const char *text, int passed)
{
    struct message message;
    message.iov = (struct iovec){(char *)(uintptr_t)text, strlen(text)};
    message.header = (struct msghdr){.msg_iov = &message.iov, .msg_iovlen = 1};
    if (passed >= 0) {
        message.header.msg_control = message.control;
        message.header.msg_controllen = sizeof message.control;
        struct cmsghdr *control = CMSG_FIRSTHDR(&message.header);
        control->cmsg_len = CMSG_LEN(sizeof passed);
        control->cmsg_level = SOL_SOCKET;
        control->cmsg_type = SCM_RIGHTS;
        memcpy(CMSG_DATA(control), &passed, sizeof passed);
    }
    return run((struct ci_op){.fd = fd, .kind = CI_OP_SEND, .message = &message.header});
}

CONFORM(bytes_and_messages_share_a_unix_stream)
{
    coir_fd listener = listen_unix(10), client = open_unix();
    struct message message;
    CHECK_EQ(connect_to(client, listener), 0);
    coir_fd server = accept_from(listener);
    CHECK(server >= 0);
    CHECK(!receive(&message, server));
    CHECK_EQ(write_some(client, "plain", 5), 5);
    CHECK_EQ(finish(&message.counted), 5);
    CHECK_EQ(message.header.msg_controllen, 0);
    CHECK_EQ(send_message(client, "message", -1), 7);
    CHECK_EQ(read_some(server, message.buf, 7), 7);
    CHECK(!receive(&message, server));
    CHECK_EQ(stop(&message.counted), -ECANCELED);
    close_fd(client);
    for (int i = 0; i < 5; i++)
        pass();
    CHECK_EQ(receive(&message, server) ? message.counted.op.result : finish(&message.counted), 0);
    close_fd(server);
    close_fd(listener);
    close_pair();
}

/* What was sent with a descriptor is there for the message that asks for it, whatever was read
 * before. */
static void read_exactly(void)
{
    coir_fd listener = listen_unix(10), client = open_unix(), passed;
    struct message message;
    struct counted poll;
    char byte;
    CHECK_EQ(connect_to(client, listener), 0);
    coir_fd server = accept_from(listener);
    struct ci_op read = {.fd = server, .kind = CI_OP_READ, .buf = &byte, .len = 1, .exact = true};
    for (int i = 0; i < 3; i++) {
        struct counted reader;
        CHECK(!start(&reader, read));
        CHECK_EQ(write_some(client, "x", 1), 1);
        CHECK_EQ(finish(&reader), 1);
        CHECK(!start(
            &poll,
            (struct ci_op){.fd = server, .kind = CI_OP_POLL, .events = COIR_READ, .exact = true}));
        CHECK_EQ(send_message(client, "yz", client), 2);
        CHECK(finish(&poll) & COIR_READ);
        read.no_wait = true;
        CHECK(i < 2 || (start(&reader, read) && reader.op.result == 1)); /* closes it */
        read.no_wait = false;
        CHECK_EQ(receive(&message, server) ? message.counted.op.result : finish(&message.counted),
                 i < 2 ? 2 : 1);
        CHECK_EQ(message.header.msg_controllen > 0, i < 2);
        if (i == 2)
            break;
        memcpy(&passed, CMSG_DATA(CMSG_FIRSTHDR(&message.header)), sizeof passed);
        CHECK(fcntl(passed, F_GETFD) == FD_CLOEXEC);
        CHECK_EQ(close(passed), 0);
    }
    close_fd(client);
    close_fd(server);
    close_fd(listener);
    close_pair();
}

ON_REAL(nothing_is_received_ahead_of_a_descriptor, read_exactly)

/* ---- connecting, and the end ---- */

static void fill_the_backlog(void)
{
    coir_fd listener = listen_unix(1), clients[4];
    int rc = 0, count = 0;
    while (rc == 0) {
        CHECK(count < 4);
        rc = connect_to(clients[count++] = open_unix(), listener);
    }
    CHECK_EQ(rc, -EAGAIN);
    coir_fd server = accept_from(listener);
    CHECK(server >= 0);
    CHECK_EQ(connect_to(clients[count - 1], listener), 0);
    close_fd(server);
    while (count--)
        close_fd(clients[count]);
    close_fd(listener);
    close_pair();
}

ON_REAL(a_full_backlog_of_a_unix_socket_says_so, fill_the_backlog)

static void refuse_and_close(void)
{
    coir_fd listener = listen_unix(10), first = open_unix(), second = open_unix();
    coir_credentials peer = COIR_CREDENTIALS;
    CHECK_EQ(connect_to(first, listener), 0);
    CHECK_EQ(env.driver->kind->refuse(env.driver, listener), 0);
    CHECK_EQ(connect_to(second, listener), -ECONNREFUSED);
    coir_fd server = accept_from(listener); /* what it holds can be accepted */
    CHECK(server >= 0);
    CHECK_EQ(env.driver->kind->credentials(env.driver, server, &peer), 0);
    CHECK_EQ(peer.pid, getpid());
    env.driver->kind->close_named(env.driver, listener);
    close_fd(server);
    close_fd(first);
    close_fd(second);
    close_pair();
}

ON_REAL(a_unix_listener_refuses_and_gives_what_it_holds, refuse_and_close)

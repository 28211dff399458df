/* Datagrams: with a peer and without. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "env.h"

static struct sockaddr_in address_of(coir_fd fd)
{
    struct sockaddr_storage storage;
    struct sockaddr_in address;
    socklen_t len;
    CHECK_EQ(env.driver->kind->address(env.driver, fd, false, &storage, &len), 0);
    memcpy(&address, &storage, sizeof address);
    return address;
}

static coir_fd open_socket(const struct sockaddr_in *peer, in_port_t port)
{
    struct sockaddr_in any = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = port};
    struct ci_datagram datagram = {.address = (struct sockaddr *)&any,
                                   .peer = (const struct sockaddr *)peer,
                                   .address_len = sizeof any,
                                   .peer_len = sizeof *peer};
    coir_fd fd = env.driver->kind->datagram(env.driver, &datagram);
    CHECK(fd >= 0);
    return fd;
}

/* A message, with the memory that it points at. */
struct letter {
    struct counted counted;
    struct msghdr message;
    struct iovec iov;
    struct sockaddr_in address;
    char buf[16];
};

static bool begin(struct letter *letter, enum ci_op_kind kind, coir_fd fd,
                  const struct sockaddr_in *to, size_t len, bool no_wait)
{
    letter->iov = (struct iovec){letter->buf, len};
    letter->message = (struct msghdr){.msg_iov = &letter->iov, .msg_iovlen = 1};
    if (to)
        letter->address = *to;
    if (to || kind == CI_OP_RECEIVE) {
        letter->message.msg_name = &letter->address;
        letter->message.msg_namelen = sizeof letter->address;
    }
    return start(&letter->counted, (struct ci_op){.fd = fd,
                                                  .kind = (uint8_t)kind,
                                                  .message = &letter->message,
                                                  .no_wait = no_wait});
}

static int run_letter(struct letter *letter, enum ci_op_kind kind, coir_fd fd,
                      const struct sockaddr_in *to, size_t len)
{
    return begin(letter, kind, fd, to, len, false) ? letter->counted.op.result
                                                   : finish(&letter->counted);
}

static int send_text(coir_fd fd, const struct sockaddr_in *to, const char *text)
{
    struct letter letter;
    memcpy(letter.buf, text, strlen(text));
    return run_letter(&letter, CI_OP_SEND, fd, to, strlen(text));
}

/* What comes next is this, from there. */
static void expect(coir_fd fd, coir_fd from, const char *text)
{
    struct letter letter;
    CHECK_EQ(run_letter(&letter, CI_OP_RECEIVE, fd, NULL, sizeof letter.buf), (int)strlen(text));
    CHECK(memcmp(letter.buf, text, strlen(text)) == 0);
    CHECK_EQ(letter.address.sin_port, address_of(from).sin_port);
}

CONFORM(a_datagram_socket_with_a_peer_hears_the_peer_alone)
{
    coir_fd server = open_socket(NULL, 0), stranger = open_socket(NULL, 0);
    struct sockaddr_in server_address = address_of(server);
    coir_fd client = open_socket(&server_address, 0);
    struct sockaddr_in client_address = address_of(client), stranger_address = address_of(stranger);
    CHECK_EQ(send_text(stranger, &client_address, "strange"), 7);
    CHECK_EQ(send_text(stranger, NULL, "nowhere"), -EDESTADDRREQ);
    CHECK_EQ(send_text(client, NULL, "hello"), 5);
    expect(server, client, "hello");
    CHECK_EQ(send_text(server, &client_address, ""), 0); /* an empty one is one */
    CHECK_EQ(send_text(stranger, &client_address, "again"), 5);
    CHECK_EQ(send_text(server, &client_address, "answer"), 6);
    expect(client, server, "");
    expect(client, server, "answer");
    CHECK_EQ(send_text(client, &stranger_address, "to you"), 6); /* a send may name another */
    expect(stranger, client, "to you");
    for (int i = 0; i < 5; i++)
        pass();
    struct letter letter;
    CHECK(begin(&letter, CI_OP_RECEIVE, client, NULL, 16, true));
    CHECK_EQ(letter.counted.op.result, -EAGAIN); /* the stranger's are nowhere */
    close_fd(client);
    close_fd(server);
    close_fd(stranger);
    close_fd(env.client);
    close_fd(env.server);
}

CONFORM(a_peer_that_is_not_there_refuses)
{
    coir_fd server = open_socket(NULL, 0);
    struct sockaddr_in server_address = address_of(server);
    coir_fd client = open_socket(&server_address, 0), unconnected = open_socket(NULL, 0);
    struct sockaddr_in client_address = address_of(client);
    struct letter letter, other;
    close_fd(server);
    for (int i = 0; i < 3; i++) { /* to one who waits, and to one who asks later */
        CHECK(!begin(&letter, CI_OP_RECEIVE, client, NULL, 16, false));
        CHECK_EQ(send_text(client, NULL, "anybody?"), 8);
        CHECK_EQ(finish(&letter.counted), -ECONNREFUSED);
        CHECK_EQ(send_text(client, NULL, "anybody?"), 8);
        for (int j = 0; j < 5; j++)
            pass();
        CHECK_EQ(run_letter(&letter, CI_OP_RECEIVE, client, NULL, 16), -ECONNREFUSED);
    }
    CHECK(!begin(&other, CI_OP_RECEIVE, unconnected, NULL, 16, false));
    CHECK_EQ(send_text(unconnected, &server_address, "anybody?"), 8);
    for (int j = 0; j < 5; j++)
        pass();
    CHECK(!other.counted.done); /* who has no peer is not told */
    CHECK_EQ(stop(&other.counted), -ECANCELED);
    server = open_socket(NULL, server_address.sin_port); /* it comes back */
    CHECK_EQ(send_text(client, NULL, "hello"), 5);
    expect(server, client, "hello");
    CHECK_EQ(send_text(server, &client_address, "answer"), 6);
    expect(client, server, "answer");
    close_fd(client);
    close_fd(unconnected);
    close_fd(server);
    close_fd(env.client);
    close_fd(env.server);
}

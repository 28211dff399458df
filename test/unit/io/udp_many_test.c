/* Several datagrams in one call, with their ancillary data: on every driver, and in the simulated
 * world, which refuses what it does not support. */
#include <coir.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "every_driver.h"
#include "harness.h"
#include "io/udp.h"
#include "open_files.h"

static void on_every_driver(void (*body)(void))
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    run_on_every_driver(config, body);
}

static void everywhere(void (*body)(void))
{
    on_every_driver(body);
    for (uint64_t seed = 1; seed <= 50; seed++)
        test_in_sim(body, 1, seed);
}

static coir_udp *open_socket(coir_udp_options options, char address[64])
{
    coir_udp *udp;
    int rc = coir_udp_open_with(&options, &udp);
    if (rc < 0)
        test_fail(__FILE__, __LINE__, "no socket at %s: %s", options.address, coir_strerror(rc));
    if (address)
        CHECK(coir_udp_local(udp, address, 64) > 0);
    return udp;
}

static coir_udp *open_at(const char *where, const char *peer, char address[64])
{
    coir_udp_options options = COIR_UDP_OPTIONS;
    options.address = where;
    options.peer = peer;
    return open_socket(options, address);
}

/* Receives all of `count`, in as many calls as it takes. */
static void receive_all(coir_udp *udp, coir_datagram *datagrams, size_t count)
{
    for (size_t got = 0; got < count;) {
        datagrams[got].size = sizeof *datagrams;
        ssize_t n = coir_udp_recv_many(udp, datagrams + got, count - got);
        CHECK(n > 0);
        got += (size_t)n;
    }
}

/* ---- many ---- */

enum { MANY = COIR_DATAGRAMS_MAX };

static void send_and_receive_many(void)
{
    char address[64], text[64], bytes[MANY][8], back[MANY + 1][8];
    coir_datagram out[MANY + 1] = {COIR_DATAGRAM}, in[MANY + 1] = {COIR_DATAGRAM};
    coir_udp *a = open_at("127.0.0.1:0", NULL, address), *b = open_at("127.0.0.1:0", NULL, text);
    bool seen[MANY] = {false};
    for (int i = 0; i <= MANY; i++) {
        snprintf(bytes[i % MANY], sizeof bytes[0], "n%d", i % MANY);
        out[i].data = bytes[i % MANY];
        out[i].len = strlen(bytes[i % MANY]);
        CHECK_EQ(coir_address_parse(address, &out[i].peer), 0);
        in[i].data = back[i];
        in[i].room = sizeof back[i];
    }
    CHECK_EQ(coir_udp_send_many(b, out, MANY + 1), MANY); /* no more in one call */
    receive_all(a, in, MANY);
    for (int i = 0; i < MANY; i++) {
        char from[64];
        int number = atoi(back[i] + 1);
        CHECK(number >= 0 && number < MANY && !seen[number]);
        seen[number] = true;
        CHECK_EQ(in[i].len, out[number].len);
        CHECK(in[i].cut == 0 && in[i].segment_len == 0 && in[i].ecn == 0);
        CHECK(coir_address_format(&in[i].peer, from, sizeof from) > 0);
        CHECK(strcmp(from, text) == 0);
    }
    out[0].len = 0; /* an empty one is one */
    CHECK_EQ(coir_udp_send_many(b, out, 1), 1);
    CHECK_EQ(coir_udp_recv_many(a, in, MANY), 1);
    CHECK_EQ(in[0].len, 0);
    memset(&out[1].peer, 0, sizeof out[1].peer); /* neither is connected */
    CHECK_EQ(coir_udp_send_many(b, out, 2), 1);
    out[1].size = sizeof out[1];
    CHECK_EQ(coir_udp_send_many(b, out + 1, 1), -EDESTADDRREQ);
    coir_udp_close(a);
    coir_udp_close(b);
}

TEST(many_datagrams_go_in_one_call)
{
    everywhere(send_and_receive_many);
}

static void cut(void)
{
    char address[64], bytes[] = "twelve bytes", room[2][5];
    coir_udp *a = open_at("127.0.0.1:0", NULL, address), *b = open_at("*:0", address, NULL);
    coir_datagram out = {.size = sizeof(coir_datagram), .data = bytes, .len = 12};
    coir_datagram in[2] = {{.size = sizeof(coir_datagram), .data = room[0], .room = 5},
                           {.size = sizeof(coir_datagram), .data = room[1], .room = 5}};
    CHECK_EQ(coir_udp_send_many(b, &out, 1), 1); /* to the peer */
    CHECK_EQ(coir_udp_recv_many(a, in, 2), 1);
    CHECK_EQ(in[0].len, 5);
    CHECK_EQ(in[0].cut, 7);
    CHECK(memcmp(room[0], "twelv", 5) == 0);
    in[0].data = bytes;
    in[0].room = 12;
    out.data = room[0];
    out.len = 5;
    CHECK_EQ(coir_udp_send_many(b, &out, 1), 1);
    CHECK_EQ(coir_udp_recv_many(a, in, 1), 1);
    CHECK(in[0].len == 5 && in[0].cut == 0);
    coir_udp_close(a);
    coir_udp_close(b);
}

TEST(what_did_not_fit_is_told)
{
    everywhere(cut);
}

/* ---- waiting ---- */

struct late {
    coir_udp *udp;
    char bytes[1];
};

static int send_late(void *arg)
{
    struct late *late = arg;
    coir_datagram out = {.size = sizeof(coir_datagram), .data = late->bytes, .len = 1};
    int rc = coir_sleep_for(2 * COIR_MS);
    return rc < 0 ? rc : coir_udp_send_many(late->udp, &out, 1) == 1 ? 0 : -EIO;
}

static void wait_for_them(void)
{
    char address[64], room[4];
    coir_udp *a = open_at("127.0.0.1:0", NULL, address), *b = open_at("*:0", address, NULL);
    coir_datagram in = {.size = sizeof(coir_datagram), .data = room, .room = sizeof room};
    struct late late = {b, "x"};
    coir_udp_op op;
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_udp_recv_many(a, &in, 1), -ETIME);
    }
    for (int round = 0; round < 3; round++) {
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, send_late, &late), 0);
        coir_case cases[] = {coir_case_after(30 * COIR_S), coir_case_udp(a, COIR_READ)};
        switch (round) {
        case 0: CHECK_EQ(coir_udp_recv_many(a, &in, 1), 1); break;
        case 1: CHECK_EQ(coir_await(coir_udp_recv_many_op(&op, a, &in, 1)), 1); break;
        default:
            CHECK_EQ(coir_select(cases, 2), 1);
            CHECK(cases[1].result & COIR_READ);
            CHECK_EQ(coir_udp_recv_many(a, &in, 1), 1); /* the select has taken nothing */
        }
        CHECK(in.len == 1 && room[0] == 'x');
        room[0] = 0;
    }
    coir_case write[] = {coir_case_udp(b, COIR_WRITE)};
    CHECK_EQ(coir_select(write, 1), 0);
    CHECK(write[0].result & COIR_WRITE);
    coir_udp_close(a);
    coir_udp_close(b);
}

TEST(a_receive_waits_for_the_first)
{
    everywhere(wait_for_them);
}

static int receive_one(void *arg)
{
    char room[4];
    coir_datagram in = {.size = sizeof(coir_datagram), .data = room, .room = sizeof room};
    return (int)coir_udp_recv_many(arg, &in, 1);
}

static void close_under_a_receive(void)
{
    COIR_HANDLE(handle);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    coir_udp *udp = open_at("127.0.0.1:0", NULL, NULL);
    COIR_SERVING_SCOPE(scope);
    CHECK_EQ(coir_go_with(scope, &options, receive_one, udp), 0);
    for (int i = 0; i < 10; i++)
        coir_yield();
    coir_udp_close(udp);
    CHECK_EQ(coir_join(handle), -ECANCELED);
}

TEST(closing_ends_a_receive)
{
    everywhere(close_under_a_receive);
}

static void nobody_there(void)
{
    char address[64], byte = 'x';
    coir_udp *a = open_at("127.0.0.1:0", NULL, address), *b = open_at("*:0", address, NULL);
    coir_datagram one = {.size = sizeof(coir_datagram), .data = &byte, .room = 1, .len = 1};
    coir_udp_close(a);
    CHECK_EQ(coir_udp_send_many(b, &one, 1), 1);
    CHECK_EQ(coir_udp_recv_many(b, &one, 1), -ECONNREFUSED);
    coir_udp_close(b);
}

TEST(a_peer_that_is_gone_is_told_of)
{
    everywhere(nobody_there);
}

/* ---- beside the bytes ---- */

static void tell_both(const char *where, const char *expected)
{
    char address[64], local[64], text[64], room[4], byte = 'x';
    coir_udp_options options = COIR_UDP_OPTIONS;
    options.address = where;
    options.tell_local = options.tell_ecn = true;
    coir_udp *a = open_socket(options, address);
    const char *port = strrchr(address, ':');
    snprintf(local, sizeof local, "%s%s", expected, port);
    coir_udp *b = open_at(expected[0] == '[' ? "[::]:0" : "0.0.0.0:0", NULL, NULL);
    coir_datagram out = {.size = sizeof(coir_datagram), .data = &byte, .len = 1, .ecn = 2};
    coir_datagram in = {.size = sizeof(coir_datagram), .data = room, .room = sizeof room};
    CHECK_EQ(coir_address_parse(local, &out.peer), 0);
    CHECK_EQ(coir_udp_send_many(b, &out, 1), 1);
    CHECK_EQ(coir_udp_recv_many(a, &in, 1), 1);
    CHECK_EQ(in.ecn, 2);
    CHECK(coir_address_format(&in.local, text, sizeof text) > 0);
    if (!strstr(text, local[0] == '[' ? local : text))
        test_fail(__FILE__, __LINE__, "it was sent to %s, not %s", local, text);
    coir_datagram back = {
        .size = sizeof(coir_datagram), .data = &byte, .len = 1, .peer = in.peer, .local = in.local};
    CHECK_EQ(coir_udp_send_many(a, &back, 1), 1);
    CHECK_EQ(coir_udp_recv_many(b, &in, 1), 1);
    CHECK_EQ(in.ecn, 0); /* b was not opened with tell_ecn */
    CHECK(coir_address_format(&in.peer, text, sizeof text) > 0);
    if (strcmp(text, local) != 0)
        test_fail(__FILE__, __LINE__, "the answer is from %s, not %s", text, local);
    coir_udp_close(a);
    coir_udp_close(b);
}

static void tell_local_and_ecn(void)
{
    tell_both("0.0.0.0:0", "127.0.0.1");
    tell_both("0.0.0.0:0", "127.0.0.7"); /* one of many: the answer comes from it */
    tell_both("[::1]:0", "[::1]");
    tell_both("*:0", "127.0.0.7"); /* IPv4 through a socket of IPv6 */
}

static void tell_local_and_ecn_in_a_simulation(void)
{
    char byte = 'x', address[64], told[64];
    coir_udp_options options = COIR_UDP_OPTIONS;
    options.address = "0.0.0.0:7";
    options.tell_local = options.tell_ecn = true;
    coir_udp *a = open_socket(options, NULL), *b = open_at("0.0.0.0:0", NULL, address);
    coir_datagram one = {
        .size = sizeof(coir_datagram), .data = &byte, .room = 1, .len = 1, .ecn = 3};
    CHECK_EQ(coir_address_parse("127.0.0.1:7", &one.peer), 0);
    CHECK_EQ(coir_udp_send_many(b, &one, 1), 1);
    CHECK_EQ(coir_udp_recv_many(a, &one, 1), 1);
    CHECK_EQ(one.ecn, 3);
    CHECK(coir_address_format(&one.local, told, sizeof told) > 0);
    CHECK(strcmp(strrchr(told, ':'), ":7") == 0);
    coir_udp_close(a);
    coir_udp_close(b);
}

TEST(the_address_and_the_mark_of_a_datagram_are_told)
{
    on_every_driver(tell_local_and_ecn);
    test_in_sim(tell_local_and_ecn_in_a_simulation, 1, 1);
}

/* ---- segments ---- */

enum { SEGMENT = 1000, WHOLE = 10 * SEGMENT + 300 };
static char sent[WHOLE], got[WHOLE + 100];

/* One send, cut apart by the system, and received one by one. */
static void send_segments(void)
{
    char address[64];
    coir_udp *a = open_at("127.0.0.1:0", NULL, address), *b = open_at("*:0", address, NULL);
    coir_datagram out = {
        .size = sizeof(coir_datagram), .data = sent, .len = WHOLE, .segment_len = SEGMENT};
    coir_datagram in[11] = {COIR_DATAGRAM};
    size_t sum = 0;
    for (size_t i = 0; i < WHOLE; i++)
        sent[i] = (char)(i / SEGMENT);
    for (int i = 0; i < 11; i++) {
        in[i].data = got + i * SEGMENT;
        in[i].room = SEGMENT;
    }
    CHECK_EQ(coir_udp_send_many(b, &out, 1), 1);
    receive_all(a, in, 11);
    for (int i = 0; i < 11; i++) {
        CHECK_EQ(in[i].len, ((char *)in[i].data)[0] == 10 ? 300 : SEGMENT);
        CHECK_EQ(in[i].cut, 0);
        sum += in[i].len;
    }
    CHECK_EQ(sum, WHOLE);
    coir_udp_close(a);
    coir_udp_close(b);
}

TEST(a_datagram_is_cut_into_segments)
{
    everywhere(send_segments);
}

static void merge_segments(void)
{
    char address[64];
    coir_udp_options options = COIR_UDP_OPTIONS;
    options.address = "127.0.0.1:0";
    options.merge = true;
    coir_udp *a = open_socket(options, address), *b = open_at("*:0", address, NULL);
    coir_datagram out = {
        .size = sizeof(coir_datagram), .data = sent, .len = WHOLE, .segment_len = SEGMENT};
    coir_datagram in = {.size = sizeof(coir_datagram), .data = got, .room = sizeof got};
    for (size_t i = 0; i < WHOLE; i++)
        sent[i] = (char)(i * 7 % 251);
    CHECK_EQ(coir_udp_send_many(b, &out, 1), 1);
    CHECK_EQ(coir_udp_recv_many(a, &in, 1), 1);
    CHECK_EQ(in.len, WHOLE); /* on loopback it stays together */
    CHECK_EQ(in.segment_len, SEGMENT);
    CHECK(memcmp(sent, got, WHOLE) == 0);
    coir_udp_close(a);
    coir_udp_close(b);
}

/* All that the system can tell of a datagram. IPv4 through a socket of IPv6 has two addresses. */
static void tell_all_of(const char *where, const char *sender, const char *expected)
{
    char address[64], local[64];
    coir_udp_options options = COIR_UDP_OPTIONS;
    options.address = where;
    options.merge = options.tell_local = options.tell_ecn = true;
    coir_udp *a = open_socket(options, address), *b = open_at(sender, NULL, NULL);
    coir_datagram out = {.size = sizeof(coir_datagram),
                         .data = sent,
                         .len = WHOLE,
                         .segment_len = SEGMENT,
                         .ecn = 2};
    coir_datagram in = {.size = sizeof(coir_datagram), .data = got, .room = sizeof got};
    snprintf(local, sizeof local, "%s%s", expected, strrchr(address, ':'));
    CHECK_EQ(coir_address_parse(local, &out.peer), 0);
    CHECK_EQ(coir_udp_send_many(b, &out, 1), 1);
    CHECK_EQ(coir_udp_recv_many(a, &in, 1), 1);
    CHECK_EQ(in.len, WHOLE);
    CHECK_EQ(in.segment_len, SEGMENT);
    CHECK_EQ(in.ecn, 2);
    CHECK(coir_address_format(&in.local, address, sizeof address) > 0);
    CHECK(strcmp(address, local) == 0);
    coir_udp_close(a);
    coir_udp_close(b);
}

static void tell_all(void)
{
    tell_all_of("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1");
    tell_all_of("[::1]:0", "[::1]:0", "[::1]");
    tell_all_of("*:0", "[::1]:0", "[::1]");
    tell_all_of("*:0", "127.0.0.1:0", "127.0.0.1");
}

TEST(segments_are_received_as_one_where_that_is_asked_for)
{
    on_every_driver(merge_segments);
    on_every_driver(tell_all);
}

/* The system would take the rest of such an ecn for another field, and ignores all of it on a Unix
 * socket. */
static void refuse_what_is_ignored(void)
{
    char address[64], room[3][4], byte = 'x';
    coir_udp *inet = open_at("127.0.0.1:0", NULL, address), *local = open_at("unix:@", NULL, NULL);
    coir_datagram in[3] = {COIR_DATAGRAM}, out[3] = {COIR_DATAGRAM};
    coir_udp_op op;
    for (int i = 0; i < 3; i++) {
        out[i] = (coir_datagram){.size = sizeof *out, .data = &byte, .len = 1};
        in[i].data = room[i];
        in[i].room = sizeof room[i];
        CHECK_EQ(coir_address_parse(address, &out[i].peer), 0);
    }
    out[1].ecn = 4;
    CHECK_EQ(coir_udp_send_many(inet, out, 3), 1);
    CHECK_EQ(coir_udp_send_many(inet, out + 1, 2), -EINVAL);
    CHECK_EQ(coir_await(coir_udp_send_many_op(&op, inet, out, 3)), 1);
    CHECK_EQ(coir_await(coir_udp_send_many_op(&op, inet, out + 1, 2)), -EINVAL);
    receive_all(inet, in, 2);
    CHECK(coir_udp_local(local, address, sizeof address) > 0);
    for (int i = 0; i < 3; i++) {
        coir_datagram one = {.size = sizeof one, .data = &byte, .len = 1};
        CHECK_EQ(coir_address_parse(address, &one.peer), 0);
        one.segment_len = i == 0;
        one.ecn = i == 1;
        if (i == 2)
            one.local = one.peer;
        CHECK_EQ(coir_udp_send_many(local, &one, 1), -EOPNOTSUPP);
    }
    coir_udp_close(inet);
    coir_udp_close(local);
}

TEST(what_the_system_would_ignore_is_refused)
{
    on_every_driver(refuse_what_is_ignored);
}

/* Also when it is not asked for them, a peer may pass descriptors. */
static void passed_descriptors(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = "\0"};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.header = {.cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS,
                            .cmsg_len = CMSG_LEN(sizeof(int))}};
    struct iovec iov = {(char[]){"x"}, 1};
    struct msghdr message = {.msg_name = &to,
                             .msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    char address[64], room[4];
    int sender = socket(AF_UNIX, SOCK_DGRAM, 0), passed = STDERR_FILENO;
    coir_datagram in = {.size = sizeof in, .data = room, .room = sizeof room};
    coir_udp *udp = open_at("unix:@", NULL, address);
    snprintf(to.sun_path + 1, sizeof to.sun_path - 1, "%s", address + strlen("unix:@"));
    message.msg_namelen =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(to.sun_path + 1));
    memcpy(CMSG_DATA(&control.header), &passed, sizeof passed);
    int before = open_files();
    CHECK_EQ(sendmsg(sender, &message, 0), 1);
    CHECK_EQ(coir_udp_recv_many(udp, &in, 1), 1);
    CHECK_EQ(in.len, 1);
    CHECK_EQ(in.ecn, 0);
    CHECK_EQ(open_files(), before);
    coir_udp_close(udp);
    close(sender);
}

TEST(passed_descriptors_are_not_left_open)
{
    on_every_driver(passed_descriptors);
}

/* ---- groups ---- */

static void multicast(void)
{
    static const char group_text[] = "239.1.2.3:0";
    char address[64], group_address[64], room[4], byte = 'm';
    coir_address group;
    coir_udp_options options = COIR_UDP_OPTIONS;
    options.address = "0.0.0.0:0";
    options.multicast_interface = "lo";
    options.multicast_ttl = 1;
    coir_udp *a = open_socket(options, address), *b = open_socket(options, NULL);
    coir_datagram in = {.size = sizeof(coir_datagram), .data = room, .room = sizeof room},
                  out = {.size = sizeof(coir_datagram), .data = &byte, .len = 1};
    snprintf(group_address, sizeof group_address, "239.1.2.3%s", strrchr(address, ':'));
    CHECK_EQ(coir_address_parse(group_text, &group), 0);
    CHECK_EQ(coir_address_parse(group_address, &out.peer), 0);
    CHECK_EQ(coir_udp_leave(a, &group, "lo"), -EADDRNOTAVAIL);
    CHECK_EQ(coir_udp_join(a, &group, "nowhere"), -ENODEV);
    CHECK_EQ(coir_udp_join(a, &group, "lo"), 0);
    CHECK_EQ(coir_udp_join(a, &group, "lo"), -EADDRINUSE);
    CHECK_EQ(coir_udp_send_many(b, &out, 1), 1);
    CHECK_EQ(coir_udp_recv_many(a, &in, 1), 1);
    CHECK_EQ(room[0], 'm');
    CHECK_EQ(coir_udp_leave(a, &group, "lo"), 0);
    CHECK_EQ(coir_udp_send_many(b, &out, 1), 1);
    {
        COIR_DEADLINE(coir_in(5 * COIR_MS));
        CHECK_EQ(coir_udp_recv_many(a, &in, 1), -ETIME);
    }
    CHECK_EQ(coir_address_parse("127.0.0.1:1", &group), 0);
    CHECK_EQ(coir_udp_join(a, &group, NULL), -EINVAL);
    coir_udp_close(a);
    coir_udp_close(b);
}

TEST(a_group_is_joined_and_left)
{
    on_every_driver(multicast);
}

static void broadcast(void)
{
    char byte = 'b';
    coir_udp_options options = COIR_UDP_OPTIONS;
    options.address = "0.0.0.0:0";
    coir_udp *udp = open_socket(options, NULL);
    coir_datagram out = {.size = sizeof(coir_datagram), .data = &byte, .len = 1};
    CHECK_EQ(coir_address_parse("127.255.255.255:9", &out.peer), 0);
    CHECK_EQ(coir_udp_send_many(udp, &out, 1), -EACCES);
    coir_udp_close(udp);
    options.broadcast = true;
    options.ttl = 3;
    options.send_buffer = options.receive_buffer = 100000;
    udp = open_socket(options, NULL);
    CHECK_EQ(coir_udp_send_many(udp, &out, 1), 1);
    coir_udp_close(udp);
}

TEST(a_broadcast_is_sent_where_that_is_asked_for)
{
    on_every_driver(broadcast);
}

static int option_of(const coir_udp *udp, int level, int option)
{
    int value = -1;
    socklen_t len = sizeof value;
    CHECK_EQ(getsockopt(udp->fd, level, option, &value, &len), 0);
    return value;
}

static void set_what_is_not_seen(void)
{
    coir_udp_options options = COIR_UDP_OPTIONS;
    options.address = "0.0.0.0:0";
    options.no_multicast_loop = true;
    options.ttl = 3;
    options.multicast_ttl = 4;
    options.receive_buffer = 50000;
    options.send_buffer = 60000;
    coir_udp *four = open_socket(options, NULL);
    options.address = "[::]:0";
    options.ipv6_only = true;
    coir_udp *six = open_socket(options, NULL);
    CHECK_EQ(option_of(four, IPPROTO_IP, IP_MULTICAST_LOOP), 0);
    CHECK_EQ(option_of(four, IPPROTO_IP, IP_TTL), 3);
    CHECK_EQ(option_of(four, IPPROTO_IP, IP_MULTICAST_TTL), 4);
    CHECK_EQ(option_of(four, SOL_SOCKET, SO_RCVBUF), 100000); /* the system doubles it */
    CHECK_EQ(option_of(four, SOL_SOCKET, SO_SNDBUF), 120000);
    CHECK_EQ(option_of(six, IPPROTO_IPV6, IPV6_MULTICAST_LOOP), 0);
    CHECK_EQ(option_of(six, IPPROTO_IPV6, IPV6_UNICAST_HOPS), 3);
    CHECK_EQ(option_of(six, IPPROTO_IPV6, IPV6_MULTICAST_HOPS), 4);
    CHECK_EQ(option_of(six, IPPROTO_IPV6, IPV6_V6ONLY), 1);
    coir_udp_close(four);
    coir_udp_close(six);
}

TEST(what_is_not_seen_is_set)
{
    on_every_driver(set_what_is_not_seen);
}

/* A socket that was passed gets the options, too. */
static void options_of_a_passed_socket(void)
{
    char text[32];
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&own, sizeof own), 0);
    snprintf(text, sizeof text, "fd:%d", fd);
    coir_udp_options options = COIR_UDP_OPTIONS;
    options.address = text;
    options.ttl = 5;
    coir_udp *udp = open_socket(options, NULL);
    CHECK_EQ(udp->fd, fd);
    CHECK_EQ(option_of(udp, IPPROTO_IP, IP_TTL), 5);
    coir_udp_close(udp);
}

/* What only the one who binds it can choose is as that one chose. */
static void options_of_a_passed_ipv6_socket(void)
{
    for (int only = 0; only < 2; only++) {
        char text[32];
        coir_udp *udp;
        struct sockaddr_in6 own = {.sin6_family = AF_INET6};
        int fd = socket(AF_INET6, SOCK_DGRAM, 0);
        CHECK_EQ(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only), 0);
        CHECK_EQ(bind(fd, (struct sockaddr *)&own, sizeof own), 0);
        snprintf(text, sizeof text, "fd:%d", fd);
        coir_udp_options options = COIR_UDP_OPTIONS;
        options.address = text;
        options.ipv6_only = true;
        int rc = coir_udp_open_with(&options, &udp);
        CHECK_EQ(rc, only ? 0 : -EINVAL);
        options.ipv6_only = false;
        options.ttl = 6;
        if (!only) /* the refused one is the caller's still */
            udp = open_socket(options, NULL);
        CHECK_EQ(udp->fd, fd);
        CHECK_EQ(option_of(udp, IPPROTO_IPV6, IPV6_V6ONLY), only);
        if (!only)
            CHECK_EQ(option_of(udp, IPPROTO_IPV6, IPV6_UNICAST_HOPS), 6);
        coir_udp_close(udp);
    }
}

TEST(a_passed_socket_gets_its_options)
{
    on_every_driver(options_of_a_passed_socket);
    on_every_driver(options_of_a_passed_ipv6_socket);
}

/* The system chooses by the sender: in the end, each of two has got something. */
static void one_address_for_two(void)
{
    char address[64], host[16], room[4], byte = 'x';
    coir_udp *both[2], *third;
    coir_udp_options options = COIR_UDP_OPTIONS;
    test_own_loopback(host);
    snprintf(address, sizeof address, "%s:0", host);
    options.address = address;
    options.reuse_port = true;
    both[0] = open_socket(options, address);
    options.address = address;
    both[1] = open_socket(options, NULL);
    CHECK_EQ(coir_udp_open(address, NULL, &third), -EADDRINUSE);
    for (int got_by[2] = {0}; !got_by[0] || !got_by[1];) {
        coir_udp *sender = open_at("127.0.0.1:0", address, NULL);
        coir_datagram out = {.size = sizeof(coir_datagram), .data = &byte, .len = 1},
                      in = {.size = sizeof(coir_datagram), .data = room, .room = 4};
        CHECK_EQ(coir_udp_send_many(sender, &out, 1), 1);
        coir_case cases[] = {coir_case_udp(both[0], COIR_READ), coir_case_udp(both[1], COIR_READ)};
        int which = coir_select(cases, 2);
        CHECK(which >= 0);
        CHECK_EQ(coir_udp_recv_many(both[which], &in, 1), 1);
        got_by[which]++;
        coir_udp_close(sender);
    }
    coir_udp_close(both[0]);
    coir_udp_close(both[1]);
}

TEST(two_sockets_may_have_one_address)
{
    on_every_driver(one_address_for_two);
}

/* ---- what there is not ---- */

TEST_SIM(what_the_simulated_world_has_not_it_says)
{
    coir_address group;
    coir_udp *udp;
    coir_udp_options options = COIR_UDP_OPTIONS;
    options.address = "127.0.0.1:0";
    options.broadcast = true;
    CHECK_EQ(coir_udp_open_with(&options, &udp), -EOPNOTSUPP);
    options.broadcast = false;
    options.multicast_interface = "lo";
    CHECK_EQ(coir_udp_open_with(&options, &udp), -EOPNOTSUPP);
    options.multicast_interface = NULL;
    options.ttl = 256;
    CHECK_EQ(coir_udp_open_with(&options, &udp), -EINVAL);
    options.ttl = 255;
    CHECK_EQ(coir_udp_open_with(&options, &udp), 0);
    CHECK_EQ(coir_address_parse("239.1.2.3:7", &group), 0);
    CHECK_EQ(coir_udp_join(udp, &group, NULL), -EOPNOTSUPP);
    CHECK_EQ(coir_udp_leave(udp, &group, NULL), -EOPNOTSUPP);
    coir_udp_close(udp);
}

/* ---- Unix sockets ---- */

/* Each sender is the one that is told, also where the name before was longer, or there is none. */
static void tell_unix_senders(void)
{
    char server_name[64], room[4], name[64], text[64];
    const char *formats[] = {"unix:@coir %d, a sender with a long name", "unix:@coir %d", NULL};
    coir_udp *server = open_at("unix:@", NULL, server_name);
    coir_address to;
    coir_datagram in = {.size = sizeof(coir_datagram), .data = room, .room = sizeof room};
    CHECK_EQ(coir_address_parse(server_name, &to), 0);
    for (int i = 0; i < 3; i++) {
        if (formats[i]) {
            snprintf(name, sizeof name, formats[i], (int)getpid());
            coir_udp *sender = open_at(name, NULL, NULL);
            CHECK_EQ(coir_udp_send_to(sender, "x", 1, &to), 1);
            coir_udp_close(sender);
        } else {
            int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
            socklen_t len = (socklen_t)(sizeof(sa_family_t) + strlen(server_name) - 5);
            CHECK_EQ(sendto(fd, "x", 1, 0, (const struct sockaddr *)(const void *)&to, len), 1);
            close(fd);
        }
        CHECK_EQ(coir_udp_recv_many(server, &in, 1), 1);
        if (formats[i])
            CHECK(coir_address_format(&in.peer, text, sizeof text) > 0 && strcmp(text, name) == 0);
        else
            CHECK(((const struct sockaddr *)(const void *)&in.peer)->sa_family == AF_UNSPEC);
    }
    coir_udp_close(server);
}

TEST(the_sender_on_a_unix_socket_is_told)
{
    on_every_driver(tell_unix_senders);
}

/* A program that binds all of a sockaddr_un has an abstract name that ends with NULs. */
static int bind_with_len(const char *name, socklen_t len, const coir_address *to, socklen_t to_len)
{
    struct sockaddr_un own = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    memcpy(own.sun_path + 1, name, strlen(name));
    own.sun_path[20] = len > 50 ? '.' : '\0';
    CHECK_EQ(bind(fd, (const struct sockaddr *)(const void *)&own, len), 0);
    CHECK_EQ(connect(fd, (const struct sockaddr *)(const void *)to, to_len), 0);
    CHECK_EQ(send(fd, "x", 1, 0), 1);
    return fd;
}

static void answer_names_with_nuls(void)
{
    static const socklen_t lens[] = {sizeof(struct sockaddr_un), 40, 3};
    char server_name[64], name[16], room[4];
    coir_udp *server = open_at("unix:@", NULL, server_name);
    coir_address to, from;
    coir_datagram in = {.size = sizeof(coir_datagram), .data = room, .room = sizeof room};
    CHECK_EQ(coir_address_parse(server_name, &to), 0);
    socklen_t to_len = (socklen_t)(sizeof(sa_family_t) + strlen(server_name) - 5);
    snprintf(name, sizeof name, "coir%d", (int)getpid());
    for (size_t i = 0; i < 3; i++) {
        int fd = bind_with_len(lens[i] > 3 ? name : "", lens[i], &to, to_len);
        CHECK_EQ(coir_udp_recv(server, room, sizeof room, &from), 1);
        CHECK_EQ(coir_udp_send_to(server, "y", 1, &from), 1);
        CHECK_EQ(recv(fd, room, sizeof room, MSG_DONTWAIT), 1);
        CHECK_EQ(send(fd, "z", 1, 0), 1);
        CHECK_EQ(coir_udp_recv_many(server, &in, 1), 1);
        in.len = 1;
        CHECK_EQ(coir_udp_send_many(server, &in, 1), 1);
        CHECK_EQ(recv(fd, room, sizeof room, MSG_DONTWAIT), 1);
        close(fd);
    }
    coir_udp_close(server);
}

TEST(a_sender_whose_abstract_name_has_nuls_is_answered)
{
    on_every_driver(answer_names_with_nuls);
}

static void fill_a_unix_queue(void)
{
    char server_name[64], bytes[100] = {0}, room[100];
    coir_udp *a = open_at("unix:@", NULL, server_name), *b = open_at("unix:@", NULL, NULL);
    coir_datagram out[4] = {COIR_DATAGRAM},
                  in = {.size = sizeof(coir_datagram), .data = room, .room = sizeof room};
    int sent_count = 0;
    for (int i = 0; i < 4; i++) {
        out[i] = (coir_datagram){.size = sizeof(coir_datagram), .data = bytes, .len = sizeof bytes};
        CHECK_EQ(coir_address_parse(server_name, &out[i].peer), 0);
    }
    for (;;) {
        COIR_DEADLINE(coir_in(5 * COIR_MS));
        ssize_t n = coir_udp_send_many(b, out, 4);
        if (n == -ETIME) /* the queue is full: nothing is lost */
            break;
        CHECK(n > 0);
        sent_count += (int)n;
    }
    for (; sent_count; sent_count--)
        CHECK_EQ(coir_udp_recv_many(a, &in, 1), 1);
    CHECK_EQ(coir_udp_send_many(b, out, 1), 1);
    coir_udp_close(a);
    coir_udp_close(b);
}

TEST(a_full_queue_of_a_unix_socket_is_waited_for)
{
    on_every_driver(fill_a_unix_queue);
}

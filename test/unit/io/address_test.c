/* The one syntax of addresses: what each form means, and which part is wrong; sockets that were
 * passed to the process. */
#include <coir.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/io.h"
#include "plain.h"

#define LONG_40 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define LONG_107 "/" LONG_40 LONG_40 "aaaaaaaaaaaaaaaaaaaaaaaaaa"
#define LONG_280 LONG_40 LONG_40 LONG_40 LONG_40 LONG_40 LONG_40 LONG_40

TEST(each_form_is_understood_and_the_wrong_part_is_named)
{
    static const struct {
        const char *text;
        int want;
    } rows[] = {
        {"127.0.0.1:80", 0},
        {"0.0.0.0:0", 0},
        {"[::1]:65535", 0},
        {"[fe80::1%1]:80", 0},
        {"[fe80::1%lo]:80", 0},
        {":80", 0},
        {"*:80", 0},
        {"example.org:80", 0},
        {"a-b_c.d.:80", 0},
        {"unix:/run/x.sock", 0},
        {"unix:" LONG_107, 0},
        {"unix:@name", 0},
        {"unix:@", 0},
        {"fd:0", 0},
        {"", -COIR_EADDRESS},
        {"127.0.0.1", -COIR_EPORT},
        {"127.0.0.1:", -COIR_EPORT},
        {"127.0.0.1:65536", -COIR_EPORT},
        {"127.0.0.1:4294967376", -COIR_EPORT},
        {"127.0.0.1:-1", -COIR_EPORT},
        {"127.0.0.1:8o", -COIR_EPORT},
        {"127.0.0.1:80 ", -COIR_EPORT},
        {"127.0.0.1:http", -COIR_EPORT},
        {"example.org", -COIR_EPORT},
        {"[::1]", -COIR_EPORT},
        {"[::1]:", -COIR_EPORT},
        {"[::1]:80:80", -COIR_EPORT},
        {"::1:80", -COIR_EHOST},
        {"::1", -COIR_EHOST},
        {"[::1:80", -COIR_EHOST},
        {"[::1]80:80", -COIR_EHOST},
        {"[]:80", -COIR_EHOST},
        {"[127.0.0.1]:80", -COIR_EHOST},
        {"[fe80::1%no-such-interface]:80", -COIR_EHOST},
        {"256.1.1.1:80", -COIR_EHOST},
        {"127.1:80", -COIR_EHOST},
        {"1234:80", -COIR_EHOST},
        {"0x7f000001:80", -COIR_EHOST}, /* inet_aton(3) takes it */
        {"0X7f.1:80", -COIR_EHOST},
        {"a.0x:80", -COIR_EHOST},
        {"a.1.:80", -COIR_EHOST},
        {"0xyz:80", 0},
        {"1.com.:80", 0},
        {"0x7f.a1:80", 0},
        {"a b:80", -COIR_EHOST},
        {".:80", -COIR_EHOST},
        {"a..b:80", -COIR_EHOST},
        {"user@host:80", -COIR_EHOST},
        {LONG_280 ":80", -COIR_EHOST},
        {"[" LONG_280 "]:80", -COIR_EHOST},
        {"unix:", -COIR_EPATH},
        {"unix:relative", -COIR_EPATH},
        {"unix:" LONG_107 "a", -COIR_EPATH},
        {"fd:", -COIR_EPASSED},
        {"fd:x", -COIR_EPASSED},
        {"fd:-1", -COIR_EPASSED},
        {"fd:99999999999", -COIR_EPASSED},
        {"systemd:web", -COIR_EPASSED},
    };
    struct ci_where where;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int got = ci_where_parse(rows[i].text, &where);
        if (got != rows[i].want)
            test_fail(__FILE__, __LINE__, "\"%s\" says %d (%s)", rows[i].text, got,
                      coir_strerror(got));
    }
}

TEST(what_was_understood_is_what_was_meant)
{
    struct ci_where where;
    const struct sockaddr_in6 *six = (const void *)&where.address;
    const struct sockaddr_un *un = (const void *)&where.address;
    CHECK_EQ(ci_where_parse(":8080", &where), 0);
    CHECK(where.any && where.kind == CI_AT_ADDRESS && where.port == 8080);
    CHECK(six->sin6_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr) &&
          ntohs(six->sin6_port) == 8080);
    CHECK_EQ(ci_where_parse("[fe80::1%7]:80", &where), 0);
    CHECK(!where.any && six->sin6_scope_id == 7);
    CHECK_EQ(ci_where_parse("Example.org:443", &where), 0);
    CHECK(where.kind == CI_AT_HOST && strcmp(where.host, "Example.org") == 0 && where.port == 443);
    CHECK_EQ(ci_where_parse("unix:/a", &where), 0);
    CHECK(where.len == offsetof(struct sockaddr_un, sun_path) + 3 &&
          strcmp(un->sun_path, "/a") == 0);
    CHECK_EQ(ci_where_parse("unix:@a", &where), 0);
    CHECK(where.len == offsetof(struct sockaddr_un, sun_path) + 2 &&
          memcmp(un->sun_path, "\0a", 2) == 0);
    CHECK_EQ(ci_where_parse("unix:@", &where), 0);
    CHECK_EQ(where.len, offsetof(struct sockaddr_un, sun_path));
    CHECK_EQ(ci_where_parse("fd:7", &where), 0);
    CHECK(where.kind == CI_AT_SOCKET && where.fd == 7);
}

TEST(what_is_written_is_read_again)
{
    static const struct {
        const char *text, *written; /* NULL: as it was read */
    } rows[] = {
        {"127.0.0.1:80", NULL},
        {"[::1]:65535", NULL},
        {"[fe80::1%7]:80", NULL},
        {"[fe80:0::1%4294967]:80", "[fe80::1%4294967]:80"},
        {"[::ffff:192.0.2.1]:80", "192.0.2.1:80"}, /* an IPv4 peer of a socket of both families */
        {":80", "[::]:80"},
        {"unix:/a", NULL},
        {"unix:@a", NULL},
    };
    struct ci_where where, again;
    char text[80];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *expected = rows[i].written ? rows[i].written : rows[i].text;
        CHECK_EQ(ci_where_parse(rows[i].text, &where), 0);
        CHECK_EQ(ci_address_format(&where.address, text, sizeof text), (int)strlen(expected));
        if (strcmp(text, expected) != 0)
            test_fail(__FILE__, __LINE__, "%s is written as %s", rows[i].text, text);
        CHECK_EQ(ci_where_parse(text, &again), 0);
        if (!rows[i].written)
            CHECK(memcmp(&where.address, &again.address, sizeof where.address) == 0);
    }
    CHECK_EQ(ci_address_format(&(struct sockaddr_storage){0}, text, sizeof text), -EOPNOTSUPP);
}

/* ---- every interface, both families ---- */

static bool has_ipv6(void)
{
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    bool has = fd >= 0 && bind(fd, (struct sockaddr *)&loopback, sizeof loopback) == 0;
    close(fd);
    return has;
}

static void reach(const char *host, const char *port, coir_listener *listener)
{
    char address[80];
    coir_stream *client, *server;
    snprintf(address, sizeof address, "%s%s", host, port);
    CHECK_EQ(coir_tcp_connect(address, &client), 0);
    CHECK_EQ(coir_accept(listener, &server), 0);
    coir_close(client);
    coir_close(server);
}

static void listen_on_everything(void)
{
    coir_listener *listener;
    char address[64];
    CHECK_EQ(coir_tcp_listen(":0", &listener), 0);
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
    const char *port = strrchr(address, ':');
    reach("127.0.0.1", port, listener);
    reach("localhost", port, listener);
    if (has_ipv6())
        reach("[::1]", port, listener);
    coir_listener_close(listener);
}

TEST(no_host_is_every_interface_in_both_families)
{
    test_in_runtime(listen_on_everything, 1);
}

/* ---- sockets that were passed ---- */

static int plain_listener(struct sockaddr_in *ret_address)
{
    socklen_t len = sizeof *ret_address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    *ret_address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(fd >= 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)ret_address, sizeof *ret_address), 0);
    CHECK_EQ(listen(fd, 16), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)ret_address, &len), 0);
    return fd;
}

static void use_passed(const char *passed, const char *address)
{
    coir_listener *listener;
    coir_stream *client, *server;
    char local[64];
    CHECK_EQ(coir_tcp_listen(passed, &listener), 0);
    CHECK(coir_listener_local(listener, local, sizeof local) > 0);
    CHECK(strcmp(local, address) == 0);
    CHECK_EQ(coir_tcp_connect(address, &client), 0);
    CHECK_EQ(coir_accept(listener, &server), 0);
    coir_close(client);
    coir_close(server);
    coir_listener_close(listener);
}

static void adopt_listener(void)
{
    struct sockaddr_in where;
    char passed[32], address[64];
    coir_listener *listener;
    coir_stream *stream;
    coir_udp *udp;
    int fd = plain_listener(&where);
    snprintf(passed, sizeof passed, "fd:%d", fd);
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(where.sin_port));
    CHECK_EQ(coir_tcp_connect(passed, &stream), -COIR_EPASSED);
    CHECK_EQ(coir_udp_open(passed, NULL, &udp), -COIR_EPASSED);
    use_passed(passed, address);
    /* it was closed with its listener */
    CHECK_EQ(coir_tcp_listen(passed, &listener), -COIR_EPASSED);
}

static void adopt_streams(void)
{
    struct sockaddr_in where;
    char passed[32], buf[8];
    coir_listener *listener;
    coir_stream *stream;
    int fd = plain_listener(&where), client = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(connect(client, (struct sockaddr *)&where, sizeof where), 0);
    int server = accept(fd, NULL, NULL);
    snprintf(passed, sizeof passed, "fd:%d", client);
    CHECK_EQ(coir_tcp_listen(passed, &listener), -COIR_EPASSED);
    CHECK_EQ(coir_tcp_connect(passed, &stream), 0);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_read(stream, buf, sizeof buf), -ETIME); /* it does not block */
    }
    CHECK_EQ(write(server, "hello", 5), 5);
    CHECK_EQ(coir_read(stream, buf, sizeof buf), 5);
    coir_close(stream);
    CHECK_EQ(read(server, buf, 1), 0);
    close(server);
    close(fd);
}

static void connect_with_no_meaning(void)
{
    coir_stream *stream;
    char passed[32];
    int fds[2];
    CHECK_EQ(coir_tcp_connect("unix:@", &stream), -COIR_EADDRESS);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    snprintf(passed, sizeof passed, "fd:%d", fds[0]);
    for (int i = 0; i < 2; i++) {
        coir_tcp_connect_options options = COIR_TCP_CONNECT_OPTIONS;
        options.local = i ? NULL : "127.0.0.1:0";
        options.fast_open = i;
        CHECK_EQ(coir_tcp_connect_with(passed, &options, &stream), -COIR_EADDRESS);
    }
    close(fds[0]);
    close(fds[1]);
}

static void adopt_datagrams(void)
{
    char passed[32], address[64], buf[8];
    coir_udp *passed_one, *other;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK_EQ(bind(fd, (struct sockaddr *)&any, sizeof any), 0);
    snprintf(passed, sizeof passed, "fd:%d", fd);
    CHECK_EQ(coir_udp_open(passed, "127.0.0.1:9", &passed_one), -COIR_EADDRESS);
    CHECK_EQ(coir_udp_open(passed, NULL, &passed_one), 0);
    CHECK(coir_udp_local(passed_one, address, sizeof address) > 0);
    CHECK_EQ(coir_udp_open(":0", address, &other), 0);
    CHECK_EQ(coir_udp_send(other, "hello", 5), 5);
    CHECK_EQ(coir_udp_recv(passed_one, buf, sizeof buf, NULL), 5);
    coir_udp_close(passed_one);
    coir_udp_close(other);
}

TEST(a_descriptor_by_number)
{
    test_in_runtime(adopt_listener, 1);
    test_in_runtime(adopt_streams, 1);
    test_in_runtime(connect_with_no_meaning, 1);
    test_in_runtime(adopt_datagrams, 1);
}

static struct sockaddr_in activated;

static void adopt_activated(void)
{
    char address[64];
    coir_listener *listener;
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(activated.sin_port));
    CHECK_EQ(coir_tcp_listen("systemd:nobody", &listener), -COIR_EPASSED);
    CHECK_EQ(coir_tcp_listen("systemd:we", &listener), -COIR_EPASSED);
    use_passed("systemd:web", address);
}

TEST(a_socket_that_was_passed_by_name)
{
    char pid[16];
    int fd = plain_listener(&activated);
    CHECK_EQ(dup2(fd, 4), 4);
    if (fd != 4)
        close(fd);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv("LISTEN_FDS", "2", 1);
    setenv("LISTEN_FDNAMES", "admin:web", 1);
    setenv("LISTEN_PID", "1", 1); /* another process was meant */
    struct ci_where where;
    CHECK_EQ(ci_where_parse("systemd:web", &where), -COIR_EPASSED);
    setenv("LISTEN_PID", pid, 1);
    CHECK_EQ(ci_where_parse("systemd:web", &where), 0);
    CHECK_EQ(where.fd, 4);
    test_in_runtime(adopt_activated, 1);
}

/* ---- a Unix listener that another process has too ---- */

static char directory[] = "/tmp/coir-passed-XXXXXX";
static struct sockaddr_un name = {.sun_family = AF_UNIX};

static int plain_unix_listener(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(mkdtemp(directory));
    snprintf(name.sun_path, sizeof name.sun_path, "%s/socket", directory);
    CHECK_EQ(bind(fd, (struct sockaddr *)&name, sizeof name), 0);
    CHECK_EQ(listen(fd, 16), 0);
    return fd;
}

static int echo_byte(coir_stream *stream, void *arg)
{
    char byte;
    (void)arg;
    int rc = (int)coir_read_full(stream, &byte, 1, NULL);
    return rc < 0 ? rc : coir_write_all(stream, &byte, 1);
}

static int serve_passed(void *passed)
{
    return coir_serve_tcp(passed, echo_byte, NULL);
}

static void talk_to(const char *address)
{
    coir_stream *stream;
    char byte = 0;
    CHECK_EQ(coir_tcp_connect(address, &stream), 0);
    CHECK_EQ(coir_write_all(stream, "x", 1), 0);
    CHECK_EQ(coir_read_full(stream, &byte, 1, NULL), 1);
    CHECK_EQ(byte, 'x');
    coir_close(stream);
}

/* The one of the other process, which `kept` stands for, is as it was. */
static void check_kept(int kept)
{
    int client = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK_EQ(connect(client, (struct sockaddr *)&name, sizeof name), 0);
    int server = accept(kept, NULL, NULL);
    CHECK(server >= 0);
    close(server);
    close(client);
}

/* A call that fails leaves the descriptor and the file to those who have made them. */
static void refuse_fast_open(const char *passed)
{
    coir_listener *listener;
    coir_listen_options options = COIR_LISTEN_OPTIONS;
    options.fast_open = 1;
    CHECK_EQ(coir_tcp_listen_with(passed, &options, &listener), -EOPNOTSUPP);
}

static void share_unix_listener(void)
{
    char address[128], passed[32], pid[16];
    int fd = plain_unix_listener(), kept = dup(fd);
    snprintf(address, sizeof address, "unix:%s", name.sun_path);
    snprintf(passed, sizeof passed, "fd:%d", fd);
    refuse_fast_open(passed);
    check_kept(kept);
    use_passed(passed, address);
    check_kept(kept);
    CHECK_EQ(dup2(kept, fd), fd);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv("LISTEN_PID", pid, 1);
    char names[256] = "local";
    for (int i = 3; i < fd; i++) /* the descriptors before it have names too */
        memmove(names + 2, names, sizeof names - 2), memcpy(names, "a:", 2);
    snprintf(passed, sizeof passed, "%d", fd - 2);
    setenv("LISTEN_FDS", passed, 1);
    setenv("LISTEN_FDNAMES", names, 1);
    {
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, serve_passed, (void *)(uintptr_t) "systemd:local"), 0);
        talk_to(address);
        coir_scope_cancel(scope);
        int rc = coir_scope_wait(scope);
        CHECK(rc == 0 || rc == -ECANCELED);
    }
    check_kept(kept); /* neither refused nor removed when the server ended */
    close(kept);
    unlink(name.sun_path);
    CHECK_EQ(rmdir(directory), 0);
}

TEST_REAL(a_unix_listener_that_was_passed_stays_with_its_owner)
{
    share_unix_listener();
}

static void nothing_is_passed(void)
{
    coir_listener *listener;
    CHECK_EQ(coir_tcp_listen("fd:3", &listener), -COIR_EPASSED);
}

TEST(nothing_is_passed_to_a_simulated_host)
{
    test_in_sim(nothing_is_passed, 1, 1);
}

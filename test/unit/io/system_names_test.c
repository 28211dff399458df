/* Names by getaddrinfo, from a name server that lies (dns.h), in a network of the test's own. Where
 * there can be none it is said, and nothing is tested. */
#include "asking.h"
#include "own_network.h"

/* What glibc does: it waits for whole seconds. */
#define QUICK "nameserver 127.0.0.1\noptions timeout:1 attempts:2\n"
#define PATIENT "nameserver 127.0.0.1\noptions timeout:30 attempts:1\n"

static coir_config config = COIR_CONFIG;

static void run(coir_task_fn *fn, size_t workers, const char *resolv_conf)
{
    coir_runtime *runtime;
    if (!enter_own_network(resolv_conf))
        return;
    dns_start_at(53);
    config.workers = workers;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    CHECK_EQ(coir_runtime_run(runtime, fn, NULL), 0);
    coir_runtime_free(runtime);
    dns_stop();
}

/* ---- each lie ---- */

static const struct row black = {"black.test:80", 1, -COIR_ENAMESERVER};

static int ask_row(void *arg)
{
    check_row(arg);
    return 0;
}

static void spawn(coir_scope *scope, const struct row *row)
{
    CHECK_EQ(coir_go(scope, ask_row, (void *)(uintptr_t)row), 0);
}

static int check_all(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        spawn(scope, &lies[i]);
    spawn(scope, &black);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(dns_asked_over_tcp(), 2);
    return 0;
}

TEST(a_name_server_that_lies_is_not_believed)
{
    config.name_threads_max = 32; /* the waits that time out do not add up */
    run(check_all, 1, QUICK);
}

/* ---- asked once, on the wire ---- */

static int ask_often(void *arg)
{
    (void)arg;
    ask_all_and_count();
    return 0;
}

TEST(ten_thousand_questions_of_a_hundred_names_are_a_hundred_on_the_wire)
{
    run(ask_often, 2, PATIENT);
}

/* ---- a name server that is silent ---- */

/* Every thread that asks for names waits for it. */
static int go_on(void *arg)
{
    (void)arg;
    go_on_while_held(3, false);
    return 0;
}

TEST(a_silent_name_server_delays_nobody_who_asks_it_nothing)
{
    config.name_threads_max = 3;
    run(go_on, 1, PATIENT);
}

static int ask_second(void *arg)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(53)};
    coir_address one;
    char byte;
    (void)arg;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    int silent = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(silent, (struct sockaddr *)&at, sizeof at), 0);
    CHECK_EQ(resolve("plain.test:80", COIR_IPV4, &one, 1), 1);
    CHECK_EQ(dns_asked(false), 1);
    CHECK_EQ(recv(silent, &byte, 1, MSG_DONTWAIT), 1); /* it was asked first */
    close(silent);
    return 0;
}

/* The first name server is a socket that is never read. */
TEST(another_name_server_is_asked_when_one_is_silent)
{
    run(ask_second, 1,
        "nameserver 127.0.0.2\nnameserver 127.0.0.1\noptions timeout:1 attempts:1\n");
}

/* ---- files ---- */

static int ask_anew(void *arg)
{
    coir_address found;
    char text[64];
    (void)arg;
    CHECK_EQ(resolve("kept.test:80", COIR_IPV4, &found, 1), 1);
    CHECK(coir_address_format(&found, text, sizeof text) > 0);
    CHECK(strcmp(text, "192.0.2.9:80") == 0);
    CHECK_EQ(dns_asked(false), 0);
    put_file("/etc/hosts", "192.0.2.10 kept.test\n");
    do { /* the files are looked at once a second */
        CHECK_EQ(coir_sleep_for(50 * COIR_MS), 0);
        CHECK_EQ(resolve("kept.test:80", COIR_IPV4, &found, 1), 1);
        CHECK(coir_address_format(&found, text, sizeof text) > 0);
    } while (strcmp(text, "192.0.2.9:80") == 0);
    CHECK(strcmp(text, "192.0.2.10:80") == 0);
    put_file("/etc/resolv.conf", "nameserver 127.0.0.2\noptions timeout:1 attempts:1\n");
    while (resolve("plain.test:80", COIR_IPV4, &found, 1) == 1)
        CHECK_EQ(coir_sleep_for(50 * COIR_MS), 0);
    return 0;
}

static const char hosts[] = "# 2001:db8::7 plain.test\n"
                            "192.0.2.9 other.test\tPlain.test # chain.test\n"
                            "fe80::1%lo chain.test\n"
                            "::1 loop.test\n"
                            "192.0.2.9 slow.test\n2001:db8::9 slow.test\n"
                            "::ffff:192.0.2.9 stale.test";

static void expect_one(const char *name, const char *want)
{
    coir_address found[3];
    char text[64];
    CHECK_EQ(coir_resolve(name, found, 3), 1);
    CHECK(coir_address_format(&found[0], text, sizeof text) > 0);
    if (strcmp(text, want) != 0)
        test_fail(__FILE__, __LINE__, "%s is %s, not %s", name, text, want);
}

/* Whether the resolver takes ::1 in the file for 127.0.0.1, too. */
static bool makes_loopback(void)
{
#if defined(__GLIBC__)
    return !config.resolver;
#else
    return false;
#endif
}

static int ask_for_overridden(void *arg)
{
    coir_address found[3];
    (void)arg;
    put_file("/etc/hosts", hosts);
    expect_one("plain.test:80", "192.0.2.9:80");
    CHECK_EQ(resolve("plain.test:80", COIR_IPV6, found, 3), -COIR_ENAME);
    CHECK_EQ(coir_resolve("chain.test:80", found, 3), 1);
    CHECK_EQ(resolve("chain.test:80", COIR_IPV4, found, 3), -COIR_ENAME);
    CHECK_EQ(coir_resolve("slow.test:80", found, 3), 2);
    CHECK(coir_resolve("loop.test:80", found, 3) >= 1);
    CHECK_EQ(resolve("loop.test:80", COIR_IPV4, found, 3), makes_loopback() ? 1 : -COIR_ENAME);
    CHECK_EQ(dns_asked(false), 0);
    CHECK_EQ(coir_resolve("plain2.test:80", found, 3), 2); /* it is not in the file */
    CHECK_EQ(dns_asked(false), 1);
    CHECK(coir_resolve("stale.test:80", found, 3) >= 1);
    return 0;
}

/* The program believes the file, not the name server in the family that the file lacks. */
TEST(what_the_file_says_of_a_host_is_all_of_it)
{
    run(ask_for_overridden, 1, PATIENT);
}

TEST(so_it_is_with_c_ares)
{
    coir_runtime *runtime;
    config.resolver = "c-ares";
    if (coir_runtime_new(&config, &runtime) == -EINVAL) {
        printf("left out: this coir was built without c-ares\n");
        return;
    }
    coir_runtime_free(runtime);
    run(ask_for_overridden, 1, PATIENT);
}

TEST(files_that_change_are_read_again)
{
    config.name_cache_time = COIR_NEVER;
    run(ask_anew, 1, PATIENT);
}

/* ---- giving up ---- */

/* A thread that asks has a socket of its own meanwhile, for datagrams. */
static int open_streams(void)
{
    int streams = 0;
    for (int fd = 0; fd < 1000; fd++) {
        int type = 0;
        socklen_t len = sizeof type;
        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0)
            streams += type == SOCK_STREAM;
    }
    return streams;
}

static int give_up(void *arg)
{
    (void)arg;
    give_up_connecting(open_streams);
    return 0;
}

TEST(ten_thousand_connects_by_name_are_given_up_and_leave_no_descriptor)
{
    run(give_up, 1, QUICK);
}

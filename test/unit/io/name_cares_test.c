/* Names by c-ares, from a name server that lies (dns.h). In a build without c-ares it is said, and
 * nothing else is tested. */
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "asking.h"

static char silent_server[32];                                /* before the one that answers */
static const char *driver, *patience = "retrans:100 retry:3"; /* in vain: 700 ms */
static bool left_out;

static void run(coir_task_fn *fn, size_t workers)
{
    char servers[96];
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    config.workers = workers;
    config.resolver = "c-ares";
    config.driver = driver;
    setenv("RES_OPTIONS", patience, 1);
    dns_start();
    snprintf(servers, sizeof servers, "%s%s", silent_server, dns.address);
    config.name_servers = servers;
    int before = open_files();
    int rc = coir_runtime_new(&config, &runtime);
    if (rc == -EINVAL) {
        printf("left out: this coir was built without c-ares\n");
        left_out = true;
        return;
    }
    CHECK_EQ(rc, 0);
    CHECK_EQ(coir_runtime_run(runtime, fn, NULL), 0);
    coir_runtime_free(runtime);
    CHECK_EQ(open_files(), before);
    dns_stop();
}

/* ---- no room to wait ---- */

static atomic_bool no_room;
static atomic_int refusals;

/* In place of the system's: the table of what is watched is full. */
int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
    if (!atomic_load(&no_room) || op != EPOLL_CTL_ADD)
        return (int)syscall(SYS_epoll_ctl, epoll, op, fd, event);
    atomic_fetch_add(&refusals, 1);
    errno = ENOSPC;
    return -1;
}

static int ask_without_room(void *arg)
{
    coir_address found[1];
    (void)arg;
    atomic_store(&no_room, true);
    int rc = coir_resolve("no-room.example:1", found, 1);
    atomic_store(&no_room, false);
    CHECK_EQ(rc, -ENOSPC);
    CHECK(atomic_load(&refusals) > 0 && atomic_load(&refusals) < 10);
    return 0;
}

TEST(a_socket_that_cannot_be_waited_on_ends_the_question)
{
    driver = "epoll";
    run(ask_without_room, 1);
    driver = NULL;
}

static int ask_without_descriptors(void *arg)
{
    coir_address found[1];
    struct rlimit was, low = {0, 0};
    (void)arg;
    getrlimit(RLIMIT_NOFILE, &was);
    low.rlim_max = was.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    int rc = resolve("plain.test:80", COIR_IPV4, found, 1);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
    CHECK_EQ(rc, -EMFILE);
    CHECK_EQ(resolve("plain.test:80", COIR_IPV4, found, 1), 1); /* at once */
    return 0;
}

TEST(a_shortage_is_told_and_not_kept)
{
    patience = "retrans:3000 retry:3"; /* nothing is asked in vain */
    run(ask_without_descriptors, 1);
}

/* ---- each lie ---- */

static int check_all(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        check_row(&lies[i]);
    /* what was cut, and what was too large for a datagram without being so */
    CHECK_EQ(dns_asked_over_tcp(), 4);
    return 0;
}

TEST(a_name_server_that_lies_is_not_believed)
{
    run(check_all, 1);
}

/* ---- asked once, on the wire ---- */

static int ask_often(void *arg)
{
    (void)arg;
    /* nothing is asked again because this machine is slow */
    setenv("RES_OPTIONS", "retrans:30000 retry:2", 1);
    ask_all_and_count();
    return 0;
}

TEST(ten_thousand_questions_of_a_hundred_names_are_a_hundred_on_the_wire)
{
    run(ask_often, 2);
}

/* ---- a name server that is silent ---- */

static int go_on(void *arg)
{
    (void)arg;
    setenv("RES_OPTIONS", "retrans:30000 retry:2", 1);
    go_on_while_held(100, true);
    return 0;
}

TEST(a_silent_name_server_delays_nobody_who_asks_it_nothing)
{
    run(go_on, 1);
}

static int ask_second(void *arg)
{
    coir_address one;
    (void)arg;
    CHECK_EQ(resolve("plain.test:80", COIR_IPV4, &one, 1), 1);
    CHECK_EQ(dns_asked(false), 1);
    return 0;
}

/* The first name server is a socket that is never read. */
TEST(another_name_server_is_asked_when_one_is_silent)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int silent = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(silent, (struct sockaddr *)&at, sizeof at), 0);
    CHECK_EQ(getsockname(silent, (struct sockaddr *)&at, &len), 0);
    snprintf(silent_server, sizeof silent_server, "127.0.0.1:%d,", ntohs(at.sin_port));
    run(ask_second, 1);
    char byte;
    if (!left_out)
        CHECK(recv(silent, &byte, 1, MSG_DONTWAIT) == 1); /* it was asked first */
    close(silent);
}

/* ---- what is kept, and who leaves ---- */

static int ask_twice(void *arg)
{
    coir_address one;
    (void)arg;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(resolve("plain.test:80", COIR_IPV4, &one, 1), 1);
        CHECK_EQ(resolve("nx.test:80", COIR_IPV4, &one, 1), -COIR_ENAME);
    }
    CHECK_EQ(dns_asked(false), 2);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(resolve("brief.test:80", COIR_IPV4, &one, 1), 1);
    CHECK_EQ(dns_asked(false), 5); /* a TTL of 0 */
    return 0;
}

TEST(answers_are_kept_for_as_long_as_they_say)
{
    run(ask_twice, 1);
}

enum { LEAVERS = 20 };

static int ask_and_leave(void *arg)
{
    coir_address one;
    (void)arg;
    CHECK_EQ(resolve("held.test:80", COIR_IPV4, &one, 1), -ECANCELED);
    return 0;
}

static int wait_to_the_end(void *arg)
{
    coir_address one;
    (void)arg;
    CHECK_EQ(resolve("held.test:80", COIR_IPV4, &one, 1), 1);
    return 0;
}

/* Each leader leaves before the end; the question goes on, and is not put anew. */
static int leave_one_after_the_other(void *arg)
{
    coir_scope leavers[LEAVERS];
    (void)arg;
    setenv("RES_OPTIONS", "retrans:30000 retry:2", 1);
    for (int i = 0; i < LEAVERS; i++) {
        CHECK_EQ(coir_go_on(coir_scope_open(&leavers[i]), i % 2, ask_and_leave, NULL), 0);
        CHECK_EQ(coir_yield(), 0); /* the first asks, and leads */
    }
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, wait_to_the_end, NULL), 0);
    CHECK_EQ(coir_yield(), 0);
    for (int i = 0; i < LEAVERS; i++) {
        coir_scope_cancel(&leavers[i]);
        CHECK_EQ(coir_scope_wait(&leavers[i]), 0);
    }
    dns_release();
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(dns_asked(false), 1);
    coir_scope_close(scope);
    for (int i = LEAVERS; i-- > 0;)
        coir_scope_close(&leavers[i]);
    return 0;
}

TEST(a_question_goes_on_when_its_leader_leaves)
{
    run(leave_one_after_the_other, 2);
}

static int give_up(void *arg)
{
    coir_address one;
    (void)arg;
    int before = open_files();
    for (int i = 0; i < 200; i++) {
        COIR_DEADLINE(coir_in(i % 20 * 50 * COIR_US));
        int rc = resolve(i % 2 ? "drop.test:80" : "brief.test:80", i % 3 ? COIR_IPV4 : COIR_IPV6,
                         &one, 1);
        CHECK(rc == -ETIME || (rc == 1 && i % 2 == 0));
    }
    CHECK_EQ(open_files(), before);
    return 0;
}

TEST(who_gives_up_leaves_no_socket)
{
    run(give_up, 1);
}

static int give_up_connects(void *arg)
{
    (void)arg;
    give_up_connecting(open_files);
    return 0;
}

TEST(ten_thousand_connects_by_name_are_given_up_and_leave_no_descriptor)
{
    run(give_up_connects, 1);
}

static int connect_past_the_black_hole(void *arg)
{
    coir_stream *stream;
    (void)arg;
    COIR_DEADLINE(coir_in(30 * COIR_S));
    setenv("RES_OPTIONS", "retrans:20000 retry:2", 1);
    coir_address one;
    CHECK_EQ(resolve("black.test:80", COIR_IPV4, &one, 1), 1);
    {
        COIR_DEADLINE(coir_in(10 * COIR_MS));
        CHECK_EQ(resolve("black.test:80", COIR_ANY_FAMILY, &one, 1), -ETIME);
    }
    {
        COIR_DEADLINE(coir_in(200 * COIR_MS)); /* 192.0.2.1 does not answer, or cannot be reached */
        CHECK(coir_tcp_connect("black.test:80", &stream) < 0);
    }
    return 0;
}

TEST(a_server_that_does_not_know_of_ipv6)
{
    run(connect_past_the_black_hole, 1);
}

/* The client of an application: turns, connections that are kept and closed, and its end. */
#include <coir/sim.h>

#include "fastcgi.h"
#include "sys/misuse.h"

static int most;

/* Takes a second. */
static int be_slow(struct fcgi_request *request)
{
    most = applications > most ? applications : most;
    int rc = coir_sleep_for(COIR_S);
    return rc < 0 ? rc : say_hello(request);
}

static int answered, refused, unreached;

static int ask_alone(void *arg)
{
    (void)arg;
    char text[2000];
    coir_stream *stream = dial();
    send_text(stream, GET("/"));
    ssize_t n = coir_read(stream, text, sizeof text - 1);
    CHECK(n > 0);
    text[n] = '\0';
    answered += status(text) == 200;
    refused += status(text) == 503;
    unreached += status(text) == 504 || status(text) == 502;
    coir_close(stream);
    return 0;
}

static void ask_at_once(int count)
{
    COIR_SCOPE(scope);
    for (int i = 0; i < count; i++)
        CHECK_EQ(coir_go(scope, ask_alone, NULL), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
}

static void ask_a_thousand(void)
{
    coir_time start = coir_now();
    ask_at_once(1000);
    CHECK(answered == 1000 && most == 50);
    CHECK(coir_now() - start >= 20 * COIR_S && coir_now() - start < 25 * COIR_S);
}

TEST_SIM(requests_wait_for_their_turn)
{
    fcgi_options.connections_max = 50;
    fcgi_options.connect_timeout = 60 * COIR_S;
    with_application(be_slow, ask_a_thousand);
}

static void ask_too_many(void)
{
    ask_at_once(10);
    CHECK(answered == 4 && refused == 6 && most == 2); /* two turns each second, for 1.5 s */
    answered = 0;
    ask_at_once(2);
    CHECK_EQ(answered, 2); /* no turn was lost */
}

TEST_SIM(a_turn_that_does_not_come_is_503)
{
    fcgi_options.connections_max = 2;
    fcgi_options.connect_timeout = 3 * COIR_S / 2;
    with_application(be_slow, ask_too_many);
}

/* ---- kept connections ---- */

static int open_now;

static int count_open(struct fcgi_request *request)
{
    open_now += 1;
    return say_hello(request);
}

static void ask_in_turn(void)
{
    for (int i = 0; i < 5; i++) {
        ask_at_once(1);
        coir_sleep_for(2 * COIR_S); /* each request puts the end off */
    }
    CHECK(answered == 5 && accepted == 1);
    ask_at_once(3);
    CHECK(answered == 8 && accepted == 3);
    coir_sleep_for(4 * COIR_S); /* all of them are closed */
    ask_at_once(1);
    CHECK(answered == 9 && accepted == 4);
}

TEST_SIM(connections_are_kept_for_a_time)
{
    fcgi_options.idle_timeout = 3 * COIR_S;
    with_application(count_open, ask_in_turn);
}

static int die_once(struct fcgi_request *request)
{
    return passed == 1 ? -EPIPE : say_hello(request);
}

static void ask_after_a_death(void)
{
    CHECK_EQ(status(ask(GET("/"))), 502);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(status(ask(GET("/"))), 200);
    CHECK_EQ(accepted, 2);
}

TEST_SIM(connections_are_kept_after_one_has_failed)
{
    with_application(die_once, ask_after_a_death);
}

static void ask_without_keeping(void)
{
    for (int i = 0; i < 3; i++)
        ask_at_once(1);
    CHECK(answered == 3 && accepted == 3 && !last.keeps);
}

TEST_SIM(a_connection_for_each_request)
{
    fcgi_options.one_request = true;
    with_application(say_hello, ask_without_keeping);
}

/* An application with few processes, each of which serves one connection until its end: the others
 * wait in its backlog. */
static coir_semaphore processes = COIR_SEMAPHORE_INIT(3);

static int run_process(coir_stream *stream, void *arg)
{
    int rc = coir_semaphore_acquire(&processes, 1);
    if (rc < 0)
        return rc;
    rc = run_application(stream, arg);
    coir_semaphore_release(&processes, 1);
    return rc;
}

static int serve_by_processes(void *arg)
{
    (void)arg;
    return coir_serve_tcp("127.0.0.1:9000", run_process, NULL);
}

static int be_slower(struct fcgi_request *request)
{
    int rc = coir_sleep_for(10 * COIR_MS);
    return rc < 0 ? rc : say_hello(request);
}

TEST_SIM(a_kept_connection_holds_no_process_that_others_wait_for)
{
    application = be_slower;
    fcgi_options.address = "127.0.0.1:9000";
    CHECK_EQ(coir_fastcgi_new_with(&fcgi_options, &fcgi), 0);
    COIR_SCOPE(scope);
    coir_go(scope, serve_by_processes, NULL);
    coir_go(scope, serve_pages, NULL);
    coir_sleep_for(COIR_MS);
    coir_time start = coir_now();
    ask_at_once(300); /* 64 at a time, by 3 processes: 10 ms each */
    CHECK_EQ(answered, 300);
    CHECK(coir_now() - start < 3 * COIR_S / 2);
    int then = accepted;
    for (int i = 0; i < 5; i++)
        ask_at_once(1);
    CHECK(accepted - then <= 1); /* kept again */
    coir_scope_cancel(scope);
    coir_scope_wait(scope);
    coir_fastcgi_free(fcgi);
}

/* The end of the client closes what is kept: an application waits on it no longer. */
static int connections;

static int hold(coir_stream *stream, void *arg)
{
    connections++;
    int rc = run_application(stream, arg);
    connections--;
    return rc;
}

static int serve_holding(void *arg)
{
    (void)arg;
    return coir_serve_tcp("127.0.0.1:9000", hold, NULL);
}

TEST_SIM(a_freed_client_closes_its_connections)
{
    application = say_hello;
    fcgi_options.address = "127.0.0.1:9000";
    CHECK_EQ(coir_fastcgi_new_with(&fcgi_options, &fcgi), 0);
    COIR_SCOPE(scope);
    coir_go(scope, serve_holding, NULL);
    {
        COIR_SCOPE(pages);
        coir_go(pages, serve_pages, NULL);
        coir_sleep_for(COIR_MS);
        ask_at_once(3);
        CHECK(connections >= 1);
        coir_scope_cancel(pages);
        coir_scope_wait(pages);
    }
    CHECK(connections >= 1);
    coir_fastcgi_free(fcgi);
    coir_sleep_for(COIR_MS);
    CHECK_EQ(connections, 0);
    coir_scope_cancel(scope);
    coir_scope_wait(scope);
}

/* ---- applications that cannot be reached ---- */

static void ask_nobody(void)
{
    CHECK_EQ(status(ask(GET("/"))), 502);
    CHECK_EQ(pass_result, 0); /* it was answered */
    for (int i = 0; i < 3; i++)
        ask_at_once(1);
    CHECK_EQ(unreached, 3);
}

TEST_SIM(an_application_that_is_not_there_is_502)
{
    fcgi_options.connections_max = 1;
    CHECK_EQ(coir_fastcgi_new_with(&(coir_fastcgi_options){.size = sizeof(coir_fastcgi_options),
                                                           .address = "127.0.0.1:9001",
                                                           .connections_max = 1},
                                   &fcgi),
             0);
    CHECK_EQ(with_server(serve_pages, ask_nobody), 0);
    coir_fastcgi_free(fcgi);
}

/* ---- options ---- */

TEST_SIM(bad_options_are_refused)
{
    static const char *const no_value[] = {"A", NULL}, *const no_name[] = {"=b", NULL};
    coir_fastcgi_options bad[] = {
        {.address = NULL},
        {.address = "a:1", .connect_timeout = -1},
        {.address = "a:1", .answer_timeout = -1},
        {.address = "a:1", .idle_timeout = -1},
        {.address = "a:1", .connections_max = 65537},
        {.address = "a:1", .variables = no_value},
        {.address = "a:1", .variables = no_name},
    };
    ci_misuse_aborts = false;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_EQ(coir_fastcgi_new_with(&bad[i], &fcgi), -COIR_EUNSIZED);
        bad[i].size = sizeof bad[i];
        CHECK_EQ(coir_fastcgi_new_with(&bad[i], &fcgi), -EINVAL);
    }
    CHECK_EQ(coir_fastcgi_new(NULL, &fcgi), -EINVAL);
    CHECK_EQ(coir_fastcgi_new("a:1", NULL), -EINVAL);
    CHECK_EQ(coir_fastcgi_new_with(NULL, &fcgi), -EINVAL);
    CHECK_EQ(coir_fastcgi_new("a:1", &fcgi), 0);
    coir_fastcgi_free(fcgi);
    coir_fastcgi_free(NULL);
}

TEST(a_client_is_made_on_a_worker)
{
    ci_misuse_aborts = false;
    CHECK_EQ(coir_fastcgi_new("a:1", &fcgi), -ESRCH);
}

/* ---- a request that is interrupted as it gets its turn ---- */

/* The end of a body comes when the deadline passes, at one of these moments. */
static void end_at_the_deadline(void)
{
    for (coir_time before = 0; before <= 400 * COIR_US; before += COIR_US) {
        pass_limit = COIR_MS + before - 200 * COIR_US;
        coir_stream *stream = dial();
        send_text(stream, "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                          "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
        coir_sleep_for(COIR_MS);
        coir_try_write(stream, "0\r\n\r\n", 5);
        receive_all(stream);
        coir_close(stream);
    }
    pass_limit = COIR_NEVER;
    CHECK_EQ(status(ask(GET("/"))), 200);
}

TEST_SIM(a_turn_is_not_lost_by_a_deadline)
{
    fcgi_options.connections_max = 1;
    with_application(say_hello, end_at_the_deadline);
}

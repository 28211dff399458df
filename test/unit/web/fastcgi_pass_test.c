/* Requests that are answered by an application: streamed both ways, right when it lies, is slow or
 * dies, and aborted when the client has left. */
#include "task/current.h"
#include "web/worker.h"

#include "fastcgi.h"
#include "sys/misuse.h"

/* ---- what an application may answer, and what the client gets ---- */

static unsigned char said[300000];
static size_t said_len;
static bool closes; /* behind what it says */

static int say(struct fcgi_request *request)
{
    while (fcgi_read_body(request) > 0)
        continue;
    int rc = coir_write_all(request->stream, said, said_len);
    return closes ? -EPIPE : rc;
}

static void add(int type, const char *content)
{
    said_len += fcgi_record(said + said_len, type, 1, content, strlen(content), said_len % 5);
}

static void add_end(int status)
{
    said_len += fcgi_end(said + said_len, 0, status);
}

#define HEAD "Content-Type: text/plain\r\n\r\n"

static void expect(int want, const char *body)
{
    int got = status(ask(GET("/")));
    if (got != want || (body && !strstr(answer, body)))
        test_fail(__FILE__, __LINE__, "%d (%s), not %d with %s: %s", got,
                  coir_strerror(pass_result), want, body, answer);
    said_len = 0;
}

static void hear_answers(void)
{
    add(6, HEAD "whole");
    add_end(0);
    expect(200, "whole");
    add(6,
        "Status: 404 Nope\r\nX-Own: x\r\nDate: never\r\nConnection: x\r\nX-Accel-Buffering: no\r\n"
        "Content-Length: 4\r\n\r\nhere");
    add(6, "");
    add_end(0);
    expect(404, "X-Own: x\r\n");
    CHECK(!strstr(answer, "never") && !strstr(answer, "Connection: x") && !strstr(answer, "Accel"));
    CHECK(strstr(answer, "HTTP/1.1 404 Not Found\r\n") && strstr(answer, "\r\n\r\nhere"));
    CHECK_EQ(occurrences(answer, "Content-Length"), 1);
    add(6, "Location: /there\n\n");
    add_end(0);
    expect(302, "Location: /there\r\n");
    add(6, "Status: 204\n\n");
    add_end(0);
    expect(204, "\r\n\r\n");
    for (int i = 0; i < 40; i++) { /* a head in pieces, between lines on stderr */
        char piece[2] = {(HEAD "pieces")[i], '\0'};
        add(7, "a line\n");
        if (*piece)
            add(6, piece);
        else
            break;
    }
    add_end(0);
    expect(200, "\r\n1\r\np\r\n1\r\ni\r\n1\r\ne\r\n");
}

TEST_SIM(answers_are_passed_on)
{
    with_application(say, hear_answers);
}

static void hear_lies(void)
{
    expect(502, NULL); /* nothing at all */
    said[said_len++] = 1;
    expect(502, NULL); /* not even a header of a record */
    add(6, HEAD);
    said[0] = 2;
    expect(502, NULL); /* another version */
    add(6, HEAD);
    said[3] = 7;
    expect(502, NULL); /* another request's */
    add(6, HEAD);
    said[1] = 9;
    expect(502, NULL); /* another type */
    add_end(0);
    expect(502, NULL); /* an end without a header */
    add(6, "<html>\nno header\n\n");
    add_end(0);
    expect(502, NULL);
    add(6, "Content-Type: text/plain\r\n");
    add_end(0);
    expect(502, NULL); /* the header does not end */
    own_field = "X-Own";
    add_end(2);
    expect(503, "X-Own: mine\r\n");
    add(6, "X: 1\r\nContent-Type: text/plain\r\nLocation: a\r\nX-Accel-Redirect: /\r\n\r\n");
    add_end(0);
    expect(502, "X-Own: mine\r\n"); /* there are no internal routes */
    CHECK(!strstr(answer, "X: 1"));
    own_field = NULL;
    add(6, "Content-Type: text/plain\r\nX: \x01\r\n\r\n");
    add_end(0);
    expect(502, NULL);
    add_end(1);
    expect(502, NULL); /* it cannot multiplex, which was not asked for */
    add_end(2);
    expect(503, "Retry-After: 1\r\n");
    add_end(3);
    expect(502, NULL); /* no responder */
    memset(said, 'x', said_len = 300000);
    expect(502, NULL);
    for (int i = 0; i < 3; i++) { /* a header that never ends */
        char field[6001] = "X: ";
        memset(field + 3, 'y', 5997);
        add(6, field);
    }
    add_end(0);
    expect(502, NULL);
    add(6, "X: 1\r\n");
    for (int i = 0; i < 2; i++) {
        char field[5000] = "Y: ";
        memset(field + 3, 'y', 4900);
        strcat(field, "\r\n");
        add(6, field);
    }
    add(6, "\r\n");
    add_end(0);
    expect(502, NULL); /* more fields than an answer may have */
    add(6, HEAD "begun");
    expect(200, "begun"); /* and cut off: no end of the chunks */
    CHECK(!strstr(answer, "\r\n0\r\n\r\n") && pass_result == -COIR_EEND);
    add(6, HEAD "begun");
    said_len += fcgi_record(said + said_len, 6, 2, "x", 1, 0);
    expect(200, "begun");
    CHECK(!strstr(answer, "\r\n0\r\n\r\n") && pass_result == -COIR_EPROTOCOL);
    add(6, "Content-Length: 3\r\n\r\nlonger");
    add_end(0);
    expect(200, NULL);
    CHECK_EQ(pass_result, -COIR_EPROTOCOL);
    add(6, HEAD "whole"); /* in the end nothing of all that is left */
    add_end(0);
    expect(200, "whole");
    CHECK(strstr(answer, "\r\n0\r\n\r\n") != NULL);
}

TEST_SIM(lies_are_answered_by_502)
{
    closes = true;
    with_application(say, hear_lies);
}

/* ---- bodies ---- */

enum { BODY = 1000000 };

/* Sends back what comes, as it comes. */
static int send_back(struct fcgi_request *request)
{
    ssize_t n;
    int rc = fcgi_write_text(request, HEAD);
    while (rc == 0 && (n = fcgi_read_body(request)) > 0)
        rc = fcgi_write(request, 6, request->content, (size_t)n, 1 + (size_t)n / 3);
    return rc < 0 ? rc : fcgi_finish(request);
}

static char byte_at(size_t at)
{
    return (char)('a' + (at * 7 + at / 1000) % 26);
}

static int send_body(void *arg)
{
    coir_stream *stream = arg;
    static char piece[7000];
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < BODY; at += sizeof piece) {
        size_t n = BODY - at < sizeof piece ? BODY - at : sizeof piece;
        for (size_t i = 0; i < n; i++)
            piece[i] = byte_at(at + i);
        rc = coir_write_all(stream, piece, n);
        coir_yield();
    }
    return rc;
}

static void echo_a_body(void)
{
    coir_stream *stream = dial();
    char text[200];
    COIR_SCOPE(scope);
    snprintf(text, sizeof text, "POST / HTTP/1.0\r\nContent-Length: %d\r\n\r\n", BODY);
    send_text(stream, text);
    coir_go(scope, send_body, stream);
    receive_all(stream);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_close(stream);
    CHECK_EQ(status(answer), 200);
    const char *body = strstr(answer, "\r\n\r\n") + 4;
    CHECK_EQ(answer_len - (size_t)(body - answer), BODY);
    for (size_t i = 0; i < BODY; i++)
        CHECK(body[i] == byte_at(i));
}

TEST_SIM(a_body_and_its_answer_pass_at_the_same_time)
{
    with_application(send_back, echo_a_body);
}

static void send_chunks(void)
{
    ask("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    CHECK(status(answer) == 200 && strstr(answer, "2\r\nhe\r\n2\r\nll\r\n1\r\no\r\n"));
    ask("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhello!\r\n0\r\n\r\n");
    CHECK_EQ(status(answer), 411);
    CHECK_EQ(passed, 1);
    ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    CHECK(strstr(answer, "HTTP/1.1 100 Continue\r\n") && !strstr(answer, "HTTP/1.1 200"));
}

TEST_SIM(bodies_of_unknown_length_are_bounded)
{
    fcgi_options.chunked_max = 5;
    with_application(send_back, send_chunks);
}

/* An application that answers without reading the body is no error; its connection is not kept. */
static int ignore_body(struct fcgi_request *request)
{
    int rc = fcgi_write_text(request, HEAD "early");
    return rc < 0 ? rc : fcgi_finish(request);
}

static void post_in_vain(void)
{
    coir_stream *stream = dial();
    send_text(stream, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n");
    ssize_t n = coir_read(stream, answer, 1000);
    CHECK(n > 0 && status(answer) == 200);
    coir_close(stream);
    CHECK_EQ(status(ask(GET("/"))), 200);
    CHECK_EQ(accepted, 2);
}

TEST_SIM(an_early_answer_is_passed_on)
{
    with_application(ignore_body, post_in_vain);
}

/* A client that does not read: the application is not read either. */
static size_t written;

static int write_much(struct fcgi_request *request)
{
    static char piece[10000];
    int rc = fcgi_write_text(request, HEAD);
    for (written = 0; rc == 0 && written < 100 * sizeof piece * sizeof piece;
         written += sizeof piece)
        rc = fcgi_write(request, 6, piece, sizeof piece, sizeof piece);
    return rc;
}

static void do_not_read(void)
{
    coir_stream *stream = dial();
    send_text(stream, GET("/"));
    coir_sleep_for(10 * COIR_S);
    size_t then = written;
    coir_sleep_for(10 * COIR_S);
    CHECK(written == then && then > 0);
    CHECK_EQ(applications, 1);
    coir_close(stream); /* the application is told */
    coir_sleep_for(COIR_S);
    CHECK_EQ(applications, 0);
}

TEST_SIM(a_slow_client_makes_its_script_wait)
{
    with_application(write_much, do_not_read);
}

/* An application that takes the body slowly, and says nothing meanwhile. */
static int take_slowly(struct fcgi_request *request)
{
    ssize_t n;
    while ((n = fcgi_read_body(request)) > 0)
        coir_sleep_for(10 * COIR_MS);
    return n < 0 ? (int)n : say_hello(request);
}

static void post_to_a_slow_one(void)
{
    coir_stream *stream = dial();
    char text[200];
    COIR_SCOPE(scope);
    snprintf(text, sizeof text, "POST / HTTP/1.0\r\nContent-Length: %d\r\n\r\n", BODY);
    send_text(stream, text);
    coir_time start = coir_now();
    coir_go(scope, send_body, stream);
    receive_all(stream);
    CHECK(strstr(answer, "hello") && coir_now() - start < 20 * COIR_S);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_close(stream);
}

TEST_SIM(a_slow_application_makes_its_client_wait)
{
    with_application(take_slowly, post_to_a_slow_one);
}

/* ---- times, and clients that leave ---- */

static int hang(struct fcgi_request *request)
{
    ssize_t n;
    while ((n = fcgi_read_body(request)) > 0)
        continue;
    return n < 0 ? (int)n
           : (int)fcgi_next_record(request, &(size_t){0}) == 2
               ? (request->aborted = true, -ECANCELED)
               : 0;
}

static void wait_in_vain(void)
{
    coir_time start = coir_now();
    CHECK_EQ(status(ask(GET("/"))), 504);
    CHECK(coir_now() - start >= 3 * COIR_S && coir_now() - start < 4 * COIR_S);
    coir_sleep_for(COIR_S);
    CHECK(applications == 0 && last.aborted);
}

TEST_SIM(an_application_that_does_not_answer_is_aborted_and_504)
{
    fcgi_options.answer_timeout = 3 * COIR_S;
    with_application(hang, wait_in_vain);
}

static void leave(bool reset)
{
    coir_stream *stream = dial();
    send_text(stream, GET("/"));
    coir_sleep_for(COIR_S);
    CHECK_EQ(applications, 1);
    if (reset)
        coir_close(stream);
    else
        coir_shutdown_write(stream);
    coir_sleep_for(COIR_S);
    CHECK(applications == 0 && last.aborted);
    if (!reset)
        coir_close(stream);
}

static void leave_twice(void)
{
    leave(true);
    leave(false);
    CHECK_EQ(accepted, 2);
}

TEST_SIM(a_client_that_leaves_aborts_its_script)
{
    fcgi_options.ignore_end = false;
    with_application(hang, leave_twice);
}

static void stall(void)
{
    coir_stream *stream = dial();
    send_text(stream, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel");
    receive_all(stream);
    CHECK_EQ(status(answer), 408);
    coir_close(stream);
    coir_sleep_for(COIR_S);
    CHECK_EQ(applications, 0);
}

TEST_SIM(a_body_that_stalls_is_the_clients_fault)
{
    with_application(hang, stall);
}

/* ---- kept connections ---- */

static int seen;

/* Closes the connection behind the first answer, although it was asked to keep it. */
static int answer_once(struct fcgi_request *request)
{
    int rc = say_hello(request);
    return rc < 0 ? rc : seen++ ? 0 : -EPIPE;
}

static void ask_again(void)
{
    for (int i = 0; i < 3; i++) {
        CHECK(strstr(ask(GET("/")), "hello"));
        coir_sleep_for(COIR_MS);
    }
    CHECK(accepted == 2 && passed == 3);
}

static void post_again(void)
{
    static const char post[] = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab";
    for (int i = 0; i < 3; i++) { /* none may be sent twice, and none fails */
        CHECK(strstr(ask(post), "hello"));
        coir_sleep_for(COIR_MS);
    }
    CHECK(accepted == 2 && passed == 3);
}

TEST_SIM(a_connection_that_is_known_to_be_closed_is_not_posted_to)
{
    with_application(answer_once, post_again);
}

TEST_SIM(a_closed_connection_is_not_used_again)
{
    with_application(answer_once, ask_again);
}

/* Takes the second request, and dies without an answer: the connection was kept. */
static int die_of_second(struct fcgi_request *request)
{
    return ++seen == 2 ? -EPIPE : say_hello(request);
}

static void ask_for_get(void)
{
    CHECK(strstr(ask(GET("/")), "hello"));
    CHECK(strstr(ask(GET("/")), "hello")); /* asked twice */
    CHECK(accepted == 2 && passed == 3);
}

TEST_SIM(a_stale_connection_is_retried_once_for_a_get)
{
    with_application(die_of_second, ask_for_get);
}

static void ask_for_post(void)
{
    static const char post[] = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab";
    CHECK(strstr(ask(post), "hello"));
    CHECK_EQ(status(ask(post)), 502); /* the script may have done what it was asked for */
    CHECK(passed == 2);
    CHECK(strstr(ask(post), "hello"));
}

static void ask_for_empty_post(void)
{
    static const char post[] = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    CHECK(strstr(ask(post), "hello"));
    CHECK_EQ(status(ask(post)), 502);
    CHECK_EQ(passed, 2);
}

TEST_SIM(nor_is_one_without_a_body)
{
    with_application(die_of_second, ask_for_empty_post);
}

/* A script that is slow on a kept connection is not begun again: it is aborted. */
static int hang_at_second(struct fcgi_request *request)
{
    return ++seen == 2 ? hang(request) : say_hello(request);
}

static void wait_once(void)
{
    CHECK(strstr(ask(GET("/")), "hello"));
    coir_time start = coir_now();
    CHECK_EQ(status(ask(GET("/"))), 504);
    CHECK(coir_now() - start < 4 * COIR_S);
    coir_sleep_for(COIR_S);
    CHECK(accepted == 1 && passed == 2 && applications == 0 && last.aborted);
}

TEST_SIM(a_slow_script_is_not_begun_twice)
{
    fcgi_options.answer_timeout = 3 * COIR_S;
    with_application(hang_at_second, wait_once);
}

/* Bytes behind the end of an answer would be taken for the begin of the next one. */
static int say_too_much(struct fcgi_request *request)
{
    unsigned char both[64];
    while (fcgi_read_body(request) > 0)
        continue;
    size_t len = fcgi_end(both, 0, 0);
    len += fcgi_record(both + len, 7, 1, "again", 5, 0); /* in one segment */
    int rc = fcgi_write_text(request, HEAD "hello");
    return rc < 0 ? rc : coir_write_all(request->stream, both, len);
}

static void hear_too_much(void)
{
    for (int i = 1; i < 4; i++) {
        CHECK(strstr(ask(GET("/")), "hello"));
        CHECK_EQ(accepted, i);
    }
}

TEST_SIM(a_connection_with_something_left_is_not_kept)
{
    with_application(say_too_much, hear_too_much);
}

/* What was written before a pause reaches a client that was slow meanwhile, however much is on its
 * way. */
enum { STEP = 5000 };
static int steps;

static int write_and_pause(struct fcgi_request *request)
{
    static char piece[STEP];
    int rc = fcgi_write_text(request, HEAD);
    for (int i = 0; rc == 0 && i < steps; i++)
        rc = fcgi_write(request, 6, piece, sizeof piece, sizeof piece);
    return rc < 0 ? rc : coir_sleep_for(30 * COIR_S);
}

static void read_late(void)
{
    for (steps = 1; steps < 60; steps++) {
        coir_stream *stream = dial();
        size_t got = 0;
        ssize_t n = 1;
        send_text(stream, "GET / HTTP/1.0\r\n\r\n");
        coir_sleep_for(COIR_S);
        {
            COIR_DEADLINE(coir_in(5 * COIR_S));
            while ((n = coir_read(stream, answer, sizeof answer)) > 0)
                got += (size_t)n;
        }
        CHECK_EQ(n, -ETIME);
        CHECK(got > (size_t)steps * STEP);
        coir_close(stream);
    }
}

TEST_SIM(what_has_come_is_sent_before_a_wait)
{
    with_application(write_and_pause, read_late);
}

TEST_SIM(a_post_is_not_sent_twice)
{
    with_application(die_of_second, ask_for_post);
}

/* ---- X-Accel-Redirect ---- */

static int deliver(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    return coir_respond_text(res, 200, "%s of %s for %s", coir_request_param(req, "name"),
                             coir_request_path(req), coir_request_query_value(req, "who"));
}

static int redirect(struct fcgi_request *request)
{
    int count;
    char text[300];
    const char *to = fcgi_value_of(request, "QUERY_STRING", &count);
    while (fcgi_read_body(request) > 0)
        continue;
    snprintf(text, sizeof text,
             "Status: 201\r\nContent-Type: x/y\r\nX-Gone: 1\r\nSet-Cookie: a=b\r\n"
             "X-Accel-Redirect: %.100s\r\n\r\nnot this",
             to);
    int rc = fcgi_write_text(request, text);
    return rc < 0 ? rc : fcgi_finish(request);
}

static void follow(void)
{
    ask(GET("/?/files/a%20b?who=me"));
    CHECK(status(answer) == 200 && strstr(answer, "a b of /files/a%20b for me"));
    CHECK(strstr(answer, "Content-type: x/y\r\n") || strstr(answer, "Content-Type: x/y\r\n"));
    CHECK(strstr(answer, "Set-Cookie: a=b\r\n") && !strstr(answer, "X-Gone"));
    CHECK(!strstr(answer, "not this") && !strstr(answer, "Accel"));
    CHECK_EQ(status(ask(GET("/?/none"))), 404);
    CHECK_EQ(status(ask(GET("/?files/a"))), 502);
    CHECK_EQ(status(ask(GET("/?/files/%zz"))), 502);
    CHECK_EQ(status(ask(GET("/?/loop"))), 502); /* a redirect of a redirect */
    CHECK_EQ(accepted, 1);                      /* the connection was fit for all of them */
}

TEST_SIM(an_answer_is_redirected_to_internal_routes)
{
    coir_router *internal;
    CHECK_EQ(coir_router_new(&internal), 0);
    CHECK_EQ(coir_route(internal, "GET", "/files/{name}", deliver, NULL), 0);
    CHECK_EQ(coir_route(internal, "GET", "/loop", pass_on, NULL), 0);
    fcgi_options.internal = internal;
    with_application(redirect, follow);
    coir_router_free(internal);
}

/* A body that the first script has had is not promised to the second one. */
static int redirect_then_tell(struct fcgi_request *request)
{
    int count;
    long body = 0;
    char text[100] = "X-Accel-Redirect: /again\r\n\r\n";
    for (ssize_t n; (n = fcgi_read_body(request)) > 0;)
        body += n;
    if (seen++)
        snprintf(text, sizeof text, HEAD "promised %s, got %ld",
                 fcgi_value_of(request, "CONTENT_LENGTH", &count), body);
    int rc = fcgi_write_text(request, text);
    return rc < 0 ? rc : fcgi_finish(request);
}

static void post_to_both(void)
{
    ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    CHECK(strstr(answer, "promised 0, got 0") && passed == 2);
}

TEST_SIM(a_body_is_promised_only_where_it_is_sent)
{
    coir_router *internal;
    CHECK_EQ(coir_router_new(&internal), 0);
    CHECK_EQ(coir_route(internal, "GET", "/again", pass_on, NULL), 0);
    fcgi_options.internal = internal;
    with_application(redirect_then_tell, post_to_both);
    coir_router_free(internal);
}

static size_t buffers_in_handler, buffers_in_redirect;

static size_t buffers_live(void)
{
    return ci_http_worker_of(ci_worker_current)->buffers.live;
}

static int count_and_deliver(coir_request *req, coir_response *res, void *arg)
{
    buffers_in_redirect = buffers_live();
    return deliver(req, res, arg);
}

static int note_and_redirect(struct fcgi_request *request)
{
    buffers_in_handler = buffers_live();
    return redirect(request);
}

static void follow_once(void)
{
    CHECK_EQ(status(ask(GET("/?/files/a?who=me"))), 200);
    CHECK_EQ(buffers_in_redirect + 3, buffers_in_handler);
}

/* In fixed memory a request has three. */
TEST_SIM(a_redirect_begins_when_the_first_scripts_buffers_are_given_back)
{
    coir_router *internal;
    CHECK_EQ(coir_router_new(&internal), 0);
    CHECK_EQ(coir_route(internal, "GET", "/files/{name}", count_and_deliver, NULL), 0);
    fcgi_options.internal = internal;
    with_application(note_and_redirect, follow_once);
    coir_router_free(internal);
}

static void follow_nowhere(void)
{
    CHECK_EQ(status(ask(GET("/?/files/a"))), 502);
}

TEST_SIM(without_internal_routes_nothing_is_redirected)
{
    with_application(redirect, follow_nowhere);
}

/* ---- misuse ---- */

static int misuse(coir_request *req, coir_response *res, void *arg)
{
    coir_fastcgi_script script = COIR_FASTCGI_SCRIPT;
    (void)arg;
    ci_misuse_aborts = false;
    CHECK_EQ(coir_fastcgi_pass(fcgi, req, res, &script), -EINVAL);
    script.filename = "a";
    CHECK_EQ(coir_fastcgi_pass(fcgi, req, res, &script), -EINVAL);
    script.name = "a";
    CHECK_EQ(coir_fastcgi_pass(NULL, req, res, &script), -EINVAL);
    CHECK_EQ(coir_fastcgi_pass(fcgi, req, res, NULL), -EINVAL);
    script.size = 0;
    CHECK_EQ(coir_fastcgi_pass(fcgi, req, res, &script), -COIR_EUNSIZED);
    script.size = sizeof script;
    CHECK_EQ(coir_respond_text(res, 200, "refused"), 0);
    CHECK_EQ(coir_fastcgi_pass(fcgi, req, res, &script), -EALREADY);
    return 0;
}

static int serve_misuse(void *arg)
{
    (void)arg;
    static const struct route all[] = {{"GET", "/", misuse}, {0}};
    return serve_routes(all, NULL);
}

static void ask_misuse(void)
{
    CHECK(strstr(ask(GET("/")), "refused"));
}

TEST_SIM(calls_that_cannot_be_right_are_refused)
{
    CHECK_EQ(coir_fastcgi_new("127.0.0.1:9000", &fcgi), 0);
    CHECK_EQ(with_server(serve_misuse, ask_misuse), 0);
    coir_fastcgi_free(fcgi);
}

/* On the real driver, where ready fibers run in turn (the simulator may let one have several
 * turns). A worker is shared: whatever handlers and clients do, other fibers of the worker run in
 * between. */
#include <coir/event.h>
#include <coir/web.h>
#include <stdio.h>
#include <unistd.h>

#include "client.h"
#include "plain.h"

static long done, wanted; /* operations of handlers */
static long longest;      /* how many of them between two turns of the watchman, at most */
static coir_event begun = COIR_EVENT_INIT;

static void count(void)
{
    done++;
    coir_event_set(&begun);
}

/* HEAD of something large: nothing is sent. */
static int large(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    static char piece[1000];
    (void)req;
    int rc = coir_response_begin(res, 200, "text/plain", (int64_t)1000 * 20000);
    for (int i = 0; rc == 0 && i < 20000; i++, count())
        rc = coir_response_write(res, piece, sizeof piece);
    return rc;
}

/* Many small pieces, which gather. */
static int small(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    int rc = coir_response_begin(res, 200, "text/plain", -1);
    for (int i = 0; rc == 0 && i < 20000; i++, count())
        rc = coir_response_write(res, "x", 1);
    return rc;
}

/* Goes on whatever the calls say. */
static int ignorant(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char byte;
    for (int i = 0; i < 5000; i++, count())
        coir_response_write(res, "x", 1); /* not begun */
    for (int i = 0; i < 5000; i++, count())
        coir_request_read(req, &byte, 1); /* the body, then its end, again and again */
    coir_response_begin(res, 200, "text/plain", 2);
    for (int i = 0; i < 5000; i++, count())
        coir_response_write(res, "abc", 3); /* more than was announced */
    return coir_response_write(res, "ok", 2);
}

static coir_event over = COIR_EVENT_INIT;
static int watched; /* a plain socket: what was sent is there at once */

/* Its share is used up twice while small pieces gather: they are sent when it waits, and not
 * before. */
static int gather(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char byte;
    (void)req;
    int rc = coir_response_begin(res, 200, "text/plain", 300);
    for (int i = 0; rc == 0 && i < 300; i++)
        rc = coir_response_write(res, "x", 1);
    CHECK(recv(watched, &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    return rc < 0 ? rc : coir_event_wait(&over);
}

static int quick(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    count();
    return coir_respond_text(res, 200, "ok");
}

static const struct route routes[] = {
    {"GET", "/large", large},   {"GET", "/small", small}, {"POST", "/ignorant", ignorant},
    {"GET", "/gather", gather}, {"GET", "/", quick},      {0},
};

static int serve(void *arg)
{
    (void)arg;
    return serve_routes(routes, NULL);
}

/* Runs whenever it may, from the first operation to the last, and sees how far the handlers got
 * meanwhile. */
static int watch(void *arg)
{
    long before = 0;
    (void)arg;
    int rc = coir_event_wait(&begun);
    while (rc == 0 && before < wanted) {
        if (done - before > longest)
            longest = done - before;
        before = done;
        rc = coir_yield();
    }
    return rc;
}

/* A fiber's share (coir_config.budget), and a little for what was counted before and after. */
enum { SHARE_MOST = 130 };

struct text {
    coir_stream *stream;
    const char *bytes;
    size_t len;
};

static int send_it(void *arg)
{
    const struct text *text = arg;
    send_bytes(text->stream, text->bytes, text->len);
    return coir_shutdown_write(text->stream);
}

static void expect_shared(const char *text, size_t len, long operations)
{
    struct text all = {dial(), text, len};
    wanted = operations;
    done = longest = 0;
    coir_event_reset(&begun);
    {
        COIR_SCOPE(scope);
        coir_go(scope, watch, NULL);
        coir_go(scope, send_it, &all);
        receive_all(all.stream);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    coir_close(all.stream);
    CHECK_EQ(status(answer), 200);
    CHECK_EQ(done, operations);
    if (longest > SHARE_MOST)
        test_fail(__FILE__, __LINE__, "%ld operations in one turn: %.20s", longest, text);
}

static void share(void)
{
    static const char head[] = "HEAD /large HTTP/1.1\r\nHost: a\r\n\r\n", get[] = GET("/small"),
                      many[] = GET("/");
    static char ignorant_post[2000], pipelined[sizeof many * 8000];
    size_t len = 0;
    expect_shared(head, sizeof head - 1, 20000);
    expect_shared(get, sizeof get - 1, 20000);
    CHECK(occurrences(answer, "\r\nx\r\n") == 20000);
    len = (size_t)sprintf(
        ignorant_post, "POST /ignorant HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n%01000d",
        0);
    expect_shared(ignorant_post, len, 15000);
    len = 0;
    for (int i = 0; i < 8000; i++)
        len += (size_t)sprintf(pipelined + len, "%s", many);
    expect_shared(pipelined, len, 8000);
}

TEST_REAL(no_handler_and_no_client_keeps_a_worker_for_itself)
{
    CHECK_EQ(with_server(serve, share), 0);
}

static void read_gathered(void)
{
    watched = plain_dial(server_address);
    CHECK_EQ(send(watched, GET("/gather"), sizeof GET("/gather") - 1, 0),
             sizeof GET("/gather") - 1);
    ssize_t n;
    while ((n = recv(watched, answer, 1000, MSG_DONTWAIT)) < 0)
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    CHECK(n > 300 && answer[n - 300] == 'x'); /* all at once, while the handler waits */
    coir_event_set(&over);
    close(watched);
}

TEST_REAL(pieces_gather_until_their_handler_waits)
{
    CHECK_EQ(with_server(serve, read_gathered), 0);
}

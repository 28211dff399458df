/* One request that is answered by a script. A single fiber does everything: while the body is not
 * passed on, it waits for the client and for the application at the same time, and afterwards for
 * the application alone. What it has received it writes to the client before it receives more.
 */
#include <errno.h>
#include <string.h>

#include "base/ascii.h"
#include "base/check.h"
#include "coir/deadline.h"
#include "coir/fiber.h"
#include "coir/select.h"
#include "proto/cgi.h"
#include "proto/http1_status.h"
#include "task/warn.h"
#include "web/body.h"
#include "web/fastcgi_variables.h"
#include "web/redirect.h"

enum { LINE_MAX_ = 500, DISCARD_MAX = 64 * 1024 };

struct pass {
    coir_fastcgi *client;
    coir_request *req;
    coir_response *res;
    const coir_fastcgi_script *script;
    struct ci_exchange *exchange;
    struct ci_pool *buffers;

    struct ci_fcgi_connection connection;
    struct ci_fcgi_output out;
    const char *whole; /* a body that came in chunks, of whole_len bytes; or NULL */
    size_t whole_len;
    bool body_taken; /* some of the body has left the request */
    bool all_sent;   /* the end of STDIN was sent, or the application takes no more */
    bool cut;        /* it takes no more: a record may have been sent in part */

    unsigned char *in; /* CI_HTTP_BUFFER bytes */
    size_t in_at, in_end;
    struct ci_fcgi_answer answer;
    bool heard;  /* something has come of the answer */
    bool closed; /* the application has closed the connection */

    char *head_bytes; /* CI_HTTP_BUFFER bytes */
    size_t head_have, head_len;
    const char *redirect; /* where X-Accel-Redirect leads, in the request's arena; or NULL */
    bool keeps;           /* the connection is fit for another request */

    size_t own_len; /* of the handler's fields, before the script's */
    bool own_type;  /* with a Content-Type */

    int status;       /* what the client is told if this fails: 0, the handler's error */
    const char *what; /* and what the log says */

    char line[LINE_MAX_]; /* of stderr, as far as it has come */
    size_t line_len;
};

/* The application's fault: what the client is told, and what the log. Returns the error. */
static int blame(struct pass *pass, int error, int status, const char *what)
{
    if (!pass->status) {
        pass->status = status;
        pass->what = what;
    }
    return error;
}

/* An error of a call on the connection. An interrupted task is nobody's fault. */
static int blame_call(struct pass *pass, int rc)
{
    if (coir_task_interrupted())
        return rc;
    if (rc == -ETIME)
        return blame(pass, rc, 504, "it does not answer in time");
    pass->closed = rc == -COIR_EEND || rc == -EPIPE || rc == -ECONNRESET;
    return blame(pass, rc, 502, coir_strerror(rc));
}

/* ---- stderr ---- */

static void log_line(struct pass *pass)
{
    if (pass->line_len)
        ci_warn(ci_worker_current, "FastCGI: %s: %.*s", pass->script->filename, (int)pass->line_len,
                pass->line);
    pass->line_len = 0;
}

static void take_stderr(struct pass *pass, const unsigned char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] == '\n' || pass->line_len == sizeof pass->line)
            log_line(pass);
        if (bytes[i] >= ' ')
            pass->line[pass->line_len++] = bytes[i] == 0x7f ? '?' : (char)bytes[i];
    }
}

/* ---- the request: its head, and its body as it comes ---- */

/* CGI has no bodies of unknown length: one in chunks is read whole. */
static int read_chunks(struct pass *pass)
{
    if (!pass->exchange->head.chunked)
        return 0;
    ssize_t n = coir_request_body(pass->req, pass->client->options.chunked_max, &pass->whole);
    if (n == -COIR_ETOOLARGE && pass->req->body_read <= pass->exchange->server->options->body_max)
        pass->req->body_error = 411;
    pass->whole_len = n > 0 ? (size_t)n : 0;
    return n < 0 ? (int)n : 0;
}

/* What STDIN will have: not what a handler, or the script that redirected, has read before. */
static int64_t body_len(const struct pass *pass)
{
    const struct ci_http1_head *head = &pass->exchange->head;
    if (head->chunked)
        return (int64_t)pass->whole_len;
    return head->content_length < 0 ? -1 : (int64_t)pass->exchange->body.remaining;
}

static int send_head(struct pass *pass)
{
    ci_fcgi_output_begin(&pass->out, !pass->client->options.one_request);
    int rc = ci_fcgi_put_variables(&pass->out, pass->exchange, &pass->client->options, pass->script,
                                   body_len(pass));
    return rc < 0 ? rc : ci_fcgi_output_end_params(&pass->out);
}

/* Fills the empty buffer with a record of the body, as much as there is. -EAGAIN: there is none. */
static int fill(struct pass *pass)
{
    size_t room;
    unsigned char *at = ci_fcgi_output_room(&pass->out, &room);
    ssize_t n;
    if (pass->whole) {
        n = (ssize_t)(pass->whole_len < room ? pass->whole_len : room);
        memcpy(at, pass->whole, (size_t)n);
        pass->whole += n;
        pass->whole_len -= (size_t)n;
    } else if ((n = ci_body_try_read(pass->req, at, room)) < 0) {
        return (int)n;
    }
    pass->body_taken |= n > 0;
    pass->all_sent = n == 0;
    ci_fcgi_output_claim(&pass->out, (size_t)n);
    return 0;
}

/* What the pass waits for to send more. */
enum want { NOTHING, ROOM, BODY };

/* Sends what there is to send. An application that takes no more (it may have answered already) is
 * no error here. */
static int send_some(struct pass *pass, enum want *ret_want)
{
    *ret_want = NOTHING;
    for (;;) {
        int rc = ci_fcgi_output_try_flush(&pass->out);
        if (rc == -EAGAIN) {
            *ret_want = ROOM;
            return 0;
        }
        if (rc < 0 && coir_task_interrupted())
            return rc;
        if (rc < 0 && rc != -EPIPE && rc != -ECONNRESET)
            return blame_call(pass, rc);
        if (rc < 0) {
            pass->out.at = pass->out.len = 0;
            pass->all_sent = pass->cut = true;
            pass->keeps = false;
        }
        if (pass->all_sent) {
            coir_request_set_end_cancels(pass->req, !pass->client->options.ignore_end);
            return 0;
        }
        if ((rc = fill(pass)) == -EAGAIN) {
            *ret_want = BODY;
            return 0;
        }
        if (rc < 0)
            return rc;
    }
}

/* ---- waiting, for both sides ---- */

static int wait_for_client(struct pass *pass)
{
    coir_time start = coir_now();
    coir_case waits[] = {coir_case_stream(pass->connection.stream, COIR_READ),
                         coir_case_stream(pass->exchange->in.stream, COIR_READ),
                         coir_case_after(ci_body_time_left(pass->req))};
    int rc = coir_select(waits, 3);
    ci_body_waited(pass->req, coir_now() - start, 0);
    return rc < 0 ? rc : 0;
}

static int wait_for_application(struct pass *pass, enum want want)
{
    COIR_DEADLINE(coir_in(pass->client->options.answer_timeout));
    int rc = coir_stream_wait(pass->connection.stream, COIR_READ | (want == ROOM ? COIR_WRITE : 0));
    return rc < 0 ? rc : 0;
}

/* Receives more of the answer, and meanwhile sends. What has gathered for the client is sent before
 * each wait: it may be what the client waits for. */
static int receive(struct pass *pass)
{
    enum want want = NOTHING;
    pass->in_at = pass->in_end = 0;
    for (;;) {
        int rc = pass->all_sent && ci_fcgi_output_empty(&pass->out) ? 0 : send_some(pass, &want);
        if (rc < 0 || (rc = coir_task_interrupted()) < 0) /* there may be no wait: a flood */
            return rc;
        ssize_t n = coir_try_read(pass->connection.stream, pass->in, CI_HTTP_BUFFER);
        ci_spend(ci_worker_current);
        if (n == 0)
            n = -COIR_EEND;
        if (n != -EAGAIN) {
            pass->in_end = n < 0 ? 0 : (size_t)n;
            pass->heard |= n > 0;
            ci_fcgi_heard(pass->client, &pass->connection);
            return n < 0 ? blame_call(pass, (int)n) : 0;
        }
        rc = ci_http_output_flush(&pass->exchange->out);
        if (rc == 0 && want == BODY)
            rc = wait_for_client(pass);
        else if (rc == 0 && (rc = wait_for_application(pass, want)) < 0)
            rc = blame_call(pass, rc);
        if (rc < 0)
            return rc;
        want = NOTHING;
    }
}

/* ---- the answer ---- */

/* The next bytes of STDOUT: how many, 0 at the end of the answer. They stay until `take`. */
static ssize_t next_output(struct pass *pass, const char **ret_bytes)
{
    for (;;) {
        size_t data = 0;
        int64_t n = ci_fcgi_answer_frame(&pass->answer, pass->in + pass->in_at,
                                         pass->in_end - pass->in_at, &data);
        if (n < 0)
            return blame(pass, -COIR_EPROTOCOL, 502, "what it sends is not FastCGI");
        pass->in_at += (size_t)n;
        if (pass->answer.state == CI_FCGI_DONE)
            return 0;
        *ret_bytes = (const char *)pass->in + pass->in_at;
        if (data && pass->answer.type == CI_FCGI_STDOUT)
            return (ssize_t)data;
        int rc = 0;
        if (data) {
            take_stderr(pass, pass->in + pass->in_at, data);
            pass->in_at += data;
            ci_fcgi_answer_took(&pass->answer, data);
        } else if ((rc = receive(pass)) < 0) {
            return rc;
        }
    }
}

static void take(struct pass *pass, size_t len)
{
    pass->in_at += len;
    ci_fcgi_answer_took(&pass->answer, len);
}

/* The application has ended the request. Nothing may be left of it on the connection. */
static int end(struct pass *pass)
{
    pass->keeps = pass->all_sent && ci_fcgi_output_empty(&pass->out) &&
                  pass->in_at == pass->in_end && pass->keeps;
    switch (pass->answer.status) {
    case CI_FCGI_COMPLETE: return 0;
    case CI_FCGI_OVERLOADED: return blame(pass, -COIR_EFULL, 503, "it is overloaded");
    default: return blame(pass, -COIR_EPROTOCOL, 502, "it does not serve such requests");
    }
}

static bool is(const char *name, const char *what)
{
    return ci_ascii_same(name, what);
}

/* Fields that are the server's, or were for it alone. */
static bool is_for_server(const char *name)
{
    static const char *const names[] = {
        "connection", "transfer-encoding", "date",    "keep-alive",
        "te",         "trailer",           "upgrade", "proxy-connection"};
    for (size_t i = 0; i < ci_countof(names); i++)
        if (is(name, names[i]))
            return true;
    return ci_ascii_same_bytes(name, "x-accel-", 8);
}

/* Of an answer that is replaced by another one. */
static bool survives_redirect(const char *name)
{
    return is(name, "content-type") || is(name, "content-disposition") || is(name, "set-cookie") ||
           is(name, "cache-control") || is(name, "expires");
}

/* Passes the fields on: their names and values are terminated where they lie. */
static int add_fields(struct pass *pass, const struct ci_cgi_head *head)
{
    char *bytes = pass->head_bytes;
    struct ci_arena *arena = &pass->exchange->arena;
    for (uint32_t i = 0; i < head->field_count; i++) {
        struct ci_span name = head->fields[i].name, value = head->fields[i].value;
        bytes[name.at + name.len] = bytes[value.at + value.len] = '\0';
        if (is(bytes + name.at, "x-accel-redirect") &&
            !(pass->redirect = ci_arena_copy(arena, bytes + value.at, value.len)))
            return -ENOMEM;
    }
    for (uint32_t i = 0; i < head->field_count; i++) {
        const char *name = bytes + head->fields[i].name.at,
                   *value = bytes + head->fields[i].value.at;
        if (is_for_server(name) || (pass->redirect && !survives_redirect(name)))
            continue;
        int rc = coir_response_add_header(pass->res, name, value);
        if (rc == -COIR_ETOOLARGE)
            return blame(pass, rc, 502, "its header is too long");
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Gathers the head; what has come behind it stays in head_bytes. */
static int read_head(struct pass *pass, struct ci_cgi_head *head)
{
    int rc = 0;
    ci_cgi_head_init(head);
    while (rc == 0) {
        const char *bytes;
        ssize_t n = next_output(pass, &bytes);
        if (n == 0)
            n = end(pass);
        if (n <= 0)
            return n < 0 ? (int)n : blame(pass, -COIR_EPROTOCOL, 502, "its answer has no header");
        size_t room = CI_HTTP_BUFFER - pass->head_have;
        if (room == 0)
            return blame(pass, -COIR_EPROTOCOL, 502, "its header is too long");
        size_t more = (size_t)n < room ? (size_t)n : room;
        memcpy(pass->head_bytes + pass->head_have, bytes, more);
        take(pass, more);
        pass->head_have += more;
        rc = ci_cgi_parse(head, pass->head_bytes, pass->head_have);
    }
    if (rc < 0)
        return blame(pass, -COIR_EPROTOCOL, 502, "its answer has no header");
    pass->head_len = (size_t)rc;
    return 0;
}

/* Writes a piece of the body, or discards it. */
static int write_piece(struct pass *pass, const char *bytes, size_t len, size_t *discarded)
{
    if (pass->redirect) {
        *discarded += len;
        return 0;
    }
    int rc = len ? coir_response_write(pass->res, bytes, len) : 0;
    return rc == -EINVAL ? blame(pass, -COIR_EPROTOCOL, 502, "its answer is longer than it said")
                         : rc;
}

static int pass_answer(struct pass *pass)
{
    struct ci_cgi_head head;
    size_t discarded = 0;
    const char *bytes;
    int rc = read_head(pass, &head);
    rc = rc < 0 ? rc : add_fields(pass, &head);
    if (rc == 0 && !pass->redirect)
        rc = coir_response_begin(pass->res, head.status, NULL, head.content_length);
    if (rc == 0)
        rc = write_piece(pass, pass->head_bytes + pass->head_len, pass->head_have - pass->head_len,
                         &discarded);
    while (rc == 0) {
        ssize_t n = next_output(pass, &bytes);
        if (n == 0)
            return end(pass);
        if (n < 0)
            return (int)n;
        if ((rc = write_piece(pass, bytes, (size_t)n, &discarded)) == 0)
            take(pass, (size_t)n);
        if (discarded > DISCARD_MAX) {
            pass->keeps = false;
            return 0;
        }
    }
    return rc;
}

/* ---- the whole ---- */

/* Whether a request may be sent again: its kept connection is closed, the application has not seen
 * it, or it does no harm twice (RFC 9110, 9.2.2), and all of it is still here. A script that is
 * slow is not begun again. */
static bool may_repeat(const struct pass *pass)
{
    static const char *const safe[] = {"GET", "HEAD", "OPTIONS", "TRACE"};
    struct ci_span method = pass->exchange->head.method;
    const char *bytes = ci_http_input_request(&pass->exchange->in) + method.at;
    if (!pass->connection.reused || !pass->closed || pass->heard || pass->body_taken ||
        coir_task_interrupted())
        return false;
    if (!pass->out.sent)
        return true;
    for (size_t i = 0; i < ci_countof(safe); i++)
        if (strlen(safe[i]) == method.len && memcmp(bytes, safe[i], method.len) == 0)
            return true;
    return false;
}

static int try_once(struct pass *pass)
{
    void *bytes = pass->out.bytes;
    ci_fcgi_output_init(&pass->out, pass->connection.stream, pass->client->options.answer_timeout,
                        bytes);
    pass->answer = (struct ci_fcgi_answer){0};
    pass->in_at = pass->in_end = 0;
    pass->all_sent = pass->cut = pass->heard = pass->closed = false;
    pass->keeps = true;
    pass->status = 0;
    int rc = send_head(pass);
    return rc < 0 ? blame_call(pass, rc) : pass_answer(pass);
}

/* An abort is a record of its own: it can follow only whole ones. */
static void abort_request(struct pass *pass)
{
    unsigned char record[CI_FCGI_HEADER];
    ci_fcgi_put_header(record, CI_FCGI_ABORT_REQUEST, 0);
    if (!pass->cut && pass->out.sent && ci_fcgi_output_empty(&pass->out) &&
        pass->answer.state != CI_FCGI_DONE)
        coir_try_write(pass->connection.stream, record, sizeof record);
}

static int connect_failed(struct pass *pass, int rc)
{
    if (coir_task_interrupted())
        return rc;
    if (rc == -EAGAIN)
        return blame(pass, rc, 503, "all its connections are in use, for too long");
    return rc == -ETIME ? blame(pass, rc, 504, "it cannot be connected to in time")
                        : blame(pass, rc, 502, coir_strerror(rc));
}

static int talk(struct pass *pass)
{
    int rc = ci_fcgi_connect(pass->client, &pass->connection);
    if (rc < 0)
        return connect_failed(pass, rc);
    rc = try_once(pass);
    if (rc < 0 && may_repeat(pass)) {
        pass->status = 0;
        if ((rc = ci_fcgi_reconnect(pass->client, &pass->connection)) < 0)
            return connect_failed(pass, rc);
        rc = try_once(pass);
    }
    if (rc < 0)
        abort_request(pass);
    ci_fcgi_disconnect(pass->client, &pass->connection, rc == 0 && pass->keeps);
    log_line(pass);
    return rc;
}

/* What the client gets for a failure of the application, and the log. */
static int answer_failure(struct pass *pass, int rc)
{
    if (!pass->status)
        return rc; /* of the client, or of this server */
    ci_warn(ci_worker_current, "FastCGI: %s, asked for %s: %s (%s)", pass->client->options.address,
            pass->script->filename, pass->what,
            pass->res->begun ? "the answer is cut off" : "the client gets an error");
    if (pass->res->begun)
        return rc;
    pass->res->extra_len = pass->own_len; /* the others are of an answer that is not given */
    pass->res->has_type = pass->own_type;
    if (pass->status == 503 && (rc = coir_response_add_header(pass->res, "Retry-After", "1")) < 0)
        return rc;
    return coir_respond_text(pass->res, pass->status, "%d %s\n", pass->status,
                             ci_http1_reason(pass->status));
}

/* It may be to another script, which takes buffers of its own. */
static int follow_redirect(struct pass *pass)
{
    if (!pass->client->options.internal)
        return answer_failure(pass, blame(pass, -COIR_EPROTOCOL, 502,
                                          "it sends X-Accel-Redirect, and there are no internal "
                                          "routes (coir_fastcgi_options.internal)"));
    int rc = ci_redirect(pass->req, pass->res, pass->client->options.internal, pass->redirect);
    if (rc == -COIR_EPROTOCOL && !pass->res->begun)
        return answer_failure(pass, blame(pass, rc, 502, "its X-Accel-Redirect is not valid"));
    return rc;
}

static int talk_with_buffers(struct pass *pass)
{
    int rc = -ENOMEM;
    pass->out.bytes = ci_pool_take(pass->buffers);
    pass->in = ci_pool_take(pass->buffers);
    pass->head_bytes = ci_pool_take(pass->buffers);
    if (pass->out.bytes && pass->in && pass->head_bytes && (rc = read_chunks(pass)) == 0)
        rc = talk(pass);
    if (pass->out.bytes)
        ci_pool_give(pass->buffers, pass->out.bytes);
    if (pass->in)
        ci_pool_give(pass->buffers, pass->in);
    if (pass->head_bytes)
        ci_pool_give(pass->buffers, pass->head_bytes);
    return rc;
}

static int run(struct pass *pass)
{
    int rc = talk_with_buffers(pass);
    if (rc < 0)
        return answer_failure(pass, rc);
    return pass->redirect ? follow_redirect(pass) : 0;
}

int coir_fastcgi_pass(coir_fastcgi *client, coir_request *req, coir_response *res,
                      const coir_fastcgi_script *given)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    if (!client || !req || !res || !given)
        return CI_MISUSE(-EINVAL, "client, req, res or script is NULL");
    if ((rc = CI_EXCHANGE_REFUSED(req)) < 0)
        return rc;
    coir_fastcgi_script script = COIR_FASTCGI_SCRIPT;
    if ((rc = ci_options_read(&script, sizeof script, given)) < 0)
        return rc;
    if (!script.filename || !script.name)
        return CI_MISUSE(-EINVAL, "the script has no filename or no name");
    if (res->begun)
        return -EALREADY;
    struct pass pass = {.client = client,
                        .req = req,
                        .res = res,
                        .script = &script,
                        .exchange = req->exchange,
                        .buffers = &req->exchange->server->http->buffers};
    if (!req->exchange->target.redirected) { /* otherwise they are another script's */
        pass.own_len = res->extra_len;
        pass.own_type = res->has_type;
    }
    return run(&pass);
}

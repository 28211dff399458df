/* The head of the next request: parsed as it comes, within its limits; a slow client is waited for
 * without a stack. */
#include "web/head.h"

#include <errno.h>

#include "coir/fiber.h"
#include "web/partial.h"
#include "web/response.h"

/* Reads more of a head. If nothing has come, what there is of the head is put aside, and the client
 * is waited for without a stack: *ret_aside. Without memory for that, the fiber waits. */
static ssize_t read_head(struct ci_exchange *exchange, coir_time deadline, bool *ret_aside)
{
    ssize_t n = ci_http_input_try_read(&exchange->in);
    if (n != -EAGAIN)
        return n;
    if (coir_now() >= deadline)
        return -ETIME;
    *ret_aside = ci_http_partial_save(exchange, deadline);
    return *ret_aside ? n : ci_http_input_read(&exchange->in, deadline);
}

/* Whether all that has come is the beginning of an empty line, which is no request (RFC 9112,
 * 2.2). */
static bool is_lone_cr(const struct ci_exchange *exchange)
{
    size_t len = exchange->in.end - exchange->in.start;
    return !exchange->head.has_request_line && len == exchange->head.line + 1 &&
           exchange->in.bytes[exchange->in.end - 1] == '\r';
}

/* When the client must have sent the rest of the head. A lone CR is not the begin of a request: it
 * has what is left of the idle timeout. */
static coir_time head_deadline(const struct ci_exchange *exchange, bool lone_cr)
{
    const struct ci_http_connection *connection = exchange->connection;
    const coir_serve_http_options *options = exchange->server->options;
    if (!lone_cr)
        return coir_in(options->header_timeout);
    if (connection->served)
        return coir_in(options->idle_timeout);
    return ci_timer_started(&connection->timer) ? ci_http_idle_end(connection) : coir_now();
}

static enum ci_http_next wait_for_head(struct ci_exchange *exchange, int rc, coir_time deadline,
                                       bool lone_cr)
{
    bool aside = false;
    for (;;) {
        if (rc > 0)
            return CI_HTTP_NEXT_HEAD;
        if (rc < 0) {
            exchange->unread = true;
            ci_respond_error(exchange, -rc);
            return CI_HTTP_NEXT_CLOSED;
        }
        size_t len = exchange->in.end - exchange->in.start;
        bool begun = exchange->head.has_request_line || len > exchange->head.line,
             was_lone_cr = lone_cr;
        if (!begun)
            return CI_HTTP_NEXT_NONE; /* nothing, or empty lines */
        lone_cr = is_lone_cr(exchange);
        if (deadline == COIR_NEVER || lone_cr != was_lone_cr)
            deadline = head_deadline(exchange, lone_cr);
        if (exchange->in.start)
            ci_http_input_move(&exchange->in, 0, &exchange->in.start);
        ssize_t n = read_head(exchange, deadline, &aside);
        if (aside)
            return CI_HTTP_NEXT_NONE;
        exchange->unread = true;
        if (n == -ETIME && !coir_task_interrupted() && !lone_cr)
            ci_respond_error(exchange, 408);
        if (n <= 0)
            return CI_HTTP_NEXT_CLOSED;
        rc = ci_http_parse_head(exchange);
    }
}

enum ci_http_next ci_http_finish_head(struct ci_exchange *exchange, int rc)
{
    return wait_for_head(exchange, rc, COIR_NEVER, false);
}

enum ci_http_next ci_http_continue_head(struct ci_exchange *exchange)
{
    coir_time deadline = ci_http_partial_restore(exchange);
    bool lone_cr = is_lone_cr(exchange);
    return wait_for_head(exchange, ci_http_parse_head(exchange), deadline, lone_cr);
}

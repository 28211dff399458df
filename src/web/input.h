/* The bytes that a client has sent: a buffer that holds the head of the request in progress and
 * what was read behind it.
 *
 *    | answered | head | body bytes that were read | unread | free |
 *               start                              body_at  end     CI_HTTP_BUFFER
 *
 * 1. start <= body_at <= end <= CI_HTTP_BUFFER from the moment when a head is complete to the end
 * of its request. Before, body_at has no meaning.
 */
#ifndef CI_WEB_INPUT_H
#define CI_WEB_INPUT_H

#include "base/check.h"
#include "web/output.h"

struct ci_http_input {
    coir_stream *stream;
    struct ci_http_output *output; /* flushed before a wait: the client may wait for it */
    char *bytes;                   /* CI_HTTP_BUFFER bytes */
    size_t start;                  /* where the request begins */
    size_t body_at;                /* where unread body bytes, or the next request, begin */
    size_t end;                    /* of what was read */
};

static inline void ci_http_input_init(struct ci_http_input *input, coir_stream *stream,
                                      struct ci_http_output *output, char *bytes)
{
    *input = (struct ci_http_input){.stream = stream, .output = output, .bytes = bytes};
}

static inline const char *ci_http_input_request(const struct ci_http_input *input)
{
    return input->bytes + input->start;
}

/* The next bytes of the body, or the head, have been used. */
static inline void ci_http_input_take(struct ci_http_input *input, size_t len)
{
    input->body_at += len;
    ci_check(input->start <= input->body_at && input->body_at <= input->end &&
                 input->end <= CI_HTTP_BUFFER,
             "input.h 1");
}

/* Moves the bytes from `*at` on to `to`, and `*at` with them: room at the end. */
void ci_http_input_move(struct ci_http_input *input, size_t to, size_t *at);

/* Reads what has arrived: the count, 0 at the end, -EAGAIN if nothing has. The buffer must have
 * room. Never suspends. */
ssize_t ci_http_input_try_read(struct ci_http_input *input);

/* Reads more; flushes the output and waits until `deadline`. The count, 0 at the end, -ETIME. */
ssize_t ci_http_input_read(struct ci_http_input *input, coir_time deadline);

/* Reads what has arrived of a body, behind a head that ends at `head_end`: as
 * ci_http_input_try_read. */
ssize_t ci_http_input_try_read_body(struct ci_http_input *input, size_t head_end);

/* Reads more of a body, behind a head that ends at `head_end`: as ci_http_input_read, with a
 * timeout. Adds the time spent waiting to *waited. */
ssize_t ci_http_input_read_body(struct ci_http_input *input, size_t head_end, coir_time timeout,
                                coir_time *waited);

#endif

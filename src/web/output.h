/* Answers on their way to the client: they gather in a buffer while more requests are waiting in
 * the input, and are sent in one write, or before the fiber waits for anything.
 *
 * 1. At most CI_HTTP_BUFFER bytes have gathered.
 *
 * After an error of the stream nothing more is sent: all calls return the error.
 */
#ifndef CI_WEB_OUTPUT_H
#define CI_WEB_OUTPUT_H

#include "base/bytes.h"
#include "base/check.h"
#include "io/pace.h"
#include "web/limits.h"

struct ci_http_output {
    coir_stream *stream;
    const coir_serve_http_options *options;
    char *bytes; /* CI_HTTP_BUFFER bytes */
    size_t len;  /* gathered */
    size_t sent; /* bytes ever */
    int error;   /* of the stream, or why the task was interrupted while it sent; 0: none */
    struct ci_pace taking;
};

static inline void ci_http_output_init(struct ci_http_output *output, coir_stream *stream,
                                       const coir_serve_http_options *options, char *bytes)
{
    *output = (struct ci_http_output){.stream = stream, .options = options, .bytes = bytes};
}

/* Sends everything that has gathered, as fast as the client takes it: within write_timeout and
 * rate_min, else -ETIME. Suspends. */
int ci_http_output_flush(struct ci_http_output *output);

/* As ci_http_output_flush, before a wait for the client: if the task is interrupted, what was not
 * sent stays gathered, and the stream has no error. It may hold the end of an earlier answer, and a
 * handler may go on when its own deadline has passed. Suspends. */
int ci_http_output_flush_to_wait(struct ci_http_output *output);

/* Sends `len` bytes, behind what has gathered; small pieces gather. Suspends. */
int ci_http_output_send(struct ci_http_output *output, const void *data, size_t len);

/* Sends as much of what has gathered as the system takes now. Never suspends. */
void ci_http_output_try_flush(struct ci_http_output *output);

/* Room for `len` bytes, at most CI_HTTP_BUFFER, at the end of what has gathered; NULL when the
 * stream has failed. Suspends. What is written there is claimed afterwards. */
static inline char *ci_http_output_room(struct ci_http_output *output, size_t len)
{
    if (ci_unlikely(len > CI_HTTP_BUFFER - output->len) && ci_http_output_flush(output) < 0)
        return NULL;
    return output->bytes + output->len;
}

static inline void ci_http_output_claim(struct ci_http_output *output, size_t len)
{
    output->len += len;
    ci_check(output->len <= CI_HTTP_BUFFER, "output.h 1");
}

/* ci_http_output_send, without a call where the piece fits. */
static inline int ci_http_output_add(struct ci_http_output *output, const void *data, size_t len)
{
    if (ci_unlikely(len > CI_HTTP_BUFFER - output->len))
        return ci_http_output_send(output, data, len);
    ci_bytes_put(output->bytes + output->len, data, len);
    ci_http_output_claim(output, len);
    return output->error;
}

#endif

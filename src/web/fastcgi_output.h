/* What is sent to a FastCGI application: a buffer in which records are made, and its way out.
 *
 * 1. at <= len <= CI_HTTP_BUFFER. While a record of PARAMS is open, it begins at `record`.
 */
#ifndef CI_WEB_FASTCGI_OUTPUT_H
#define CI_WEB_FASTCGI_OUTPUT_H

#include "proto/fastcgi.h"
#include "web/fastcgi.h"
#include "web/limits.h"

struct ci_fcgi_output {
    coir_stream *stream;
    coir_time timeout;    /* without the application taking a byte */
    unsigned char *bytes; /* CI_HTTP_BUFFER of them */
    size_t at, len;       /* what is not sent yet */
    size_t record;        /* where the open record of PARAMS begins */
    bool sent;            /* some bytes were sent */
};

static inline void ci_fcgi_output_init(struct ci_fcgi_output *output, coir_stream *stream,
                                       coir_time timeout, void *bytes)
{
    *output = (struct ci_fcgi_output){.stream = stream, .timeout = timeout, .bytes = bytes};
}

/* Begins the request, and a record of PARAMS. The buffer is empty. */
void ci_fcgi_output_begin(struct ci_fcgi_output *output, bool keep);

/* Adds content to PARAMS. Suspends when the buffer is full. */
int ci_fcgi_output_put(struct ci_fcgi_output *output, const void *data, size_t len);

/* The name and the value of a variable, whose lengths are known. */
int ci_fcgi_output_variable(struct ci_fcgi_output *output, const char *name, const char *value,
                            size_t value_len);

/* Ends PARAMS. */
int ci_fcgi_output_end_params(struct ci_fcgi_output *output);

/* Room for the content of a record of STDIN, in a buffer that is empty; what was put there is
 * claimed afterwards, 0 bytes are the end of STDIN. */
static inline unsigned char *ci_fcgi_output_room(struct ci_fcgi_output *output, size_t *ret_len)
{
    *ret_len = CI_HTTP_BUFFER - CI_FCGI_HEADER;
    return output->bytes + CI_FCGI_HEADER;
}
void ci_fcgi_output_claim(struct ci_fcgi_output *output, size_t len);

static inline bool ci_fcgi_output_empty(const struct ci_fcgi_output *output)
{
    return output->at == output->len;
}

/* Sends as much as the application takes now: 0 when everything is sent, -EAGAIN, or an error.
 * Never suspends, but for the budget. */
int ci_fcgi_output_try_flush(struct ci_fcgi_output *output);

#endif

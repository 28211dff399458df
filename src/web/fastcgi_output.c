/* See fastcgi_output.h. */
#include "web/fastcgi_output.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "coir/deadline.h"
#include "coir/fiber.h"
#include "task/current.h"
#include "task/runtime.h"
#include "task/waiter.h"

int ci_fcgi_output_try_flush(struct ci_fcgi_output *output)
{
    while (!ci_fcgi_output_empty(output)) {
        ssize_t n = coir_task_interrupted();
        if (n == 0)
            n = coir_try_write(output->stream, output->bytes + output->at,
                               output->len - output->at);
        ci_spend(ci_worker_current); /* a fast application does not keep other tasks waiting */
        if (n < 0)
            return (int)n;
        output->at += (size_t)n;
        output->sent = true;
    }
    output->at = output->len = 0;
    return 0;
}

static int flush(struct ci_fcgi_output *output)
{
    int rc;
    while ((rc = ci_fcgi_output_try_flush(output)) == -EAGAIN) {
        COIR_DEADLINE(coir_in(output->timeout));
        if ((rc = coir_stream_wait(output->stream, COIR_WRITE)) < 0)
            break;
    }
    return rc;
}

/* ---- PARAMS ---- */

static void open_params(struct ci_fcgi_output *output)
{
    output->record = output->len;
    output->len += CI_FCGI_HEADER;
}

/* Writes the header of the record that was open. */
static void close_params(struct ci_fcgi_output *output)
{
    ci_check(output->record + CI_FCGI_HEADER <= output->len && output->len <= CI_HTTP_BUFFER,
             "fastcgi_output.h 1");
    ci_fcgi_put_header(output->bytes + output->record, CI_FCGI_PARAMS,
                       output->len - output->record - CI_FCGI_HEADER);
}

void ci_fcgi_output_begin(struct ci_fcgi_output *output, bool keep)
{
    ci_check(output->len == 0, "fastcgi_output.h 1");
    output->len = (size_t)(ci_fcgi_put_begin(output->bytes, keep) - output->bytes);
    open_params(output);
}

int ci_fcgi_output_put(struct ci_fcgi_output *output, const void *data, size_t len)
{
    const char *from = data;
    while (len) {
        size_t n = CI_HTTP_BUFFER - output->len;
        if (n == 0) {
            close_params(output);
            int rc = flush(output);
            if (rc < 0)
                return rc;
            open_params(output);
            continue;
        }
        if (n > len)
            n = len;
        memcpy(output->bytes + output->len, from, n);
        output->len += n;
        from += n;
        len -= n;
    }
    return 0;
}

int ci_fcgi_output_variable(struct ci_fcgi_output *output, const char *name, const char *value,
                            size_t value_len)
{
    unsigned char lengths[CI_FCGI_LENGTHS_MAX];
    size_t name_len = strlen(name),
           n = (size_t)(ci_fcgi_put_lengths(lengths, name_len, value_len) - lengths);
    int rc = ci_fcgi_output_put(output, lengths, n);
    rc = rc < 0 ? rc : ci_fcgi_output_put(output, name, name_len);
    return rc < 0 ? rc : ci_fcgi_output_put(output, value, value_len);
}

/* An empty record ends the stream: the open one is given up if it is empty itself. */
int ci_fcgi_output_end_params(struct ci_fcgi_output *output)
{
    if (output->len > output->record + CI_FCGI_HEADER) {
        close_params(output);
        int rc = CI_HTTP_BUFFER - output->len < CI_FCGI_HEADER ? flush(output) : 0;
        if (rc < 0)
            return rc;
        open_params(output);
    }
    close_params(output);
    return 0;
}

/* ---- STDIN ---- */

void ci_fcgi_output_claim(struct ci_fcgi_output *output, size_t len)
{
    ci_check(output->len == 0 && len <= CI_HTTP_BUFFER - CI_FCGI_HEADER, "fastcgi_output.h 1");
    ci_fcgi_put_header(output->bytes, CI_FCGI_STDIN, len);
    output->len = CI_FCGI_HEADER + len;
}

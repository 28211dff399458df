/* Sending answers: see output.h. */
#include "web/output.h"

#include <errno.h>
#include <string.h>

#include "coir/deadline.h"
#include "coir/fiber.h"
#include "task/current.h"
#include "task/runtime.h"
#include "task/waiter.h"

/* Waits until the client has taken some. */
static ssize_t write_some(struct ci_http_output *output, const char *data, size_t len)
{
    const coir_serve_http_options *options = output->options;
    coir_time start = coir_now();
    COIR_DEADLINE(ci_time_after(start, ci_pace_left(&output->taking, options->write_timeout)));
    ssize_t n = coir_write(output->stream, data, len);
    ci_pace_add(&output->taking, options->rate_min, coir_now() - start, n > 0 ? (size_t)n : 0);
    return n;
}

/* Sends `len` bytes, or until an error. Each write spends budget: a fiber that sends much to a fast
 * client lets other tasks run. A cancelled task sends nothing more. */
static int send_all(struct ci_http_output *output, const char *data, size_t len)
{
    while (len && !output->error) {
        ssize_t n = coir_task_interrupted();
        if (n == 0) {
            n = coir_try_write(output->stream, data, len);
            ci_spend(ci_worker_current);
            /* bytes that were taken without a wait reduce the time that the client is behind */
            if (ci_unlikely(output->taking.behind) && n > 0)
                ci_pace_add(&output->taking, output->options->rate_min, 0, (size_t)n);
        }
        if (n == -EAGAIN)
            n = write_some(output, data, len);
        if (n < 0) {
            output->error = (int)n;
            break;
        }
        data += n;
        len -= (size_t)n;
        output->sent += (size_t)n;
    }
    return output->error;
}

int ci_http_output_flush(struct ci_http_output *output)
{
    size_t len = output->len;
    output->len = 0;
    return send_all(output, output->bytes, len);
}

int ci_http_output_flush_to_wait(struct ci_http_output *output)
{
    size_t len = output->len, before = output->sent;
    if (ci_unlikely(output->error))
        return output->error;
    int rc = ci_http_output_flush(output);
    if (ci_likely(rc == 0) || rc != coir_task_interrupted())
        return rc;
    size_t sent = output->sent - before;
    output->len = len - sent;
    memmove(output->bytes, output->bytes + sent, output->len);
    output->error = 0;
    return rc;
}

int ci_http_output_send(struct ci_http_output *output, const void *data, size_t len)
{
    if (len > CI_HTTP_BUFFER - output->len && ci_http_output_flush(output) < 0)
        return output->error;
    if (len > CI_HTTP_BUFFER)
        return send_all(output, data, len);
    memcpy(output->bytes + output->len, data, len);
    ci_http_output_claim(output, len);
    return output->error;
}

void ci_http_output_try_flush(struct ci_http_output *output)
{
    ssize_t n = output->len ? coir_try_write(output->stream, output->bytes, output->len) : 0;
    if (n <= 0)
        return; /* an error comes again at the next write that waits */
    output->len -= (size_t)n;
    memmove(output->bytes, output->bytes + n, output->len);
}

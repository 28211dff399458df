/* Receiving requests: see input.h. */
#include "web/input.h"

#include <errno.h>
#include <string.h>

#include "coir/deadline.h"
#include "task/current.h"
#include "task/runtime.h"
#include "task/waiter.h"

void ci_http_input_move(struct ci_http_input *input, size_t to, size_t *at)
{
    ci_check(to <= *at && *at <= input->end, "input.h 1");
    size_t unread = input->end - *at;
    memmove(input->bytes + to, input->bytes + *at, unread);
    *at = to;
    input->end = to + unread;
}

ssize_t ci_http_input_try_read(struct ci_http_input *input)
{
    ssize_t n =
        coir_try_read(input->stream, input->bytes + input->end, CI_HTTP_BUFFER - input->end);
    ci_spend(ci_worker_current);
    if (n > 0)
        input->end += (size_t)n;
    return n;
}

ssize_t ci_http_input_read(struct ci_http_input *input, coir_time deadline)
{
    int rc = ci_http_output_flush_to_wait(input->output);
    if (rc < 0)
        return rc;
    COIR_DEADLINE(deadline);
    ssize_t n = coir_read(input->stream, input->bytes + input->end, CI_HTTP_BUFFER - input->end);
    if (n > 0)
        input->end += (size_t)n;
    return n;
}

ssize_t ci_http_input_try_read_body(struct ci_http_input *input, size_t head_end)
{
    if (input->body_at > head_end) /* the bytes of the body that were read make room */
        ci_http_input_move(input, head_end, &input->body_at);
    return ci_http_input_try_read(input);
}

ssize_t ci_http_input_read_body(struct ci_http_input *input, size_t head_end, coir_time timeout,
                                coir_time *waited)
{
    ssize_t n = ci_http_input_try_read_body(input, head_end);
    if (n != -EAGAIN)
        return n;
    coir_time start = coir_now();
    n = ci_http_input_read(input, ci_time_after(start, timeout));
    *waited += coir_now() - start;
    return n;
}

/* The options of a server: see limits.h. */
#include "web/limits.h"

#include <errno.h>
#include <inttypes.h>

#include "base/options.h"
#include "task/current.h"
#include "task/log.h"
#include "task/runtime.h"
#include "task/worker.h"

/* Bytes a second: past it, arithmetic on rates would need more than 64 bits. */
enum { RATE_MAX = 1 << 30 };

/* The default of arena_max in fixed memory, where each request has so much. */
enum { FIXED_ARENA = 16 << 10 };

static int check_times(const coir_serve_http_options *options)
{
    const struct {
        const char *name;
        coir_time value;
    } times[] = {
        {"header_timeout", options->header_timeout},
        {"idle_timeout", options->idle_timeout},
        {"body_timeout", options->body_timeout},
        {"write_timeout", options->write_timeout},
        {"drain_timeout", options->drain_timeout},
        {"body_total_timeout", options->body_total_timeout},
        {"linger_timeout", options->linger_timeout},
        {"retry_after", options->retry_after},
    };
    for (size_t i = 0; i < ci_countof(times); i++) {
        if (times[i].value >= 0)
            continue;
        ci_log(ci_worker_current->runtime, COIR_LOG_ERROR,
               "coir_serve_http_options.%s is negative: %" PRId64
               " ns; 0 is the default, COIR_NEVER is no limit",
               times[i].name, times[i].value);
        return -EINVAL;
    }
    return 0;
}

/* Limits for clients that would otherwise hold a connection, memory or the worker for ever: each
 * applies unless the program sets COIR_NEVER or COIR_UNLIMITED. */
static void fill_in_defaults(coir_serve_http_options *options)
{
#define DEFAULT(field, value) options->field = options->field ? options->field : (value)
    DEFAULT(header_timeout, 10 * COIR_S);
    DEFAULT(idle_timeout, 60 * COIR_S);
    DEFAULT(body_timeout, 30 * COIR_S);
    DEFAULT(write_timeout, 60 * COIR_S);
    DEFAULT(drain_timeout, 10 * COIR_S);
    DEFAULT(line_max, 8000);
    DEFAULT(head_max, 8192);
    DEFAULT(body_max, (uint64_t)1 << 30);
    DEFAULT(arena_max, options->fixed_memory ? FIXED_ARENA : 1 << 20);
    DEFAULT(body_total_timeout, 3600 * COIR_S);
    DEFAULT(rate_min, 100);
    DEFAULT(linger_timeout, 30 * COIR_S);
    DEFAULT(linger_max, 64 << 20);
    DEFAULT(connections_max, COIR_UNLIMITED);
    DEFAULT(requests_max, COIR_UNLIMITED);
    DEFAULT(retry_after, 1 * COIR_S);
#undef DEFAULT
}

/* What is fixed must have a size. */
static int check_fixed(const coir_serve_http_options *options)
{
    bool bounded = options->connections_max != COIR_UNLIMITED &&
                   options->requests_max != COIR_UNLIMITED && options->arena_max != COIR_UNLIMITED;
    if (!options->fixed_memory)
        return options->lock_memory ? -EINVAL : 0;
    if (bounded)
        return 0;
    ci_log(ci_worker_current->runtime, COIR_LOG_ERROR,
           "coir_serve_http_options.fixed_memory needs limits: connections_max and requests_max, "
           "and no unlimited arena_max");
    return -EINVAL;
}

int ci_http_options_read(coir_serve_http_options *options, const coir_serve_http_options *given)
{
    *options = (coir_serve_http_options)COIR_SERVE_HTTP_OPTIONS;
    int rc = ci_options_read(options, sizeof *options, given);
    if (rc == 0)
        rc = check_times(options);
    if (rc == 0 && (!options->address == !options->listener ||
                    (unsigned)options->at_limit > COIR_LIMIT_ANSWERS))
        rc = -EINVAL;
    if (rc < 0)
        return rc;
    fill_in_defaults(options);
    if ((rc = check_fixed(options)) < 0)
        return rc;
    if (options->head_max == COIR_UNLIMITED)
        options->head_max = CI_HTTP_HEAD_MAX;
    /* the request line is part of the head: a longer one is refused as such */
    if (options->line_max > options->head_max)
        options->line_max = options->head_max;
    bool valid_rate = options->rate_min <= RATE_MAX || options->rate_min == COIR_UNLIMITED;
    return options->head_max <= CI_HTTP_HEAD_MAX && valid_rate ? 0 : -EINVAL;
}

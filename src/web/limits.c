/* The options of a server: see limits.h. */
#include "web/limits.h"

#include <errno.h>
#include <inttypes.h>

#include "base/options.h"
#include "task/current.h"
#include "task/log.h"
#include "task/runtime.h"
#include "task/worker.h"
#include "web/ws.h"

/* Bytes a second: past it, arithmetic on rates would need more than 64 bits. */
enum { RATE_MAX = 1 << 30 };

/* Defaults in fixed memory, where each request has so much, and each WebSocket connection room for
 * so many messages of that length. */
enum {
    FIXED_ARENA = 16 << 10,
    FIXED_MESSAGE = 4 << 10,
    FIXED_ITEMS = 16,
    FIXED_ITEMS_MOST = 65536
};

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
    if (!options->websockets_max && !options->fixed_memory)
        options->websockets_max = COIR_UNLIMITED;
}

static int read_websocket(coir_serve_http_options *options, coir_ws_options *ret_websocket)
{
    coir_ws_options given = COIR_WS_OPTIONS;
    int rc = ci_options_read(&given, sizeof given, options->websocket_options);
    if (rc == 0 && options->fixed_memory) {
        given.message_max = given.message_max ? given.message_max : FIXED_MESSAGE;
        given.items_max = given.items_max ? given.items_max : FIXED_ITEMS;
    }
    if (rc == 0)
        rc = ci_ws_options_read(ret_websocket, &given);
    options->websocket_options = ret_websocket;
    return rc;
}

static int refuse_fixed(const char *what)
{
    ci_log(ci_worker_current->runtime, COIR_LOG_ERROR, "coir_serve_http_options.fixed_memory %s",
           what);
    return -EINVAL;
}

/* What a connection has must have a size, too. */
static int check_fixed_websockets(const coir_serve_http_options *options)
{
    const coir_ws_options *websocket = options->websocket_options;
    if (!options->websockets_max)
        return 0;
    if (options->websockets_max == COIR_UNLIMITED || websocket->message_max == COIR_UNLIMITED ||
        websocket->items_max > FIXED_ITEMS_MOST)
        return refuse_fixed("needs limits: no unlimited websockets_max, and in websocket_options "
                            "no unlimited message_max, and an items_max of 65536 at most");
    if (websocket->compression == COIR_WS_COMPRESS_STREAM ||
        (websocket->compression && websocket->window_bits != CI_WS_BITS_MAX))
        return refuse_fixed("has compression by COIR_WS_COMPRESS_MESSAGES and 15 window_bits only "
                            "(websocket_options)");
    return 0;
}

/* What is fixed must have a size. */
static int check_fixed(const coir_serve_http_options *options)
{
    bool bounded = options->connections_max != COIR_UNLIMITED &&
                   options->requests_max != COIR_UNLIMITED && options->arena_max != COIR_UNLIMITED;
    if (!options->fixed_memory)
        return options->lock_memory ? -EINVAL : 0;
    return bounded ? check_fixed_websockets(options)
                   : refuse_fixed("needs limits: connections_max and requests_max, and no "
                                  "unlimited arena_max");
}

int ci_http_options_read(coir_serve_http_options *options, coir_ws_options *ret_websocket,
                         const coir_serve_http_options *given)
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
    if ((rc = read_websocket(options, ret_websocket)) < 0 || (rc = check_fixed(options)) < 0)
        return rc;
    if (options->head_max == COIR_UNLIMITED)
        options->head_max = CI_HTTP_HEAD_MAX;
    /* the request line is part of the head: a longer one is refused as such */
    if (options->line_max > options->head_max)
        options->line_max = options->head_max;
    bool valid_rate = options->rate_min <= RATE_MAX || options->rate_min == COIR_UNLIMITED;
    return options->head_max <= CI_HTTP_HEAD_MAX && valid_rate ? 0 : -EINVAL;
}

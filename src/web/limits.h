/* The limits that a server keeps its clients and handlers to: fixed sizes, and the options with
 * their defaults. */
#ifndef CI_WEB_LIMITS_H
#define CI_WEB_LIMITS_H

#include "coir/ws.h"

enum {
    CI_HTTP_BUFFER = 16 * 1024,    /* bytes of an input or output buffer */
    CI_HTTP_HEAD_MAX = 12 * 1024,  /* the largest head_max: a head leaves room for a body */
    CI_HTTP_FIELDS_MAX = 8 * 1024, /* bytes of fields that a handler may add, with the type */
    CI_HTTP_PARAMS = 8,            /* parameters in a route's pattern */
};

/* Reads the options of a server, with the default where the program left a field 0, and those of
 * its WebSocket connections into `ret_websocket`, which options->websocket_options points at then.
 * 0, or -EINVAL: a negative time, and what fixed memory lacks, is named in the log. */
int ci_http_options_read(coir_serve_http_options *options, coir_ws_options *ret_websocket,
                         const coir_serve_http_options *given);

#endif

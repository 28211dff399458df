/* A server on one worker: what the connections that its acceptor started share. */
#ifndef CI_WEB_SERVER_H
#define CI_WEB_SERVER_H

#include "coir/event.h"
#include "coir/semaphore.h"
#include "io/serve.h"
#include "proto/http1.h"
#include "web/fixed.h"
#include "web/limits.h"
#include "web/worker.h"

struct ci_http_refusal;

struct ci_http_server {
    struct ci_serving_here here;
    const coir_router *router;
    const coir_serve_http_options *options; /* complete: see ci_http_options_read */
    struct ci_http1_limits head_limits;     /* line_max and head_max of the options */
    struct ci_http_worker *http;
    struct ci_list idle;    /* connections that wait for a request */
    struct ci_list sockets; /* WebSocket connections */
    size_t places;          /* of websockets_max that are taken */
    bool told;              /* that fixed memory has none */
    bool draining;
    coir_event drains; /* it is set when that begins */
    const struct ci_http_refusal *refusal;
    coir_semaphore turns; /* of requests, where there is a limit */
    size_t refused;       /* open connections beyond the limit */
    struct ci_http_fixed fixed;
};

#endif

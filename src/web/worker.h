/* What a worker keeps for all HTTP servers on it: pools, counters, the date. Only the worker
 * changes it; any worker reads the counters, and gives messages back. */
#ifndef CI_WEB_WORKER_H
#define CI_WEB_WORKER_H

#include "task/extension.h"
#include "task/runtime.h"
#include "web/date.h"
#include "web/prefix.h"
#include "web/ws_message.h"

struct ci_http_worker {
    struct ci_worker_extension extension;
    struct ci_worker *worker;
    struct ci_pool connections;
    struct ci_pool buffers;       /* of CI_HTTP_BUFFER bytes */
    struct ci_pool blocks;        /* of the arenas */
    struct ci_pool sockets;       /* WebSocket connections */
    struct ci_pool awakes;        /* what those have while they do not rest */
    struct ci_pool agreed;        /* memory for their terms */
    struct ci_list terms;         /* those, the newest first */
    struct ci_ws_memory messages; /* of theirs */
    struct ci_ws_shared *deflate; /* what compression keeps (ws_deflate.c); or NULL */
    uint64_t accepted, live, requests, errors_sent, refused;
    size_t fastcgi_max; /* atomic: connections of FastCGI clients that were made here */
    struct ci_http_date date;
    struct ci_http_prefix prefixes[CI_HTTP_PREFIXES];
};

/* Made at the first call on the worker. NULL: out of memory. */
struct ci_http_worker *ci_http_worker_of(struct ci_worker *worker);

/* The same, if it has been made, of any worker of the runtime. */
struct ci_http_worker *ci_http_worker_if_any(struct ci_worker *worker);

#endif

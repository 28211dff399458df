/* A request in progress, on its fiber's stack, and the handler's view of it.
 *
 * 1. While a handler runs, its fiber's before_park is the exchange's: before the fiber waits for
 * anything, answers that have gathered are sent, and the client is watched: a reset or a hang-up
 * cancels the task. Not if the request has become a WebSocket connection.
 */
#ifndef CI_WEB_EXCHANGE_H
#define CI_WEB_EXCHANGE_H

#include <errno.h>

#include "base/arena.h"
#include "io/hangup.h"
#include "proto/http1_body.h"
#include "web/connection.h"
#include "web/input.h"
#include "web/output.h"
#include "web/router.h"

/* What the handler is called for: what the head says, or where an answer was redirected to. Not
 * terminated. */
struct ci_http_target {
    const char *path, *query;
    size_t path_len, query_len;
    bool redirected;
};

struct ci_exchange {
    struct ci_http_connection *connection;
    struct ci_http_server *server;
    struct ci_http_input in;
    struct ci_http_output out;
    bool unread;       /* bytes that the client sent or will send are not read */
    bool continue_due; /* the client waits for a 100 before it sends the body */
    bool body_begun;   /* the handler has read some of the body */
    bool starved;      /* the handler was given "" or NULL, where there was no memory for a value */

    coir_ws *socket; /* what the request has become; or NULL */

    struct ci_http1_body body;
    struct ci_http_target target;
    struct ci_arena arena; /* what the handler is given, until the request ends */
    char *region;          /* what the arena is made of, in fixed memory; or NULL */
    struct ci_match match;
    struct ci_hangup hangup;
    struct ci_http1_head head; /* last, since it is large and mostly not used */
};

struct coir_response {
    struct ci_exchange *exchange;
    char *extra; /* fields added by the handler, in the arena */
    size_t extra_len, extra_capacity;
    /* of the announced length; -1: chunked, or until the end of the connection */
    int64_t remaining;
    bool begun, chunked, no_body, close, has_type;
};

struct coir_request {
    struct ci_exchange *exchange;
    uint64_t body_read;
    coir_time body_waited; /* for bytes of the body */
    struct ci_pace sending;
    int body_error;   /* the status that it calls for; 0: none */
    int body_failure; /* what reading it returned then; 0: nothing has */
    coir_response *response;
};

/* Whether a call on a request or a response (NULL: there is none) is refused: 0, -EINVAL, or -EXDEV
 * on a worker that it does not belong to. */
static inline int ci_exchange_refused(struct ci_exchange *const *object, const char *null,
                                      const char *call, const void *place)
{
    if (ci_likely(object && (*object)->server->http->worker == ci_worker_current))
        return 0;
    return object ? ci_misused(-EXDEV, "it belongs to another worker", call, place)
                  : ci_misused(-EINVAL, null, call, place);
}
#define CI_EXCHANGE_REFUSED(object)                                                         \
    ci_exchange_refused((object) ? &(object)->exchange : NULL, #object " is NULL", CI_CALL, \
                        CI_PLACE)

/* Serves the requests that have come on a struct ci_http_connection; on a stack. */
int ci_serve_requests(void *connection);

#endif

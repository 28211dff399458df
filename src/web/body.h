/* The rest of a request's body, when its handler has returned or begins to answer. */
#ifndef CI_WEB_BODY_H
#define CI_WEB_BODY_H

#include "web/exchange.h"

/* Of a body that was not read to its end: whether the rest is short enough, and certain enough to
 * arrive, to be discarded. A client that expects a 100 is certain to send the body once it has
 * begun to: looks for its bytes. */
bool ci_body_rest_is_near(struct ci_exchange *exchange);

static inline bool ci_body_end_is_near(struct ci_exchange *exchange)
{
    return ci_likely(exchange->body.state == CI_BODY_DONE) || ci_body_rest_is_near(exchange);
}

/* As coir_request_read, but -EAGAIN where it would have to wait for the client: then wait until its
 * stream is readable, at most ci_body_time_left, and report how long that took. Suspends only to
 * send a 100. */
ssize_t ci_body_try_read(coir_request *req, void *buf, size_t len);
coir_time ci_body_time_left(const coir_request *req);
void ci_body_waited(coir_request *req, coir_time waited, size_t bytes);

/* Discards what the handler left of the body. False: the connection cannot go on. */
bool ci_body_discard_rest(coir_request *req);

static inline bool ci_body_discard(coir_request *req)
{
    if (ci_unlikely(req->body_error))
        return false;
    return ci_likely(req->exchange->body.state == CI_BODY_DONE) || ci_body_discard_rest(req);
}

#endif

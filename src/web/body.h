/* The rest of a request's body, when its handler has returned or begins to answer. */
#ifndef CI_WEB_BODY_H
#define CI_WEB_BODY_H

#include "web/exchange.h"

/* Whether the rest of the body is short enough, and certain enough to arrive, to be discarded. A
 * client that expects a 100 is certain to send the body once it has begun to: looks for its
 * bytes. */
bool ci_body_end_is_near(struct ci_exchange *exchange);

/* Discards what the handler left of the body. False: the connection cannot go on. */
bool ci_body_discard(coir_request *req);

#endif

/* A redirect inside of the server: the request is answered by the handler of another path. */
#ifndef CI_WEB_REDIRECT_H
#define CI_WEB_REDIRECT_H

#include "web/exchange.h"

/* Calls the handler that `router` has for GET and the path of `uri`, a path with or without a
 * query, and returns what it returns; 404 where there is none. `uri` is read until the request has
 * ended. An answer is redirected once: otherwise, and where `uri` is not valid, -COIR_EPROTOCOL.
 * Suspends. */
int ci_redirect(coir_request *req, coir_response *res, const coir_router *router, const char *uri);

#endif

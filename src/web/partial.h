/* A head of which only a part has come: what it holds, and no stack and no buffers. The parser goes
 * on where it was.
 *
 * 1. A connection has at most one.
 */
#ifndef CI_WEB_PARTIAL_H
#define CI_WEB_PARTIAL_H

#include "web/exchange.h"

/* Puts what has come of a head aside on the connection, to be waited for without a stack until
 * `deadline`. False: memory is out. */
bool ci_http_partial_save(struct ci_exchange *exchange, coir_time deadline);

/* Takes it back. Returns the deadline. */
coir_time ci_http_partial_restore(struct ci_exchange *exchange);

coir_time ci_http_partial_deadline(const struct ci_http_connection *connection);
void ci_http_partial_drop(struct ci_http_connection *connection);

#endif

/* A partly received head, kept in memory of its size, without a stack or buffers. The parser
 * continues where it stopped.
 *
 * 1. A connection has at most one.
 */
#ifndef CI_WEB_PARTIAL_H
#define CI_WEB_PARTIAL_H

#include "web/exchange.h"

/* Saves the received part of a head on the connection, which then waits for the rest without a
 * stack, until `deadline`. False: out of memory. */
bool ci_http_partial_save(struct ci_exchange *exchange, coir_time deadline);

/* Restores the saved part. Returns the deadline. */
coir_time ci_http_partial_restore(struct ci_exchange *exchange);

/* The memory for a part of a head of `head_max` bytes. */
size_t ci_http_partial_size(size_t head_max);

coir_time ci_http_partial_deadline(const struct ci_http_connection *connection);
void ci_http_partial_drop(struct ci_http_connection *connection);

#endif

/* Answers that the server itself begins or ends. */
#ifndef CI_WEB_RESPONSE_H
#define CI_WEB_RESPONSE_H

#include "web/exchange.h"

/* Begins a response whose body has `length` bytes; -1: unknown. */
int ci_response_start(coir_response *res, int status, const char *type, int64_t length);

/* Ends one that was begun. -COIR_EEND: less came than was announced. */
int ci_response_end(coir_response *res);

/* Answers with the status and its name as the body; the connection is to be closed after it. */
void ci_respond_error(struct ci_exchange *exchange, int status);

#endif

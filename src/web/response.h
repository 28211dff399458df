/* Answers that the server itself begins or ends. */
#ifndef CI_WEB_RESPONSE_H
#define CI_WEB_RESPONSE_H

#include "web/exchange.h"

/* Begins a response whose body has `length` bytes; -1: unknown. */
int ci_response_start(coir_response *res, int status, const char *type, int64_t length);

/* Ends one that was begun. -COIR_EEND: less came than was announced. */
int ci_response_end_rest(coir_response *res);
static inline int ci_response_end(coir_response *res)
{
    /* the whole of an announced length has come */
    return ci_likely(res->remaining == 0) ? 0 : ci_response_end_rest(res);
}

/* coir_response_add_header, for any field, of which nothing is checked. */
int ci_response_put_header(coir_response *res, const char *name, const char *value);

/* Answers with the status and its name as the body; the connection is to be closed after it. */
void ci_respond_error(struct ci_exchange *exchange, int status);

#endif

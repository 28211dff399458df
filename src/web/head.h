/* Getting the head of the next request. */
#ifndef CI_WEB_HEAD_H
#define CI_WEB_HEAD_H

#include "web/exchange.h"

enum ci_http_next {
    CI_HTTP_NEXT_HEAD,   /* exchange->head is complete */
    CI_HTTP_NEXT_NONE,   /* nothing more has come, or a part of a head, which was put aside */
    CI_HTTP_NEXT_CLOSED, /* the connection cannot go on; the client has been told why */
};

enum ci_http_next ci_http_next_head(struct ci_exchange *exchange);

#endif

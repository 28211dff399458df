/* Getting the head of the next request. */
#ifndef CI_WEB_HEAD_H
#define CI_WEB_HEAD_H

#include "web/exchange.h"

enum ci_http_next {
    CI_HTTP_NEXT_HEAD,   /* exchange->head is complete */
    CI_HTTP_NEXT_NONE,   /* nothing more has come, or a part of a head, which was put aside */
    CI_HTTP_NEXT_CLOSED, /* the connection cannot go on; the client has been told why */
};

/* What ci_http1_parse returns for what has come of the request. */
CI_INLINE int ci_http_parse_head(struct ci_exchange *exchange)
{
    return ci_http1_parse(&exchange->head, &exchange->server->head_limits,
                          ci_http_input_request(&exchange->in),
                          exchange->in.end - exchange->in.start);
}

/* Goes on with a head that was put aside. */
enum ci_http_next ci_http_continue_head(struct ci_exchange *exchange);

/* The head is refused, or is not complete: `rc` of its parser. */
enum ci_http_next ci_http_finish_head(struct ci_exchange *exchange, int rc);

CI_INLINE enum ci_http_next ci_http_next_head(struct ci_exchange *exchange)
{
    if (ci_unlikely(exchange->connection->partial != NULL))
        return ci_http_continue_head(exchange);
    ci_http1_head_init(&exchange->head);
    int rc = ci_http_parse_head(exchange);
    return ci_likely(rc > 0) ? CI_HTTP_NEXT_HEAD : ci_http_finish_head(exchange, rc);
}

#endif

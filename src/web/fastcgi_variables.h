/* What a script is told about its request: the meta-variables of CGI (RFC 3875, 4.1). */
#ifndef CI_WEB_FASTCGI_VARIABLES_H
#define CI_WEB_FASTCGI_VARIABLES_H

#include "web/exchange.h"
#include "web/fastcgi_output.h"

/* Writes all of them to PARAMS. body_len: -1, the request has no body. Suspends when the buffer is
 * full. */
int ci_fcgi_put_variables(struct ci_fcgi_output *output, const struct ci_exchange *exchange,
                          const coir_fastcgi_options *options, const coir_fastcgi_script *script,
                          int64_t body_len);

#endif

/* Warnings about handlers that fail or misuse the interface. What a client can cause alone is not
 * logged: it could fill the log. */
#ifndef CI_WEB_REPORT_H
#define CI_WEB_REPORT_H

#include "web/exchange.h"

/* Warns of a handler that failed, or that misused the interface. rc: what it returned; ended: what
 * ci_response_end returned. */
CI_COLD void ci_request_report(const coir_request *req, int rc, int ended);

#endif

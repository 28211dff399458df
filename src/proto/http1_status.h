/* Statuses of HTTP (RFC 9110, 15). */
#ifndef CI_PROTO_HTTP1_STATUS_H
#define CI_PROTO_HTTP1_STATUS_H

/* What a parser answers a request with that it refuses; parsers return minus the status. */
enum {
    CI_HTTP1_BAD_REQUEST = 400,
    CI_HTTP1_URI_TOO_LONG = 414,
    CI_HTTP1_EXPECTATION_FAILED = 417,
    CI_HTTP1_FIELDS_TOO_LARGE = 431,
    CI_HTTP1_NOT_IMPLEMENTED = 501,
    CI_HTTP1_VERSION_NOT_SUPPORTED = 505
};

/* The reason phrase of a status; "" for one that is not registered. */
const char *ci_http1_reason(int status);

#endif

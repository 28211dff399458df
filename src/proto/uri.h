/* The parts of a URI that a server has to check (RFC 3986). Texts are given by their begin and
 * end. */
#ifndef CI_PROTO_URI_H
#define CI_PROTO_URI_H

#include "base/compiler.h"

/* Whether every "%" begins a valid escape (RFC 3986, 2.1). %00 is refused unless nul_allowed. */
bool ci_uri_escapes_are_valid(const char *at, const char *end, bool nul_allowed);

/* uri-host [ ":" port ], as in a Host field (RFC 9110, 7.2). It may be empty (RFC 9112, 3.2). */
bool ci_uri_host_is_valid(const char *at, const char *end);

/* The target of CONNECT: a host with a port, and one that exists (RFC 9110, 9.3.6). */
bool ci_uri_connect_target_is_valid(const char *at, const char *end);

#endif

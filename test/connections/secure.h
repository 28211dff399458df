/* The server over TLS: tls.c, or no_tls.c in a build without OpenSSL. */
#ifndef TEST_CONNECTIONS_SECURE_H
#define TEST_CONNECTIONS_SECURE_H

#include <coir/web.h>
#include <stdbool.h>

extern const bool secure_is_there;

/* Serves until cancelled, to clients of `listener`, through TLS. */
int secure_serve(coir_listener *listener, const coir_serve_http_options *options,
                 coir_router *router);

#endif

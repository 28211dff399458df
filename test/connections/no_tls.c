/* A build without OpenSSL serves no TLS. */
#include <errno.h>

#include "connections/secure.h"

const bool secure_is_there = false;

int secure_serve(coir_listener *listener, const coir_serve_http_options *options,
                 coir_router *router)
{
    (void)listener, (void)options, (void)router;
    return -EOPNOTSUPP;
}

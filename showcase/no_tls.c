/* The showcase without OpenSSL. */
#include <errno.h>
#include <stdio.h>

#include "secure.h"

int secure_open(coir_layer_fn **ret_layer, void **ret_arg)
{
    fprintf(stderr, "coir-showcase: TLS_PORT needs OpenSSL 3 (libssl-dev), which was not there "
                    "when this was built\n");
    *ret_layer = NULL;
    *ret_arg = NULL;
    return -EOPNOTSUPP;
}

void secure_close(void *arg)
{
    (void)arg;
}

/* TLS for the showcase, by coir-tls. */
#include <coir/tls.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "secure.h"

static int make(const char *certificate, const char *key, coir_tls **ret_tls)
{
    coir_tls_options options = COIR_TLS_OPTIONS;
    options.certificate = certificate;
    options.key = key;
    options.alpn = "http/1.1";
    return coir_tls_server_new(&options, ret_tls);
}

static int make_with_a_new_certificate(coir_tls **ret_tls)
{
    char *certificate, *key;
    int rc = coir_tls_make_certificate("localhost", &certificate, &key);
    if (rc < 0)
        return rc;
    rc = make(certificate, key, ret_tls);
    free(certificate);
    free(key);
    return rc;
}

/* A variable of the environment; NULL if it is empty. */
static const char *setting(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

int secure_open(coir_layer_fn **ret_layer, void **ret_arg)
{
    const char *certificate = setting("CERT"), *key = setting("KEY");
    coir_tls *tls = NULL;
    int rc = !certificate != !key ? -EINVAL
             : certificate        ? make(certificate, key, &tls)
                                  : make_with_a_new_certificate(&tls);
    if (!certificate != !key)
        fprintf(stderr, "coir-showcase: CERT and KEY belong together: give both, or neither\n");
    else if (rc < 0)
        fprintf(stderr, "coir-showcase: CERT=%s KEY=%s: %s\n", certificate ? certificate : "",
                key ? key : "", coir_strerror(rc));
    *ret_layer = coir_tls_layer;
    *ret_arg = tls;
    return rc;
}

void secure_close(void *arg)
{
    coir_tls_unref(arg);
}

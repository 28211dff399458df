/* What is refused when it is configured. */
#include <coir.h>
#include <coir/sim.h>
#include <coir/tls.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pair.h"

TEST(what_cannot_be_used_is_refused_when_it_is_configured)
{
    make_once();
    char *other, *other_key;
    CHECK_EQ(coir_tls_make_certificate("127.0.0.1", &other, &other_key), 0);
    coir_tls_options options = COIR_TLS_OPTIONS;
    coir_tls *tls;
    CHECK_EQ(coir_tls_server_new(&options, &tls), -EINVAL);
    options.certificate = own_certificate;
    CHECK_EQ(coir_tls_server_new(&options, &tls), -EINVAL);
    options.key = other_key;
    CHECK_EQ(coir_tls_server_new(&options, &tls), -COIR_ETLS_KEY);
    options.key = "/nowhere/key.pem";
    CHECK_EQ(coir_tls_server_new(&options, &tls), -ENOENT);
    options.key = own_certificate;
    CHECK_EQ(coir_tls_server_new(&options, &tls), -COIR_ETLS_KEY);
    options.key = own_key;
    options.certificate = own_key;
    CHECK_EQ(coir_tls_server_new(&options, &tls), -COIR_ECERT);
    options.certificate = own_certificate;
    options.client_certificates = COIR_TLS_REQUIRED_CLIENT_CERTIFICATES;
    CHECK_EQ(coir_tls_server_new(&options, &tls), -EINVAL);
    options.client_certificates = COIR_TLS_NO_CLIENT_CERTIFICATES;
    options.insecure = COIR_TLS_INSECURE_NO_VERIFICATION;
    CHECK_EQ(coir_tls_server_new(&options, &tls), -EINVAL);
    options.insecure = 1;
    CHECK_EQ(coir_tls_client_new(&options, &tls), -EINVAL);
    free(other);
    free(other_key);
}

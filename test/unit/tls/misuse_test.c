/* Misuse of TLS: a configuration given back too often, used for the other side, or NULL; and a
 * transport that is closed under its stream. */
#include <coir.h>
#include <coir/tls.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pair.h"
#include "said.h"

static int misuse_all(void *arg)
{
    (void)arg;
    struct pair pair = plain_pair(0);
    coir_stream *other;
    CHECK(coir_tls_ref(NULL) == NULL);
    expect_named("coir_tls_ref");
    CHECK(coir_tls_ref(pair.client) == pair.client);
    coir_tls_unref(pair.client);
    CHECK_EQ(coir_tls_connect(pair.server, "example.org", pair.a, &other), -EINVAL);
    expect_named("coir_tls_connect");
    CHECK_EQ(coir_tls_accept(pair.client, pair.b, &other), -EINVAL);
    expect_named("coir_tls_accept");
    coir_tls_options options = COIR_TLS_OPTIONS;
    options.certificate = own_certificate;
    options.key = own_key;
    CHECK_EQ(coir_tls_server_add_host(pair.server, "late.example.org", &options), -EBUSY);
    expect_named("coir_tls_server_add_host");
    coir_tls_unref(pair.client); /* the program's last: the connection has its own */
    coir_tls_unref(pair.client); /* it takes nothing from the connection */
    expect_named("coir_tls_unref");
    CHECK_EQ(coir_write_all(pair.tls_a, "x", 1), 0);
    coir_close(pair.a); /* a stream stands on it */
    expect_named("coir_close");
    CHECK_EQ(coir_write_all(pair.tls_a, "x", 1), 0);
    pair.client = NULL;
    close_pair(&pair);
    return 0;
}

TEST(misuse_of_tls_is_named_and_takes_nothing)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.log = take_line;
    CHECK_EQ(test_run(&config, misuse_all, NULL), 0);
}

/* rest_sim.c over TLS: a connection at rest has given back what OpenSSL needs for records, too. */
#define OPENSSL_SUPPRESS_DEPRECATED /* the seed's randomness has no other way in */
#include <coir/tls.h>
#include <errno.h>

#include "openssl_alone.h"
#include "openssl_errors.h"
#include "openssl_random.h"
#include "openssl_time.h"
#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/rest.h"
#include "sim/scenario.h"

const uint64_t rest_visits = 2; /* handshakes are dear */

static char *certificate, *key;
static coir_tls *server_tls, *client_tls;

int rest_configure(coir_sim *sim, coir_serve_http_options *options)
{
    coir_tls_options server = COIR_TLS_OPTIONS, client = COIR_TLS_OPTIONS;
    coir_config config = COIR_CONFIG;
    server.certificate = client.ca = certificate;
    server.key = key;
    int rc = coir_tls_server_new(&server, &server_tls);
    if (rc < 0 || (rc = coir_tls_client_new(&client, &client_tls)) < 0)
        return rc;
    options->address = "0.0.0.0:80";
    options->layer = coir_tls_layer;
    options->layer_arg = server_tls;
    config.stack_size = 256 * 1024; /* OpenSSL runs on the stacks of fibers */
    config.budget = below(2) ? 0 : 2;
    return coir_sim_configure(sim, &config);
}

int rest_connect(coir_stream **ret_stream)
{
    coir_stream *transport;
    int rc = coir_tcp_connect("server:80", &transport);
    if (rc < 0)
        return rc;
    if ((rc = coir_tls_connect(client_tls, "server", transport, ret_stream)) < 0)
        coir_close(transport);
    return rc;
}

bool rest_is_cut(ssize_t rc)
{
    return rc == -ECONNRESET || rc == -EPIPE || rc == -COIR_ETLS_TRUNCATED;
}

void rest_done(void)
{
    coir_tls_unref(server_tls);
    coir_tls_unref(client_tls);
    server_tls = client_tls = NULL;
}

static int run(coir_sim *sim, void *arg)
{
    (void)arg;
    openssl_random_state = coir_sim_random(sim);
    chance_init(sim);
    return scenario(sim);
}

int main(int argc, char **argv)
{
    RAND_set_rand_method(&openssl_seeded);
    ci_kthread_exchange = openssl_errors_exchange;
    if (coir_tls_make_certificate("server", &certificate, &key) < 0)
        return 2;
    return coir_sim_main(argc, argv, run, NULL);
}

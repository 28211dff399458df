/* What the connections of rest_sim.c are: TCP (rest_tcp.c), or TLS over it (rest_tls_sim.c). */
#ifndef TEST_SIM_REST_H
#define TEST_SIM_REST_H

#include <coir/sim.h>
#include <coir/web.h>

enum { VISITS_MOST = 4 };
extern const uint64_t rest_visits; /* of a visitor, before its last: fewer than so many */

int rest_configure(coir_sim *sim, coir_serve_http_options *options);
/* To the server, from a host of the sim. */
int rest_connect(coir_stream **ret_stream);
/* A call of a stream that returned `rc` tells that it is cut. */
bool rest_is_cut(ssize_t rc);
void rest_done(void);

#endif

#include <errno.h>

#include "sim/chaos.h"
#include "sim/rest.h"

const uint64_t rest_visits = VISITS_MOST;

int rest_configure(coir_sim *sim, coir_serve_http_options *options)
{
    options->address = "0.0.0.0:80";
    return chaos_configure(sim);
}

int rest_connect(coir_stream **ret_stream)
{
    return coir_tcp_connect("server:80", ret_stream);
}

bool rest_is_cut(ssize_t rc)
{
    return rc == -ECONNRESET || rc == -EPIPE;
}

void rest_done(void)
{
}

/* Sessions of clients. */
#include <coir.h>
#include <coir/sim.h>
#include <coir/tls.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pair.h"

TEST_REAL(sessions_are_resumed_also_after_a_reload_of_the_server)
{
    struct pair pair = {.client = client_of((coir_tls_options)COIR_TLS_OPTIONS),
                        .server = server_of((coir_tls_options)COIR_TLS_OPTIONS)};
    CHECK(!resumes(&pair));
    CHECK(resumes(&pair));
    CHECK(resumes(&pair));
    CHECK_EQ(coir_tls_reload(pair.server), 0);
    CHECK(resumes(&pair));
    CHECK_EQ(coir_tls_reload(pair.client), 0);
    CHECK(!resumes(&pair)); /* what is trusted may have changed */
    close_pair(&pair);
}

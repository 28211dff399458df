/* What a worker keeps for HTTP: made once, counted, and given back at its end. */
#include <errno.h>

#include "task/current.h"
#include "web/worker.h"

#include "site.h"

TEST_SIM(a_worker_has_one_and_makes_it_once)
{
    struct ci_http_worker *http = ci_http_worker_of(ci_worker_current);
    CHECK(http && http == ci_http_worker_of(ci_worker_current));
    CHECK(http->worker == ci_worker_current);
    CHECK_EQ(http->extension.live(&http->extension), 0);
    void *buffer = ci_pool_take(&http->buffers);
    CHECK_EQ(http->extension.live(&http->extension), 1); /* the audit would find it */
    ci_pool_give(&http->buffers, buffer);
}

static coir_http_counters counters_now(void)
{
    coir_http_counters counters = COIR_HTTP_COUNTERS;
    CHECK_EQ(coir_http_counters_get(&counters), 0);
    return counters;
}

TEST_SERVER(connections_requests_and_errors_are_counted)
{
    CHECK_EQ(counters_now().connections, 0);
    ask(GET("/hello") GET("/none"));
    CHECK_EQ(counters_now().requests, 2); /* a 404 is an answer of the server's like any other */
    CHECK_EQ(counters_now().errors_sent, 0);
    ask(GET("/hello") "nonsense\r\n\r\n");
    CHECK_EQ(counters_now().requests, 3);
    CHECK_EQ(counters_now().errors_sent, 1);
    coir_stream *stream = dial();
    coir_sleep_for(COIR_S);
    CHECK_EQ(counters_now().connections, 3);
    CHECK_EQ(counters_now().connections_live, 1);
    coir_close(stream);
    coir_sleep_for(COIR_S);
    CHECK_EQ(counters_now().connections_live, 0);
}

TEST(counters_are_read_on_a_worker)
{
    coir_http_counters counters = COIR_HTTP_COUNTERS;
    CHECK_EQ(coir_http_counters_get(&counters), -ESRCH);
}

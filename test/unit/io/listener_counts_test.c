/* What the metrics show of listeners. */
#include <coir.h>
#include <errno.h>
#include <stdio.h>

#include "metrics.h"

static double of(const char *metric, const char *listener)
{
    char name[64], label[80];
    snprintf(name, sizeof name, "coir_listener_%s", metric);
    snprintf(label, sizeof label, "listener=\"%s\"", listener);
    return metrics_sum(name, label);
}

static int dial(void *address)
{
    coir_stream *stream;
    int rc = coir_tcp_connect(address, &stream);
    if (rc == 0)
        coir_close(stream);
    return rc;
}

TEST_SIM(connections_of_a_listener_count)
{
    coir_listener *listener, *other;
    coir_stream *one, *two;
    metrics_read();
    CHECK(!strstr(metrics_text, "coir_listener_"));
    CHECK_EQ(coir_tcp_listen("127.0.0.1:80", &listener), 0);
    CHECK_EQ(coir_tcp_listen("unix:@other", &other), 0);
    COIR_SCOPE(scope);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(coir_go(scope, dial, "127.0.0.1:80"), 0);
    CHECK_EQ(coir_accept(listener, &one), 0);
    CHECK_EQ(coir_accept(listener, &two), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_close(one);
    metrics_read();
    CHECK_EQ((int)of("accepted_total", "127.0.0.1:80"), 2);
    CHECK_EQ((int)of("connections_live", "127.0.0.1:80"), 1);
    CHECK_EQ((int)of("accepted_total", "unix:@other"), 0);
    CHECK(strstr(metrics_text, "coir_listener_paused{listener=\"unix:@other\",number=\""));
    CHECK_EQ(coir_listener_pause(listener), 0);
    metrics_read();
    CHECK_EQ((int)of("paused", "127.0.0.1:80"), 1);
    CHECK_EQ((int)of("paused", "unix:@other"), 0);
    CHECK_EQ(coir_listener_resume(listener), 0);
    metrics_read();
    CHECK_EQ((int)of("paused", "127.0.0.1:80"), 0);
    coir_listener_close(other);
    coir_listener_close(listener);
    metrics_read(); /* it is there until its connections have ended */
    CHECK_EQ((int)of("connections_live", "127.0.0.1:80"), 1);
    CHECK(!strstr(metrics_text, "unix:@other"));
    coir_close(two);
    CHECK_EQ(coir_sleep_for(COIR_S), 0);
    metrics_read();
    CHECK(!strstr(metrics_text, "coir_listener_"));
}

TEST_SIM(connections_beyond_the_limit_count)
{
    coir_listener *listener;
    coir_stream *one, *two;
    coir_listen_options options = COIR_LISTEN_OPTIONS;
    options.connections_max = 1;
    options.at_limit = COIR_LIMIT_CLOSES;
    CHECK_EQ(coir_tcp_listen_with("127.0.0.1:80", &options, &listener), 0);
    COIR_SCOPE(scope);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(coir_go(scope, dial, "127.0.0.1:80"), 0);
    CHECK_EQ(coir_accept(listener, &one), 0);
    {
        COIR_DEADLINE(coir_in(COIR_S));
        CHECK_EQ(coir_accept(listener, &two), -ETIME);
    }
    CHECK_EQ(coir_scope_wait(scope), 0);
    metrics_read();
    CHECK_EQ((int)of("accepted_total", "127.0.0.1:80"), 1);
    CHECK_EQ((int)of("refused_total", "127.0.0.1:80"), 2);
    CHECK_EQ((int)of("connections_live", "127.0.0.1:80"), 1);
    CHECK_EQ((int)of("connections_max", "127.0.0.1:80"), 1);
    coir_close(one);
    coir_listener_close(listener);
}

TEST_SIM(a_listener_at_its_limit_is_full)
{
    coir_listener *listener;
    coir_stream *one, *two;
    coir_listen_options options = COIR_LISTEN_OPTIONS;
    options.connections_max = 1;
    CHECK_EQ(coir_tcp_listen_with("127.0.0.1:80", &options, &listener), 0);
    COIR_SCOPE(scope);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(coir_go(scope, dial, "127.0.0.1:80"), 0);
    CHECK_EQ(coir_accept(listener, &one), 0);
    {
        COIR_DEADLINE(coir_in(COIR_S));
        CHECK_EQ(coir_accept(listener, &two), -ETIME);
    }
    metrics_read();
    CHECK_EQ((int)of("full", "127.0.0.1:80"), 1);
    CHECK_EQ((int)of("refused_total", "127.0.0.1:80"), 0);
    coir_close(one);
    CHECK_EQ(coir_accept(listener, &two), 0);
    metrics_read();
    CHECK_EQ((int)of("full", "127.0.0.1:80"), 0);
    CHECK_EQ((int)of("accepted_total", "127.0.0.1:80"), 2);
    coir_close(two);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_listener_close(listener);
}

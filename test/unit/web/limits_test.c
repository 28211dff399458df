/* The options of a server: what is refused, and what is filled in. */
#include "web/limits.h"

#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"

static char line[512];

static void keep_line(enum coir_log_level level, const char *text, void *context)
{
    (void)context;
    if (level == COIR_LOG_ERROR)
        snprintf(line, sizeof line, "%s", text);
}

static int read_given(const coir_serve_http_options *given)
{
    coir_serve_http_options options;
    coir_ws_options websocket;
    return ci_http_options_read(&options, &websocket, given);
}

static void refuse_websocket(const coir_serve_http_options *given, const char *why)
{
    *line = '\0';
    CHECK_EQ(read_given(given), -EINVAL);
    CHECK(strstr(line, why));
}

/* In fixed memory what WebSocket connections have must have a size. */
static void refuse_websockets(coir_serve_http_options given)
{
    coir_ws_options websocket = COIR_WS_OPTIONS;
    given.websocket_options = &websocket;
    websocket.message_max = COIR_UNLIMITED;
    CHECK_EQ(read_given(&given), 0); /* there is none */
    given.websockets_max = 5;
    refuse_websocket(&given, "unlimited message_max");
    websocket.message_max = 1000;
    CHECK_EQ(read_given(&given), 0);
    websocket.items_max = 65537;
    refuse_websocket(&given, "an items_max of 65536");
    websocket.items_max = 65536;
    CHECK_EQ(read_given(&given), 0);
    websocket.compression = COIR_WS_COMPRESS_STREAM;
    refuse_websocket(&given, "COIR_WS_COMPRESS_MESSAGES");
    websocket.compression = COIR_WS_COMPRESS_MESSAGES;
    CHECK_EQ(read_given(&given), 0);
    websocket.window_bits = 14;
    refuse_websocket(&given, "15 window_bits");
    websocket.compression = COIR_WS_NO_COMPRESSION;
    CHECK_EQ(read_given(&given), 0);
    given.websockets_max = COIR_UNLIMITED;
    refuse_websocket(&given, "unlimited websockets_max");
    given.fixed_memory = given.lock_memory = false;
    CHECK_EQ(read_given(&given), 0);
    websocket.ping_timeout = -1;
    CHECK_EQ(read_given(&given), -EINVAL);
}

static int refuse(void *arg)
{
    (void)arg;
    coir_serve_http_options given = COIR_SERVE_HTTP_OPTIONS;
    CHECK_EQ(read_given(&given), -EINVAL); /* neither address nor listener */
    given.address = "127.0.0.1:0";
    CHECK_EQ(read_given(&given), 0);
#define REFUSE(field, value)                 \
    do {                                     \
        coir_serve_http_options bad = given; \
        bad.field = value;                   \
        *line = '\0';                        \
        CHECK_EQ(read_given(&bad), -EINVAL); \
    } while (0)
#define REFUSE_NEGATIVE(field)                                                               \
    do {                                                                                     \
        REFUSE(field, -1);                                                                   \
        CHECK(strstr(line, "coir_serve_http_options." #field " is negative: -1 ns; 0 is ")); \
    } while (0)
    REFUSE_NEGATIVE(header_timeout);
    REFUSE_NEGATIVE(idle_timeout);
    REFUSE_NEGATIVE(body_timeout);
    REFUSE_NEGATIVE(write_timeout);
    REFUSE_NEGATIVE(drain_timeout);
    REFUSE_NEGATIVE(body_total_timeout);
    REFUSE_NEGATIVE(linger_timeout);
    REFUSE(head_max, CI_HTTP_HEAD_MAX + 1);
    REFUSE(rate_min, (1 << 30) + 1);
    REFUSE_NEGATIVE(retry_after);
    REFUSE(at_limit, (enum coir_at_limit)3);
    REFUSE(lock_memory, true);
    REFUSE(fixed_memory, true);
    CHECK(strstr(line, "fixed_memory needs limits"));
    given.connections_max = 10;
    REFUSE(fixed_memory, true);
    given.requests_max = 2;
    given.fixed_memory = given.lock_memory = true;
    CHECK_EQ(read_given(&given), 0);
    REFUSE(arena_max, COIR_UNLIMITED);
    REFUSE(requests_max, COIR_UNLIMITED);
    REFUSE(connections_max, COIR_UNLIMITED);
    REFUSE(listener, (coir_listener *)(void *)&given); /* beside an address */
    refuse_websockets(given);
    return 0;
}

TEST(bad_options_are_refused_and_negative_times_by_name)
{
    coir_runtime *runtime;
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.log = keep_line;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    CHECK_EQ(coir_runtime_run(runtime, refuse, NULL), 0);
    coir_runtime_free(runtime);
}

TEST_SIM(what_was_left_open_gets_its_default)
{
    coir_serve_http_options options, given = COIR_SERVE_HTTP_OPTIONS;
    coir_ws_options websocket;
    given.address = "127.0.0.1:0";
    given.idle_timeout = COIR_NEVER;
    given.line_max = 9000;
    CHECK_EQ(ci_http_options_read(&options, &websocket, &given), 0);
    CHECK_EQ(options.idle_timeout, COIR_NEVER);
    CHECK_EQ(options.header_timeout, 10 * COIR_S);
    CHECK_EQ(options.body_max, 1 << 30);
    CHECK_EQ(options.head_max, 8192);
    CHECK_EQ(options.line_max, 8192); /* at most head_max */
    CHECK(options.connections_max == COIR_UNLIMITED);
    given.head_max = COIR_UNLIMITED;
    CHECK_EQ(ci_http_options_read(&options, &websocket, &given), 0);
    CHECK_EQ(options.head_max, CI_HTTP_HEAD_MAX);
    CHECK_EQ(options.line_max, 9000);
    given.head_max = CI_HTTP_HEAD_MAX;
    given.rate_min = 1 << 30;
    CHECK_EQ(ci_http_options_read(&options, &websocket, &given), 0);
    given.rate_min = COIR_UNLIMITED;
    CHECK_EQ(ci_http_options_read(&options, &websocket, &given), 0);
}

TEST_SIM(what_was_left_open_of_websockets_gets_its_default)
{
    coir_serve_http_options options, given = COIR_SERVE_HTTP_OPTIONS;
    coir_ws_options websocket;
    given.address = "127.0.0.1:0";
    CHECK_EQ(ci_http_options_read(&options, &websocket, &given), 0);
    CHECK(options.websockets_max == COIR_UNLIMITED);
    CHECK(options.websocket_options == &websocket);
    CHECK_EQ(websocket.message_max, 1 << 20);
    CHECK_EQ(websocket.items_max, 1024);
    given.fixed_memory = true;
    given.connections_max = given.requests_max = 10;
    CHECK_EQ(ci_http_options_read(&options, &websocket, &given), 0);
    CHECK_EQ(options.websockets_max, 0);
    CHECK_EQ(websocket.message_max, 4096);
    CHECK_EQ(websocket.items_max, 16);
    CHECK_EQ(websocket.ping_interval, 30 * COIR_S);
}

/* WebSocket clients: the URL, and the client's side of the opening handshake (RFC 6455, 4.1). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "coir/deadline.h"
#include "coir/fiber.h"
#include "proto/characters.h"
#include "proto/http1.h"
#include "proto/sha1.h"
#include "proto/uri.h"
#include "proto/websocket_handshake.h"
#include "task/log.h"
#include "web/ws.h"
#include "web/ws_deflate.h"

enum { ADDRESS_SIZE = CI_HOST_SIZE + 16 };

/* "ws://host:port/path?query" */
struct url {
    bool secure;
    const char *authority, *target; /* host and port; path and query, as they are sent */
    size_t authority_len, target_len;
    char address[ADDRESS_SIZE]; /* for coir_tcp_connect */
    char host[CI_HOST_SIZE];    /* without brackets */
};

/* ---- the URL (RFC 6455, 3) ---- */

static const char *skip(const char *text, const char *prefix)
{
    size_t len = strlen(prefix);
    return ci_ascii_same_bytes(text, prefix, len) ? text + len : NULL;
}

/* Where the port begins, behind the colon; NULL: there is none. */
static const char *port_of(const char *authority, size_t len)
{
    const char *bracket = memchr(authority, ']', len), *from = bracket ? bracket : authority;
    const char *colon = memchr(from, ':', len - (size_t)(from - authority));
    return colon ? colon + 1 : NULL;
}

static bool split_authority(struct url *url)
{
    const char *at = url->authority, *end = at + url->authority_len, *port;
    if (!url->authority_len || url->authority_len > CI_HOST_SIZE || !ci_uri_host_is_valid(at, end))
        return false;
    port = port_of(at, url->authority_len);
    const char *host_end = port ? port - 1 : end;
    bool bracketed = *at == '[';
    if (host_end == at || (port && port == end))
        return false;
    snprintf(url->host, sizeof url->host, "%.*s", (int)(host_end - at) - 2 * bracketed,
             at + bracketed);
    snprintf(url->address, sizeof url->address, "%.*s%s", (int)url->authority_len, at,
             port          ? ""
             : url->secure ? ":443"
                           : ":80");
    return true;
}

/* A fragment has no meaning, and is not allowed; nor is what HTTP would refuse. */
static bool parse_url(const char *text, struct url *url)
{
    const char *at = skip(text, "ws://");
    url->secure = !at;
    if (!at && !(at = skip(text, "wss://")))
        return false;
    url->authority = at;
    url->authority_len = strcspn(at, "/?#");
    url->target = at + url->authority_len;
    url->target_len = strlen(url->target);
    return split_authority(url) && !memchr(url->target, '#', url->target_len) &&
           ci_chars_are(url->target, url->target_len, CI_CHAR_TARGET);
}

/* ---- the handshake ---- */

struct handshake {
    const coir_ws_options *options;
    const struct url *url;
    struct ci_ws_deflate offer;
    char key[CI_WS_KEY_LEN + 1];
    char *bytes; /* CI_HTTP_BUFFER: the request, then the answer */
    size_t len;
};

static void draw_key(struct handshake *handshake)
{
    struct ci_driver *driver = ci_worker_current->loop.driver;
    uint64_t nonce[2] = {driver->kind->random(driver), driver->kind->random(driver)};
    _Static_assert(sizeof nonce == CI_WS_NONCE, "16 bytes");
    ci_base64(nonce, sizeof nonce, handshake->key);
}

static struct ci_ws_deflate offer_of(const coir_ws_options *options)
{
    int bits = options->window_bits == CI_WS_BITS_MAX ? 0 : options->window_bits;
    bool on = options->compression != COIR_WS_NO_COMPRESSION && ci_ws_can_deflate;
    bool alone = options->compression == COIR_WS_COMPRESS_MESSAGES;
    bool drops =
        options->overflow != COIR_OVERFLOW_WAIT && options->overflow != COIR_OVERFLOW_CLOSE;
    return (struct ci_ws_deflate){.on = on,
                                  .server_resets = on && alone,
                                  .client_resets = on && (alone || drops),
                                  .client_bits_known = on,
                                  .server_bits = (uint8_t)(on ? bits : 0),
                                  .client_bits = (uint8_t)(on ? bits : 0)};
}

static void add_field(struct handshake *handshake, const char *name, const char *value)
{
    if (value)
        handshake->len +=
            (size_t)snprintf(handshake->bytes + handshake->len, CI_HTTP_BUFFER - handshake->len,
                             "%s: %s\r\n", name, value);
}

/* 0, or -EINVAL: what the program gave does not fit. */
static int write_request(struct handshake *handshake)
{
    const struct url *url = handshake->url;
    const coir_ws_options *options = handshake->options;
    char extension[CI_WS_DEFLATE_TEXT];
    size_t given = url->target_len + (options->origin ? strlen(options->origin) : 0) +
                   (options->protocols ? strlen(options->protocols) : 0);
    if (given > CI_HTTP_BUFFER / 2)
        return -EINVAL;
    const char *slash = url->target_len && url->target[0] == '/' ? "" : "/";
    handshake->len = (size_t)snprintf(handshake->bytes, CI_HTTP_BUFFER,
                                      "GET %s%s HTTP/1.1\r\nHost: %.*s\r\nUpgrade: websocket\r\n"
                                      "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n",
                                      slash, url->target, (int)url->authority_len, url->authority);
    add_field(handshake, "Sec-WebSocket-Key", handshake->key);
    add_field(handshake, "Origin", options->origin);
    add_field(handshake, "Sec-WebSocket-Protocol", options->protocols);
    if (handshake->offer.on) {
        ci_ws_write_deflate(&handshake->offer, false, extension);
        add_field(handshake, "Sec-WebSocket-Extensions", extension);
    }
    memcpy(handshake->bytes + handshake->len, "\r\n", 2);
    handshake->len += 2;
    return 0;
}

/* The length of the answer's head, behind which frames may have come. */
static int read_answer(struct handshake *handshake, coir_stream *stream,
                       struct ci_ws_answer *ret_answer)
{
    const struct ci_ws_asked asked = {handshake->key, handshake->options->protocols,
                                      &handshake->offer};
    int rc = 0;
    handshake->len = 0;
    while (rc == 0) {
        if (handshake->len == CI_HTTP_BUFFER)
            return -COIR_EPROTOCOL;
        ssize_t n =
            coir_read(stream, handshake->bytes + handshake->len, CI_HTTP_BUFFER - handshake->len);
        if (n <= 0)
            return n < 0 ? (int)n : -COIR_EEND;
        handshake->len += (size_t)n;
        rc = ci_ws_check_answer(&asked, handshake->bytes, handshake->len, ret_answer);
    }
    if (rc < 0 && ret_answer->status && ret_answer->status != 101) {
        ci_log(ci_worker_current->runtime, COIR_LOG_INFO,
               "the server at %s refuses a WebSocket connection: it answers %d, not 101; look at "
               "the path of the URL, the origin and the subprotocols",
               handshake->url->address, ret_answer->status);
        return -ECONNREFUSED;
    }
    return rc < 0 ? -COIR_EPROTOCOL : rc;
}

static int shake_hands(struct handshake *handshake, struct ci_http_worker *http,
                       coir_stream *stream, coir_ws **ret_ws)
{
    struct ci_ws_answer answer = {0};
    draw_key(handshake);
    int rc = write_request(handshake);
    if (rc == 0)
        rc = coir_write_all(stream, handshake->bytes, handshake->len);
    if (rc == 0)
        rc = read_answer(handshake, stream, &answer);
    if (rc < 0)
        return rc;
    const struct ci_ws_agreed agreed = {
        .http = http,
        .options = handshake->options,
        .deflate = answer.deflate,
        .protocol = handshake->bytes + answer.protocol.at,
        .protocol_len = answer.protocol.len,
        .client = true,
    };
    return ci_ws_new(stream, &agreed, handshake->bytes + rc, handshake->len - (size_t)rc, ret_ws);
}

/* ---- connecting ---- */

static int put_layer(const struct url *url, const coir_ws_options *options, coir_stream **stream)
{
    return url->secure ? options->layer(*stream, url->host, stream, options->layer_arg) : 0;
}

static int connect_to(const struct url *url, const coir_ws_options *options, coir_ws **ret_ws)
{
    struct ci_http_worker *http = ci_http_worker_of(ci_worker_current);
    struct handshake handshake = {.options = options, .url = url, .offer = offer_of(options)};
    coir_stream *stream = NULL;
    if (!http || !(handshake.bytes = ci_pool_take(&http->buffers)))
        return -ENOMEM;
    int rc = coir_tcp_connect(url->address, &stream);
    if (rc == 0 && (rc = put_layer(url, options, &stream)) == 0)
        rc = shake_hands(&handshake, http, stream, ret_ws);
    if (rc < 0)
        coir_close(stream);
    ci_pool_give(&http->buffers, handshake.bytes);
    return rc;
}

static bool field_is_valid(const char *value)
{
    return !value || ci_http1_is_value(value, strlen(value));
}

static int connect_with(const char *text, const coir_ws_options *given, coir_ws **ret_ws)
{
    coir_ws_options options;
    struct url url;
    int rc = ci_ws_options_read(&options, given);
    if (rc < 0)
        return rc;
    if (!field_is_valid(options.origin) || !field_is_valid(options.protocols))
        return -EINVAL;
    if (!parse_url(text, &url))
        return -COIR_EADDRESS;
    if (url.secure && !options.layer)
        return -EPROTONOSUPPORT;
    COIR_DEADLINE_AS(limit, coir_in(options.connect_timeout));
    rc = connect_to(&url, &options, ret_ws);
    return rc == -ETIME && coir_deadline_passed(limit) ? -ETIMEDOUT : rc;
}

int coir_ws_connect_with(const char *url, const coir_ws_options *options, coir_ws **ret_ws)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    if (!url || !ret_ws)
        return CI_MISUSE(-EINVAL, "url or ret_ws is NULL");
    return connect_with(url, options, ret_ws);
}

int coir_ws_connect(const char *url, coir_ws **ret_ws)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    if (!url || !ret_ws)
        return CI_MISUSE(-EINVAL, "url or ret_ws is NULL");
    return connect_with(url, NULL, ret_ws);
}

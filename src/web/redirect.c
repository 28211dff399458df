/* See redirect.h. */
#include "web/redirect.h"

#include <string.h>

#include "proto/characters.h"
#include "proto/uri.h"

static bool is_target(const char *uri, const char *path_end, const char *end)
{
    return *uri == '/' && ci_chars_are(uri, (size_t)(end - uri), CI_CHAR_TARGET) &&
           ci_uri_escapes_are_valid(uri, path_end, false);
}

int ci_redirect(coir_request *req, coir_response *res, const coir_router *router, const char *uri)
{
    struct ci_exchange *exchange = req->exchange;
    const char *end = uri + strlen(uri), *question = strchr(uri, '?'),
               *path_end = question ? question : end;
    if (exchange->target.redirected || !is_target(uri, path_end, end))
        return -COIR_EPROTOCOL;
    exchange->target =
        (struct ci_http_target){uri, question ? question + 1 : end, (size_t)(path_end - uri),
                                question ? (size_t)(end - question - 1) : 0, true};
    ci_router_match(router, "GET", 3, uri, exchange->target.path_len, &exchange->match);
    const struct ci_route *route = exchange->match.route;
    return route ? route->handler(req, res, route->arg)
                 : coir_respond_text(res, 404, "404 Not Found\n");
}

/* See redirect.h. */
#include "web/redirect.h"

#include <errno.h>
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
    const char *copy = ci_arena_copy(&exchange->arena, uri, strlen(uri));
    if (!copy)
        return -ENOMEM;
    const char *end = copy + strlen(copy), *question = strchr(copy, '?'),
               *path_end = question ? question : end;
    if (exchange->target.redirected || !is_target(copy, path_end, end))
        return -COIR_EPROTOCOL;
    exchange->target =
        (struct ci_http_target){copy, question ? question + 1 : end, (size_t)(path_end - copy),
                                question ? (size_t)(end - question - 1) : 0, true};
    ci_router_match(router, "GET", 3, copy, exchange->target.path_len, &exchange->match);
    const struct ci_route *route = exchange->match.route;
    return route ? route->handler(req, res, route->arg)
                 : coir_respond_text(res, 404, "404 Not Found\n");
}

/* The table of routes: see router.h. */
#include "web/router.h"

#include <errno.h>
#include <string.h>

#include "base/ascii.h"
#include "base/bytes.h"
#include "base/memory.h"
#include "base/options.h"
#include "proto/uri.h"
#include "proto/url_decode.h"
#include "task/current.h"

/* Of a method and of a pattern: a route's lengths are 32 bits. */
#define LENGTH_MAX (UINT32_MAX / 4)

/* Bytes of a route's text: its method, a NUL, and its line. */
static size_t text_size(const struct ci_route *route)
{
    return (size_t)route->method_len + 1 + route->line_len + 1;
}

static int new_router(const coir_router_options *given, coir_router **ret_router)
{
    if (ci_forked())
        return -COIR_EFORKED;
    coir_router_options options = COIR_ROUTER_OPTIONS;
    coir_allocator allocator;
    int rc = ci_options_read(&options, sizeof options, given);
    if (rc == 0)
        rc = ci_allocator_read(&allocator, options.allocator);
    if (rc < 0)
        return rc;
    coir_router *router = ci_alloc_zero(&allocator, sizeof *router);
    if (!router)
        return -ENOMEM;
    router->allocator = allocator;
    *ret_router = router;
    return 0;
}

int coir_router_new(coir_router **ret_router)
{
    return ret_router ? new_router(NULL, ret_router) : CI_MISUSE(-EINVAL, "ret_router is NULL");
}

int coir_router_new_with(const coir_router_options *options, coir_router **ret_router)
{
    return ret_router ? new_router(options, ret_router) : CI_MISUSE(-EINVAL, "ret_router is NULL");
}

void coir_router_free(coir_router *router)
{
    if (!router || ci_forked())
        return;
    coir_allocator allocator = router->allocator;
    for (size_t i = 0; i < router->count; i++)
        ci_free(&allocator, (void *)(uintptr_t)router->routes[i].method,
                text_size(&router->routes[i]));
    ci_free(&allocator, router->routes, router->capacity * sizeof *router->routes);
    ci_free(&allocator, router, sizeof *router);
}

/* Names of parameters are words, so that what looks like a pattern language is refused. */
static bool valid_name(const char *at, const char *end)
{
    while (at < end && (ci_ascii_is_alnum(*at) || *at == '_' || *at == '-'))
        at++;
    return at == end;
}

/* Whether the parameter that begins with "{name", up to `end`, is a second one of its name. */
static bool named_before(const char *pattern, const char *param, const char *end)
{
    for (const char *c = pattern; c < param; c++)
        if (memcmp(c, param, (size_t)(end - param)) == 0 && c[end - param] == '}')
            return true;
    return false;
}

enum { DOTS = 3 }; /* behind the name of a parameter that matches the rest of the path */

/* Whether the parameter that begins at `param` and ends before `close` has them. */
static bool has_dots(const char *param, const char *close)
{
    return close - param > DOTS && memcmp(close - DOTS, "...", DOTS) == 0;
}

/* Parameters are whole segments, with a name each; "{name...}" is the last. A pattern that no path
 * can match is refused. *ret_count: the number of parameters. */
static bool valid_pattern(const char *pattern, int *ret_count)
{
    if (*pattern != '/' || !ci_uri_escapes_are_valid(pattern, pattern + strlen(pattern), false))
        return false;
    *ret_count = 0;
    for (const char *c = pattern; *c; c++) {
        if (strchr("}*?#", *c))
            return false;
        if (*c != '{')
            continue;
        const char *close = strchr(c, '}');
        if (c[-1] != '/' || !close || close == c + 1 || (close[1] && close[1] != '/'))
            return false;
        bool rest = has_dots(c + 1, close);
        const char *name_end = close - (rest ? DOTS : 0);
        if (!valid_name(c + 1, name_end) || (rest && close[1]))
            return false;
        if (named_before(pattern, c, name_end))
            return false;
        ++*ret_count;
        c = close;
    }
    return *ret_count <= CI_HTTP_PARAMS;
}

/* The segment of a path or pattern that begins at `at`. */
static struct ci_span segment(const char *text, size_t at, size_t len)
{
    const char *slash = memchr(text + at, '/', len - at);
    return (struct ci_span){(uint32_t)at, (uint32_t)((slash ? (size_t)(slash - text) : len) - at)};
}

/* Whether two texts are equal; `escaped`: once decoded. */
static bool same_text(const char *a, size_t a_len, const char *b, size_t b_len, bool escaped)
{
    if (escaped)
        return ci_url_equal(a, a_len, b, b_len);
    return a_len == b_len && memcmp(a, b, a_len) == 0;
}

CI_INLINE bool is_method(const struct ci_route *route, const char *method, size_t len)
{
    return route->method_len == len && ci_bytes_equal(route->method, method, len);
}

static bool is_param(const char *pattern, struct ci_span part)
{
    return part.len > 2 && pattern[part.at] == '{';
}

/* Whether a parameter matches the rest of the path. */
static bool is_rest(const char *pattern, struct ci_span part)
{
    return is_param(pattern, part) &&
           has_dots(pattern + part.at + 1, pattern + part.at + part.len - 1);
}

/* Whether every path that the second matches is matched by the first. */
static bool covers(const struct ci_route *first, const struct ci_route *second)
{
    const char *a = first->pattern, *b = second->pattern;
    size_t i = 1, j = 1;
    for (;;) {
        if (i > first->pattern_len || j > second->pattern_len)
            return i > first->pattern_len && j > second->pattern_len;
        struct ci_span have = segment(a, i, first->pattern_len),
                       want = segment(b, j, second->pattern_len);
        if (is_rest(a, have))
            return true;
        if (is_param(a, have)
                ? want.len == 0 || is_rest(b, want)
                : is_param(b, want) || !same_text(a + i, have.len, b + j, want.len, true))
            return false;
        i += have.len + 1;
        j += want.len + 1;
    }
}

int coir_route(coir_router *router, const char *method, const char *pattern,
               coir_handler_fn *handler, void *arg)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!router || !method || !pattern || !handler)
        return CI_MISUSE(-EINVAL, "router, method, pattern or handler is NULL");
    int params;
    size_t method_len = strlen(method), pattern_len = strlen(pattern);
    if (method_len > LENGTH_MAX || pattern_len > LENGTH_MAX ||
        !ci_http1_is_token(method, method_len) || !valid_pattern(pattern, &params))
        return -EINVAL;
    struct ci_route route = {.method = method,
                             .pattern = pattern,
                             .method_len = (uint32_t)method_len,
                             .pattern_len = (uint32_t)pattern_len,
                             .line_len = (uint32_t)(method_len + 1 + pattern_len),
                             .has_params = params > 0,
                             .literal_len = (uint32_t)strcspn(pattern, "{"),
                             .has_escapes = strchr(pattern, '%') != NULL,
                             .handler = handler,
                             .arg = arg};
    for (size_t i = 0; i < router->count; i++)
        if (is_method(&router->routes[i], method, method_len) && covers(&router->routes[i], &route))
            return -EEXIST;
    if (ci_grow(&router->allocator, (void **)&router->routes, &router->capacity,
                sizeof *router->routes, router->count + 1) < 0)
        return -ENOMEM;
    char *text = ci_alloc(&router->allocator, text_size(&route));
    if (!text)
        return -ENOMEM;
    route.method = memcpy(text, method, method_len + 1);
    char *line = text + method_len + 1;
    memcpy(line, method, method_len);
    line[method_len] = ' ';
    route.line = line;
    route.pattern = memcpy(line + method_len + 1, pattern, pattern_len + 1);
    if (!route.has_params && !route.has_escapes) {
        uint32_t *list = &router->literals[route.line_len % CI_ROUTER_LITERALS];
        route.next = *list;
        *list = (uint32_t)router->count + 1;
    }
    router->routes[router->count++] = route;
    return 0;
}

/* Whether a pattern matches a path; fills match->params. The path has valid escapes only, and the
 * caller has set match->path_has_escapes. */
static bool route_matches(const struct ci_route *route, const char *path, size_t path_len,
                          struct ci_match *match)
{
    bool escaped = route->has_escapes || match->path_has_escapes;
    match->param_count = 0;
    if (!route->has_params)
        return same_text(route->pattern, route->pattern_len, path, path_len, escaped);
    const char *pattern = route->pattern;
    size_t p = 1, t = 1;
    for (;;) {
        if (p > route->pattern_len || t > path_len)
            return p > route->pattern_len && t > path_len;
        struct ci_span want = segment(pattern, p, route->pattern_len),
                       have = segment(path, t, path_len);
        if (is_rest(pattern, want)) {
            match->params[match->param_count++] = (struct ci_param){
                {want.at + 1, want.len - 2 - DOTS}, {(uint32_t)t, (uint32_t)(path_len - t)}};
            return true;
        }
        if (is_param(pattern, want)) {
            if (have.len == 0)
                return false;
            match->params[match->param_count++] =
                (struct ci_param){{want.at + 1, want.len - 2}, have};
        } else if (!same_text(pattern + p, want.len, path + t, have.len, escaped)) {
            return false;
        }
        p += want.len + 1;
        t += have.len + 1;
    }
}

/* Whether a route cannot match a path without escapes: its literal begin is longer than the path,
 * or differs in its last byte; or it is all literal and shorter. */
CI_INLINE bool differs(const struct ci_route *route, const char *path, size_t path_len)
{
    size_t last = route->literal_len - 1;
    return path_len <= last || path[last] != route->pattern[last] ||
           (path_len != route->pattern_len && !route->has_params);
}

/* A route without parameters and escapes that may have this line; or NULL. */
CI_INLINE const struct ci_route *literal_at(const coir_router *router, uint32_t at)
{
    return at ? &router->routes[at - 1] : NULL;
}

/* Whether the route's method and pattern are the line "METHOD path". As a method has no spaces,
 * lines that are equal have equal methods. */
CI_INLINE bool is_line(const struct ci_route *route, const char *line, size_t line_len)
{
    return route->line_len == line_len && ci_bytes_equal(route->line, line, line_len);
}

CI_INLINE void found_literal(const struct ci_route *route, struct ci_match *match)
{
    match->route = route;
    match->path_known = true;
    match->path_has_escapes = false;
    match->param_count = 0;
}

/* Among all routes, in their order. A GET route answers HEAD where no HEAD route matches. */
static void match_any(const coir_router *router, const char *method, size_t method_len,
                      const char *path, size_t path_len, struct ci_match *match)
{
    const struct ci_route *get = NULL;
    match->path_known = false;
    match->param_count = 0;
    bool head = method_len == 4 && memcmp(method, "HEAD", 4) == 0;
    match->path_has_escapes = memchr(path, '%', path_len) != NULL;
    for (size_t i = 0; i < router->count; i++) {
        const struct ci_route *route = &router->routes[i];
        if (!(route->has_escapes | match->path_has_escapes) && differs(route, path, path_len))
            continue;
        if (!route_matches(route, path, path_len, match))
            continue;
        match->path_known = true;
        if (is_method(route, method, method_len)) {
            match->route = route;
            return;
        }
        if (head && !get && is_method(route, "GET", 3))
            get = route;
    }
    match->route = get;
    if (get)
        route_matches(get, path, path_len, match); /* its parameters */
}

/* The first literal of the line's length is not it. */
static CI_NOINLINE void match_rest(const coir_router *router, const char *method, size_t method_len,
                                   const char *path, size_t path_len, struct ci_match *match)
{
    size_t line_len = method_len + 1 + path_len;
    const struct ci_route *route =
        literal_at(router, router->literals[line_len % CI_ROUTER_LITERALS]);
    if (path != method + method_len + 1)
        route = NULL; /* no line */
    while (route && !is_line(route, method, line_len))
        route = literal_at(router, route->next);
    if (route)
        found_literal(route, match);
    else
        match_any(router, method, method_len, path, path_len, match);
}

/* The route whose pattern is the path itself wins over all others: coir_route refuses one that an
 * earlier route of the same method covers. */
void ci_router_match(const coir_router *router, const char *method, size_t method_len,
                     const char *path, size_t path_len, struct ci_match *match)
{
    size_t line_len = method_len + 1 + path_len;
    const struct ci_route *route =
        literal_at(router, router->literals[line_len % CI_ROUTER_LITERALS]);
    if (ci_likely(path == method + method_len + 1 && route && is_line(route, method, line_len)))
        found_literal(route, match);
    else
        match_rest(router, method, method_len, path, path_len, match);
}

/* Appends a method to an Allow list of `len` bytes unless it is there; the new length. One that
 * does not fit is left out. */
static size_t add_method(char *text, size_t size, size_t len, const char *method)
{
    size_t n = strlen(method);
    for (size_t at = 0; at + n <= len; at++) /* said already? */
        if ((at == 0 || text[at - 1] == ' ') && memcmp(text + at, method, n) == 0 &&
            (at + n == len || text[at + n] == ','))
            return len;
    size_t comma = len ? 2 : 0;
    if (len + comma + n >= size)
        return len;
    memcpy(text + len, ", ", comma);
    memcpy(text + len + comma, method, n + 1);
    return len + comma + n;
}

size_t ci_router_allow(const coir_router *router, const char *path, size_t path_len, char *text,
                       size_t size)
{
    struct ci_match match = {.path_has_escapes = memchr(path, '%', path_len) != NULL};
    bool every = path_len == 1 && *path == '*';
    size_t len = 0;
    for (size_t i = 0; i < router->count; i++) {
        const struct ci_route *route = &router->routes[i];
        if (!every && !route_matches(route, path, path_len, &match))
            continue;
        len = add_method(text, size, len, route->method);
        if (is_method(route, "GET", 3))
            len = add_method(text, size, len, "HEAD");
    }
    return add_method(text, size, len, "OPTIONS");
}

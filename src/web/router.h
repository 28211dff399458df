/* The table of routes: finds the handler of a method and a path.
 *
 * A path or a pattern that is compared has valid escapes only (url_decode.h 1): coir_route refuses
 * other patterns, and the parser of heads other paths.
 */
#ifndef CI_WEB_ROUTER_H
#define CI_WEB_ROUTER_H

#include "proto/http1.h"
#include "web/limits.h"

struct ci_route {
    /* in one piece of memory, NUL-terminated: the method; "METHOD pattern", as a request line
     * begins; and the end of that, the pattern */
    const char *method, *line, *pattern;
    uint32_t method_len, pattern_len, line_len;
    uint32_t literal_len; /* of the pattern, before the first parameter, the slash included */
    bool has_params, has_escapes;
    uint32_t next; /* in its list of `literals` */
    coir_handler_fn *handler;
    void *arg;
};

enum { CI_ROUTER_LITERALS = 32 };

struct coir_router {
    struct ci_route *routes; /* in the order of coir_route: the first that matches wins */
    size_t count, capacity;
    /* lists of the routes without parameters and escapes, by their line's length: an index plus 1,
     * or 0 */
    uint32_t literals[CI_ROUTER_LITERALS];
    coir_allocator allocator;
};

struct ci_param {
    struct ci_span name;  /* in the pattern */
    struct ci_span value; /* in the path */
};

struct ci_match {
    const struct ci_route *route; /* NULL: none for this method */
    bool path_known;              /* some route matches the path */
    bool path_has_escapes;
    struct ci_param params[CI_HTTP_PARAMS];
    int param_count;
};

/* Soonest where the path lies one byte behind the method, as in a request line. */
void ci_router_match(const coir_router *router, const char *method, size_t method_len,
                     const char *path, size_t path_len, struct ci_match *ret_match);

/* The value of an Allow field, such as "GET, HEAD, OPTIONS": the methods that the path has routes
 * for. The path "*" stands for every path. Returns the length. */
size_t ci_router_allow(const coir_router *router, const char *path, size_t path_len, char *text,
                       size_t size);

#endif

/* Serving the embedded files: validated by entity tag, and with headers that let a page load what
 * is of this server only. */
#include "pages.h"

#include <string.h>

static const struct {
    const char *name, *value;
} headers[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cache-Control", "no-cache"}, /* ask whether it has changed */
};

static int serve_page(coir_request *req, coir_response *res, void *arg)
{
    const struct page *page = arg;
    const char *known = coir_request_header(req, "if-none-match");
    int rc = coir_response_add_header(res, "ETag", page->etag);
    for (size_t i = 0; i < sizeof headers / sizeof *headers && rc == 0; i++)
        rc = coir_response_add_header(res, headers[i].name, headers[i].value);
    if (rc < 0)
        return rc;
    bool is_known = known && strstr(known, page->etag);
    return coir_respond(res, is_known ? 304 : 200, page->type, page->bytes,
                        is_known ? 0 : page->size);
}

int pages_route(coir_router *router)
{
    int rc = 0;
    for (size_t i = 0; i < page_count && rc == 0; i++)
        rc = coir_route(router, "GET", pages[i].path, serve_page, (void *)(uintptr_t)&pages[i]);
    return rc;
}

/* The files of pages/, which the build embeds (cmake/embed.cmake). */
#ifndef SHOWCASE_PAGES_H
#define SHOWCASE_PAGES_H

#include <coir/web.h>

struct page {
    const char *path, *type, *etag;
    const unsigned char *bytes;
    size_t size;
};

extern const struct page pages[];
extern const size_t page_count;

/* The page of debug/. */
extern const struct page debug_pages[];
extern const size_t debug_page_count;

/* Adds a route for each. */
int pages_route(coir_router *router);

#endif

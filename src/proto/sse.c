/* See sse.h. */
#include "proto/sse.h"

#include <string.h>

bool ci_sse_is_line(const char *text)
{
    return !text[strcspn(text, "\r\n")];
}

size_t ci_sse_line(const char *text, const char **ret_next)
{
    size_t len = strcspn(text, "\r\n");
    const char *end = text + len;
    *ret_next = !*end ? NULL : end[0] == '\r' && end[1] == '\n' ? end + 2 : end + 1;
    return len;
}

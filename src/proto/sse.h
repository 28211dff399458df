/* Lines of server-sent events (HTML Living Standard, 9.2.5): a line ends with LF, CR or CRLF. */
#ifndef CI_PROTO_SSE_H
#define CI_PROTO_SSE_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a text is one line, without its end. */
bool ci_sse_is_line(const char *text);

/* The length of the first line of a text; *ret_next is what follows its end, NULL when it has
 * none: the line is the last. */
size_t ci_sse_line(const char *text, const char **ret_next);

#endif

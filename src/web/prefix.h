/* The first lines of an answer's head: the status, the Date field and the content type. Those of
 * the last answers are kept until the date changes, and copied as one piece into answers that have
 * the same status and type. What is kept is what response.c has written, for a status and a type
 * that it has accepted: there is one place where these lines are made. */
#ifndef CI_WEB_PREFIX_H
#define CI_WEB_PREFIX_H

#include "base/bytes.h"
#include "coir/base.h"

enum { CI_HTTP_PREFIXES = 4, CI_HTTP_PREFIX_SIZE = 112, CI_HTTP_PREFIX_TYPE_MAX = 48 };

struct ci_http_prefix {
    coir_time until; /* of the worker's clock: then the date has changed; 0: nothing is kept */
    int status;
    uint32_t type_len, len;
    char type[CI_HTTP_PREFIX_TYPE_MAX];
    char text[CI_HTTP_PREFIX_SIZE];
};

/* Where those of a status and a type are kept: statuses that are frequent are multiples of four, so
 * the upper digits count, too. */
static inline struct ci_http_prefix *ci_http_prefix_at(struct ci_http_prefix *prefixes, int status,
                                                       size_t type_len)
{
    return &prefixes[((size_t)status + ((size_t)status >> 4) + type_len) % CI_HTTP_PREFIXES];
}

/* Whether these are they, at the time `now`. */
static inline bool ci_http_prefix_holds(const struct ci_http_prefix *prefix, coir_time now,
                                        int status, const char *type, size_t type_len)
{
    return now < prefix->until && prefix->status == status && prefix->type_len == type_len &&
           ci_bytes_equal(prefix->type, type, type_len);
}

/* Writes them to `at`, where CI_HTTP_PREFIX_SIZE bytes are free; returns what is behind. */
static inline char *ci_http_prefix_put(const struct ci_http_prefix *prefix, char *at)
{
    memcpy(at, prefix->text, CI_HTTP_PREFIX_SIZE);
    return at + prefix->len;
}

/* Keeps them, if they are short enough. */
static inline void ci_http_prefix_keep(struct ci_http_prefix *prefix, coir_time now, int status,
                                       const char *type, size_t type_len, const char *text,
                                       size_t len)
{
    if (len > CI_HTTP_PREFIX_SIZE || type_len > CI_HTTP_PREFIX_TYPE_MAX)
        return;
    prefix->until = (now / COIR_S + 1) * COIR_S;
    prefix->status = status;
    prefix->type_len = (uint32_t)type_len;
    prefix->len = (uint32_t)len;
    memcpy(prefix->type, type, type_len);
    memcpy(prefix->text, text, len);
}

#endif

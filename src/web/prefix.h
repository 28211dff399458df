/* The first lines of an answer's head: the status, the Date field and the content type. Those of
 * the last answers are kept until the date changes, and copied as one piece into answers that have
 * the same status and type. When two such answers have bodies of the same length and no other
 * fields, the rest of their head is kept, too, and the next one is copied whole.
 * What is kept is what response.c has written, for a status and a type that it has accepted: there
 * is one place where these lines are made. */
#ifndef CI_WEB_PREFIX_H
#define CI_WEB_PREFIX_H

#include "base/bytes.h"
#include "coir/base.h"

enum { CI_HTTP_PREFIXES = 4, CI_HTTP_PREFIX_SIZE = 128, CI_HTTP_PREFIX_TYPE_MAX = 48 };

struct ci_http_prefix {
    coir_time until; /* of the worker's clock: then the date has changed; 0: nothing is kept */
    int status;
    uint32_t type_len, len;
    uint32_t head_len; /* of the whole head in `text`; 0: it is not kept */
    int64_t length;    /* of the last answer's body that was told */
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

/* Writes `len` bytes of them, or of the head, to `at`, where CI_HTTP_PREFIX_SIZE bytes are free;
 * returns what is behind. */
static inline char *ci_http_prefix_put(const struct ci_http_prefix *prefix, char *at, uint32_t len)
{
    enum { HALF = CI_HTTP_PREFIX_SIZE / 2 }; /* gcc copies so much without a loop */
    memcpy(at, prefix->text, HALF);
    memcpy(at + HALF, prefix->text + HALF, HALF);
    return at + len;
}

/* Keeps them, if they are short enough. */
static inline void ci_http_prefix_keep(struct ci_http_prefix *prefix, coir_time now, int status,
                                       const char *type, size_t type_len, const char *text,
                                       size_t len)
{
    if (len > CI_HTTP_PREFIX_SIZE || type_len > CI_HTTP_PREFIX_TYPE_MAX || !type_len)
        return;
    prefix->until = (now / COIR_S + 1) * COIR_S;
    prefix->status = status;
    prefix->type_len = (uint32_t)type_len;
    prefix->len = (uint32_t)len;
    prefix->head_len = 0;
    memcpy(prefix->type, type, type_len);
    memcpy(prefix->text, text, len);
}

/* Whether a whole head for a body of `length` bytes is kept, too. */
static inline bool ci_http_prefix_has_head(const struct ci_http_prefix *prefix, int64_t length)
{
    return prefix->length == length && prefix->head_len;
}

/* Tells of a head that begins with them, of an answer with a body of `length` bytes. It is kept if
 * the last one had the same length. */
static inline void ci_http_prefix_tell(struct ci_http_prefix *prefix, const char *head, size_t len,
                                       int64_t length)
{
    bool again = prefix->length == length && len <= CI_HTTP_PREFIX_SIZE;
    prefix->length = length;
    prefix->head_len = again ? (uint32_t)len : 0;
    if (again)
        memcpy(prefix->text, head, len);
}

#endif

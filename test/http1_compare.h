/* The parser, whole and in pieces, beside the oracle: for the fuzzer, and for the unit test's
 * random requests. */
#ifndef TEST_HTTP1_COMPARE_H
#define TEST_HTTP1_COMPARE_H

#include "chunked.h"
#include "http1_oracle.h"

static const struct ci_http1_limits compare_limits = {500, 2000};

static inline bool same_span(struct ci_span a, struct ci_span b, size_t len)
{
    return a.len == b.len && (a.len == 0 || a.at == b.at) && a.at <= len && a.len <= len - a.at;
}

/* What differs between two heads of `len` bytes; NULL: nothing. */
static inline const char *head_difference(const struct ci_http1_head *a,
                                          const struct ci_http1_head *b, size_t len)
{
    if (!same_span(a->method, b->method, len) || !same_span(a->target, b->target, len) ||
        !same_span(a->path, b->path, len))
        return "method, target or path";
    if (!same_span(a->query, b->query, len) || !same_span(a->host, b->host, len) ||
        a->form != b->form)
        return "query, host or form";
    if (a->minor_version != b->minor_version || a->content_length != b->content_length ||
        a->chunked != b->chunked)
        return "version or framing";
    if (a->keep_alive != b->keep_alive || a->expects_continue != b->expects_continue ||
        a->field_count != b->field_count)
        return "connection, expectation or number of fields";
    for (uint32_t i = 0; i < a->field_count; i++)
        if (!same_span(a->fields[i].name, b->fields[i].name, len) ||
            !same_span(a->fields[i].value, b->fields[i].value, len))
            return "a field";
    return NULL;
}

/* What is wrong with the parser's answer to a text that comes in two pieces; NULL: nothing. */
static inline const char *compare_heads(const char *text, size_t len, size_t cut)
{
    static struct ci_http1_head whole, pieces;
    static struct oracle oracle;
    ci_http1_head_init(&whole);
    ci_http1_head_init(&pieces);
    int rc = ci_http1_parse(&whole, &compare_limits, text, len);
    int first = cut < len ? ci_http1_parse(&pieces, &compare_limits, text, cut) : 0;
    int second = first ? first : ci_http1_parse(&pieces, &compare_limits, text, len);
    if (rc != second && !(rc < 0 && second < 0)) /* of two faults, either may be found first */
        return "it depends on where the text is cut";
    size_t expected = oracle_parse(&oracle, &compare_limits, text, len);
    if (rc > 0 ? (size_t)rc != expected : expected > 0)
        return expected ? "it refuses, or waits for more" : "it accepts";
    const char *difference = rc > 0 ? head_difference(&whole, &oracle.head, (size_t)rc) : NULL;
    return difference || rc <= 0 ? difference : head_difference(&pieces, &whole, (size_t)rc);
}

static inline const char *compare_bodies(const char *text, size_t len, size_t step)
{
    static char out[3][ABNF_TEXT_MAX];
    size_t used[3] = {0};
    int64_t whole = decode_chunked(text, len, len ? len : 1, out[0], &used[0]),
            pieces = decode_chunked(text, len, step, out[1], &used[1]);
    int64_t expected = oracle_decode(text, len, out[2], &used[2]);
    if (whole != pieces || used[0] != used[1])
        return "its body depends on where the text is cut";
    if (whole < 0 ? expected >= 0 : whole != expected || used[0] != used[2])
        return expected >= 0 ? "it refuses the body, or waits for more" : "it accepts the body";
    return whole > 0 && (memcmp(out[0], out[1], (size_t)whole) != 0 ||
                         memcmp(out[0], out[2], (size_t)whole) != 0)
               ? "another body"
               : NULL;
}

#endif

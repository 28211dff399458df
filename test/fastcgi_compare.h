/* The readers of FastCGI and of a CGI head, whole and in pieces, beside the oracle: for the fuzzer,
 * and for the unit tests' random answers. */
#ifndef TEST_FASTCGI_COMPARE_H
#define TEST_FASTCGI_COMPARE_H

#include "fastcgi_oracle.h"
#include "proto/cgi.h"
#include "proto/fastcgi.h"

/* Reads an answer that comes in pieces of `step` bytes, and takes at most `most` at once. */
static inline struct fcgi_told read_in_pieces(const unsigned char *bytes, size_t len, size_t step,
                                              size_t most)
{
    struct ci_fcgi_answer answer = {0};
    struct fcgi_told told = {0};
    size_t at = 0, come = 0;
    while (!told.wrong && answer.state != CI_FCGI_DONE) {
        size_t data;
        int64_t n = ci_fcgi_answer_frame(&answer, bytes + at, come - at, &data);
        told.wrong = n < 0;
        at += n > 0 ? (size_t)n : 0;
        if (n < 0 || answer.state == CI_FCGI_DONE)
            break;
        if (data > most)
            data = most;
        for (size_t i = 0; i < data; i++)
            told.sum = fcgi_mix(told.sum, answer.type, bytes[at + i]);
        *(answer.type == CI_FCGI_STDOUT ? &told.out : &told.err) += data;
        at += data;
        if (data)
            ci_fcgi_answer_took(&answer, data);
        else if (come == len)
            break;
        else
            come = len - come < step ? len : come + step;
    }
    told.used = at;
    told.done = answer.state == CI_FCGI_DONE;
    told.status = told.done ? answer.status : 0;
    told.app_status = told.done ? answer.app_status : 0;
    return told;
}

/* What is wrong with how an answer was read; NULL: nothing. */
static inline const char *compare_answers(const unsigned char *bytes, size_t len, size_t step,
                                          size_t most)
{
    struct fcgi_told want = fcgi_read_answer(bytes, len),
                     got = read_in_pieces(bytes, len, step, most);
    if (got.wrong != want.wrong)
        return got.wrong ? "it refuses" : "it accepts";
    if (got.wrong)
        return NULL;
    if (got.out != want.out || got.err != want.err || got.sum != want.sum)
        return "the streams";
    if (got.done != want.done || got.status != want.status || got.app_status != want.app_status)
        return "the end";
    return got.done && got.used != want.used ? "how long it is" : NULL;
}

/* A CGI head that comes in two pieces is the same as the whole; NULL: it is. */
static inline const char *compare_cgi_heads(const char *text, size_t len, size_t cut)
{
    static struct ci_cgi_head whole, pieces;
    ci_cgi_head_init(&whole);
    ci_cgi_head_init(&pieces);
    int rc = ci_cgi_parse(&whole, text, len), first = ci_cgi_parse(&pieces, text, cut),
        second = first ? first : ci_cgi_parse(&pieces, text, len);
    if (rc != second)
        return "it depends on where the text is cut";
    if (rc <= 0)
        return NULL;
    if (whole.status != pieces.status || whole.content_length != pieces.content_length ||
        whole.field_count != pieces.field_count || whole.status < 200 || whole.status > 999)
        return "status, length or number of fields";
    for (uint32_t i = 0; i < whole.field_count; i++) {
        struct ci_span name = whole.fields[i].name, value = whole.fields[i].value;
        if (memcmp(&whole.fields[i], &pieces.fields[i], sizeof pieces.fields[i]) != 0 ||
            name.at + name.len > (uint32_t)rc || value.at + value.len > (uint32_t)rc ||
            memchr(text + value.at, '\n', value.len) || memchr(text + value.at, '\r', value.len))
            return "a field";
    }
    return NULL;
}

#endif

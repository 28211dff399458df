/* The other side of FastCGI, written for tests from the specification: it makes and reads whole
 * records, and shares no code with src/proto/fastcgi.c. */
#ifndef TEST_FASTCGI_ORACLE_H
#define TEST_FASTCGI_ORACLE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Appends a record to `to`, and returns its length. */
static inline size_t fcgi_record(unsigned char *to, int type, int id, const void *content,
                                 size_t len, size_t padding)
{
    const unsigned char header[8] = {1,
                                     (unsigned char)type,
                                     (unsigned char)(id >> 8),
                                     (unsigned char)id,
                                     (unsigned char)(len >> 8),
                                     (unsigned char)len,
                                     (unsigned char)padding,
                                     0};
    memcpy(to, header, 8);
    if (len)
        memcpy(to + 8, content, len);
    memset(to + 8 + len, 0xee, padding);
    return 8 + len + padding;
}

static inline size_t fcgi_end(unsigned char *to, uint32_t app_status, int status)
{
    const unsigned char body[8] = {
        (unsigned char)(app_status >> 24), (unsigned char)(app_status >> 16),
        (unsigned char)(app_status >> 8), (unsigned char)app_status, (unsigned char)status};
    return fcgi_record(to, 3, 1, body, 8, 0);
}

/* A name-value pair at *at of `len` bytes. False: it is cut off. */
struct fcgi_pair {
    const unsigned char *name, *value;
    size_t name_len, value_len;
};

static inline bool fcgi_length(const unsigned char *bytes, size_t len, size_t *at, size_t *ret_len)
{
    if (*at >= len)
        return false;
    if (!(bytes[*at] & 0x80)) {
        *ret_len = bytes[(*at)++];
        return true;
    }
    if (len - *at < 4)
        return false;
    *ret_len = (size_t)(bytes[*at] & 0x7f) << 24 | (size_t)bytes[*at + 1] << 16 |
               (size_t)bytes[*at + 2] << 8 | bytes[*at + 3];
    *at += 4;
    return true;
}

static inline bool fcgi_pair(const unsigned char *bytes, size_t len, size_t *at,
                             struct fcgi_pair *ret_pair)
{
    struct fcgi_pair pair;
    if (!fcgi_length(bytes, len, at, &pair.name_len) ||
        !fcgi_length(bytes, len, at, &pair.value_len) || pair.name_len > len - *at ||
        pair.value_len > len - *at - pair.name_len)
        return false;
    pair.name = bytes + *at;
    pair.value = pair.name + pair.name_len;
    *at += pair.name_len + pair.value_len;
    *ret_pair = pair;
    return true;
}

/* What an answer of `len` bytes says, read at once. */
struct fcgi_told {
    size_t out, err; /* bytes of the streams */
    uint32_t sum;    /* of these, in their order, with which stream each is of */
    size_t used;     /* bytes up to the end of the answer */
    bool done, wrong;
    int status;
    uint32_t app_status;
};

static inline uint32_t fcgi_mix(uint32_t sum, int type, unsigned char byte)
{
    return (sum * 31 + (uint32_t)type) * 31 + byte;
}

static inline struct fcgi_told fcgi_read_answer(const unsigned char *bytes, size_t len)
{
    struct fcgi_told told = {0};
    bool out_ended = false;
    for (size_t at = 0, empty = 0; !told.done && len - at >= 8;) {
        const unsigned char *header = bytes + at;
        size_t content = (size_t)header[4] << 8 | header[5], left = len - at - 8;
        int type = header[1], id = header[2] << 8 | header[3];
        bool ours = id == 1 && (type == 6 || type == 7), end = id == 1 && type == 3;
        if (header[0] != 1 || ++empty > 1000 || (id != 0 && !ours && !end) ||
            (ours && type == 6 && out_ended && content) || (end && content < 8)) {
            told.wrong = true;
            return told;
        }
        out_ended |= ours && type == 6 && !content;
        size_t there = content < left ? content : left;
        for (size_t i = 0; ours && i < there; i++) {
            told.sum = fcgi_mix(told.sum, type, header[8 + i]);
            *(type == 6 ? &told.out : &told.err) += 1;
            empty = 0;
        }
        if (end && there >= 8 && header[12] > 3) {
            told.wrong = true;
            return told;
        }
        if (left < content + header[6])
            return told;
        told.done = end;
        if (end) {
            told.app_status = (uint32_t)header[8] << 24 | (uint32_t)header[9] << 16 |
                              (uint32_t)header[10] << 8 | header[11];
            told.status = header[12];
        }
        at += 8 + content + header[6];
        told.used = at;
    }
    return told;
}

#endif

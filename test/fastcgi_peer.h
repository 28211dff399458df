/* A FastCGI application for tests and scenarios: it reads a request by records, with blocking
 * calls, and answers by what the test says. It shares no code with the client. */
#ifndef TEST_FASTCGI_PEER_H
#define TEST_FASTCGI_PEER_H

#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "fastcgi_oracle.h"

/* A request that has come, up to the end of PARAMS. */
struct fcgi_request {
    coir_stream *stream;
    bool keeps, ended, aborted; /* the end of STDIN, or an abort, has come */
    size_t params_len;
    unsigned char params[50000];
    unsigned char content[65536 + 256]; /* of the last record */
};

/* Reads a record: its type, or an error; the content lies in request->content, with a NUL. */
static inline int fcgi_next_record(struct fcgi_request *request, size_t *ret_len)
{
    unsigned char header[8];
    ssize_t n = coir_read_full(request->stream, header, 8, NULL);
    if (n < 0)
        return (int)n;
    if (header[0] != 1 || header[2] != 0 || header[3] != 1 || header[7] != 0)
        return -COIR_EPROTOCOL;
    *ret_len = (size_t)header[4] << 8 | header[5];
    n = coir_read_full(request->stream, request->content, *ret_len + header[6], NULL);
    request->content[*ret_len] = '\0';
    return n < 0 ? (int)n : header[1];
}

/* Reads a request up to its body: 0 or an error. */
static inline int fcgi_accept(struct fcgi_request *request, coir_stream *stream)
{
    size_t len = 0;
    request->stream = stream;
    request->ended = request->aborted = false;
    request->params_len = 0;
    int type = fcgi_next_record(request, &len);
    if (type != 1 || len != 8 || request->content[1] != 1)
        return type < 0 ? type : -COIR_EPROTOCOL;
    request->keeps = request->content[2] & 1;
    while ((type = fcgi_next_record(request, &len)) == 4 && len) {
        if (len > sizeof request->params - request->params_len)
            return -COIR_ETOOLARGE;
        memcpy(request->params + request->params_len, request->content, len);
        request->params_len += len;
    }
    return type == 4 ? 0 : type < 0 ? type : -COIR_EPROTOCOL;
}

/* The value of a variable, in static memory; NULL: there is none. *ret_count: how many there are
 * of that name. */
static inline const char *fcgi_value_of(const struct fcgi_request *request, const char *name,
                                        int *ret_count)
{
    static char value[20000];
    struct fcgi_pair pair;
    *ret_count = 0;
    for (size_t at = 0; fcgi_pair(request->params, request->params_len, &at, &pair);)
        if (pair.name_len == strlen(name) && memcmp(pair.name, name, pair.name_len) == 0 &&
            pair.value_len < sizeof value) {
            memcpy(value, pair.value, pair.value_len);
            value[pair.value_len] = '\0';
            ++*ret_count;
        }
    return *ret_count ? value : NULL;
}

/* Reads some of the body, into request->content: the length, 0 at its end, or an error. */
static inline ssize_t fcgi_read_body(struct fcgi_request *request)
{
    size_t len = 0;
    if (request->ended)
        return 0;
    int type = fcgi_next_record(request, &len);
    request->aborted |= type == 2;
    request->ended = type == 5 && len == 0;
    return type == 5 ? (ssize_t)len : type == 2 ? -ECANCELED : type < 0 ? type : -COIR_EPROTOCOL;
}

/* Writes to a stream of the answer, in records of at most `most` bytes. */
static inline int fcgi_write(const struct fcgi_request *request, int type, const void *data,
                             size_t len, size_t most)
{
    const char *from = data;
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < len; at += most) {
        size_t n = len - at < most ? len - at : most, padding = n % 8;
        unsigned char *own = malloc(8 + most + 8);
        if (!own)
            return -ENOMEM;
        rc = coir_write_all(request->stream, own, fcgi_record(own, type, 1, from + at, n, padding));
        free(own);
    }
    return rc;
}

static inline int fcgi_write_text(const struct fcgi_request *request, const char *text)
{
    return fcgi_write(request, 6, text, strlen(text), 65535);
}

/* Ends the answer: 0, and the connection is to be kept, or not (request->keeps). */
static inline int fcgi_finish(const struct fcgi_request *request)
{
    unsigned char records[24];
    size_t len = fcgi_record(records, 6, 1, NULL, 0, 0);
    len += fcgi_end(records + len, 0, 0);
    return coir_write_all(request->stream, records, len);
}

#endif

/* A WebSocket peer that knows bytes only, beside a server of the file's `routes`: what it sends is
 * written out, and what comes back is taken apart here, by code that shares nothing with the
 * library's. */
#ifndef TEST_WEB_WIRE_H
#define TEST_WEB_WIRE_H

#include <coir/ws.h>
#include <stdio.h>

#include "client.h"

#define WS_REQUEST_WITH(fields)                                                    \
    "GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n" fields "\r\n"
#define WS_REQUEST WS_REQUEST_WITH("")

enum { WIRE_FIN = 0x80, WIRE_RSV1 = 0x40, WIRE_MOST = 1 << 21 };
enum { CONT, TEXT, BINARY, CLOSE = 8, PING, PONG };

static uint8_t wire[WIRE_MOST]; /* frames to be sent */
static size_t wire_len;

/* Adds a masked frame to what is to be sent; `first` is the first byte. */
static inline void put_frame(int first, const void *payload, size_t len)
{
    static const uint8_t key[] = {0x37, 0xfa, 0x21, 0x3d};
    CHECK(wire_len + len + 14 <= sizeof wire);
    wire[wire_len++] = (uint8_t)first;
    if (len < 126) {
        wire[wire_len++] = (uint8_t)(0x80 | len);
    } else {
        int bytes = len < 65536 ? 2 : 8;
        wire[wire_len++] = bytes == 2 ? 0xfe : 0xff;
        for (int i = bytes - 1; i >= 0; i--)
            wire[wire_len++] = (uint8_t)(len >> 8 * i);
    }
    memcpy(wire + wire_len, key, 4);
    wire_len += 4;
    for (size_t i = 0; i < len; i++)
        wire[wire_len++] = ((const uint8_t *)payload)[i] ^ key[i % 4];
}

static inline void put_text(int first, const char *text)
{
    put_frame(first, text, strlen(text));
}

static inline void put_close(int code, const char *reason)
{
    uint8_t payload[130] = {(uint8_t)(code >> 8), (uint8_t)code};
    memcpy(payload + 2, reason, strlen(reason));
    put_frame(WIRE_FIN | CLOSE, payload, 2 + strlen(reason));
}

static inline void send_wire(coir_stream *stream)
{
    send_bytes(stream, (const char *)wire, wire_len);
    wire_len = 0;
}

/* Reads up to the end of the answer's head, which lies in `answer` then. */
static inline int read_head(coir_stream *stream)
{
    answer_len = 0;
    do {
        CHECK(answer_len < 5000);
        if (coir_read(stream, answer + answer_len, 1) != 1)
            return -1;
        answer[++answer_len] = '\0';
    } while (answer_len < 4 || memcmp(answer + answer_len - 4, "\r\n\r\n", 4) != 0);
    return status(answer);
}

static inline coir_stream *dial_ws(const char *request)
{
    coir_stream *stream = dial();
    send_text(stream, request);
    CHECK_EQ(read_head(stream), 101);
    return stream;
}

/* A frame that came. */
struct came {
    int first; /* byte; -1: the end of the connection */
    size_t len;
    char payload[WIRE_MOST];
};
static struct came came;

/* Reads a frame of a server, which is not masked. The first byte, or -1. */
static inline int read_frame(coir_stream *stream)
{
    uint8_t head[10];
    came.first = -1;
    came.len = 0;
    if (coir_read_full(stream, head, 2, NULL) < 0)
        return -1;
    CHECK(!(head[1] & 0x80));
    int more = head[1] == 126 ? 2 : head[1] == 127 ? 8 : 0;
    if (more)
        CHECK_EQ(coir_read_full(stream, head + 2, (size_t)more, NULL), more);
    else
        came.len = head[1];
    for (int i = 0; i < more; i++)
        came.len = came.len << 8 | head[2 + i];
    CHECK(came.len < sizeof came.payload);
    if (came.len)
        CHECK_EQ(coir_read_full(stream, came.payload, came.len, NULL), came.len);
    came.payload[came.len] = '\0';
    return came.first = head[0];
}

/* The code in the close frame that came, 1005 without one; 0: it is no close frame. */
static inline int came_code(void)
{
    if (came.first != (WIRE_FIN | CLOSE))
        return 0;
    return came.len < 2 ? 1005 : (uint8_t)came.payload[0] << 8 | (uint8_t)came.payload[1];
}

#endif

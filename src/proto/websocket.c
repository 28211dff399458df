#include "proto/websocket.h"

#include <string.h>

#include "base/check.h"
#include "proto/utf8.h"

enum { FIN = 0x80, RSV1 = 0x40, RSV_OTHER = 0x30, OPCODE = 0x0f, MASKED = 0x80, LENGTH = 0x7f };

/* ---- heads in ---- */

static bool first_byte_is_valid(const struct ci_ws_frames *frames, uint8_t byte)
{
    int opcode = byte & OPCODE;
    if (byte & RSV_OTHER)
        return false;
    if (ci_ws_is_control(opcode))
        return opcode <= CI_WS_PONG && byte & FIN && !(byte & RSV1);
    if (byte & RSV1 && (!frames->deflates || opcode == CI_WS_CONTINUATION))
        return false;
    return opcode <= CI_WS_BINARY && frames->in_message == (opcode == CI_WS_CONTINUATION);
}

static bool second_byte_is_valid(const struct ci_ws_frames *frames, uint8_t byte)
{
    bool control = ci_ws_is_control(frames->bytes[0] & OPCODE);
    return frames->masked == !!(byte & MASKED) && !(control && (byte & LENGTH) > CI_WS_CONTROL_MAX);
}

/* How long the head is whose first two bytes are known. */
static size_t head_len(uint8_t second)
{
    size_t length = (second & LENGTH) == 126 ? 2 : (second & LENGTH) == 127 ? 8 : 0;
    return 2 + length + (second & MASKED ? CI_WS_KEY : 0);
}

/* Big-endian. */
static uint64_t number_of(const uint8_t *at, size_t len)
{
    uint64_t number = 0;
    for (size_t i = 0; i < len; i++)
        number = number << 8 | at[i];
    return number;
}

/* The length in its shortest form, below 2^63 (5.2). */
static int read_length(const uint8_t *bytes, uint64_t *ret_len)
{
    uint8_t small = bytes[1] & LENGTH;
    if (small < 126) {
        *ret_len = small;
        return 0;
    }
    uint64_t len = number_of(bytes + 2, small == 126 ? 2 : 8);
    if (len <= (small == 126 ? 125u : UINT16_MAX) || len > INT64_MAX)
        return -CI_WS_PROTOCOL_ERROR;
    *ret_len = len;
    return 0;
}

static int finish(struct ci_ws_frames *frames)
{
    struct ci_ws_head *head = &frames->head;
    const uint8_t *bytes = frames->bytes;
    int rc = read_length(bytes, &head->len);
    if (rc < 0)
        return rc;
    head->opcode = bytes[0] & OPCODE;
    head->fin = bytes[0] & FIN;
    head->deflated = bytes[0] & RSV1;
    memset(head->key, 0, CI_WS_KEY);
    if (frames->masked)
        memcpy(head->key, bytes + frames->have - CI_WS_KEY, CI_WS_KEY);
    if (!ci_ws_is_control(head->opcode))
        frames->in_message = !head->fin;
    frames->have = 0;
    return 1;
}

int ci_ws_parse_head(struct ci_ws_frames *frames, const void *bytes, size_t len, size_t *ret_used)
{
    const uint8_t *at = bytes, *end = at + len;
    ci_check(frames->have < CI_WS_HEAD_MAX, "websocket.h 1");
    int rc = 0;
    while (at < end && rc == 0) {
        uint8_t byte = *at++;
        frames->bytes[frames->have++] = byte;
        if ((frames->have == 1 && !first_byte_is_valid(frames, byte)) ||
            (frames->have == 2 && !second_byte_is_valid(frames, byte)))
            rc = -CI_WS_PROTOCOL_ERROR;
        else if (frames->have >= 2 && frames->have == head_len(frames->bytes[1]))
            rc = finish(frames);
    }
    if (rc < 0)
        frames->have = 0;
    *ret_used = (size_t)(at - (const uint8_t *)bytes);
    return rc;
}

/* ---- heads out ---- */

/* Bytes of a length that does not fit into seven bits. */
static size_t length_size(uint64_t len)
{
    return len > UINT16_MAX ? 8 : len > 125 ? 2 : 0;
}

size_t ci_ws_head_len(uint64_t len, bool masked)
{
    return 2 + length_size(len) + (masked ? CI_WS_KEY : 0u);
}

size_t ci_ws_write_head(uint8_t *to, const struct ci_ws_head *head, bool masked)
{
    size_t length = length_size(head->len);
    uint8_t small = length == 8 ? 127 : length == 2 ? 126 : (uint8_t)head->len, *at = to;
    *at++ = (uint8_t)((head->fin ? FIN : 0) | (head->deflated ? RSV1 : 0) | head->opcode);
    *at++ = (uint8_t)((masked ? MASKED : 0) | small);
    for (size_t i = length; i > 0; i--)
        *at++ = (uint8_t)(head->len >> 8 * (i - 1));
    if (masked)
        at = (uint8_t *)memcpy(at, head->key, CI_WS_KEY) + CI_WS_KEY;
    return (size_t)(at - to);
}

/* ---- masks ---- */

typedef uint8_t vector __attribute__((vector_size(16)));
enum { STEP = 4 * sizeof(vector) };

/* Vectors are loaded and stored by memcpy: nothing need be aligned. */
void ci_ws_mask(void *to, const void *from, size_t len, const uint8_t key[CI_WS_KEY],
                uint64_t offset)
{
    uint8_t *out = to, turned[sizeof(vector)];
    const uint8_t *in = from;
    vector mask, parts[4];
    for (size_t i = 0; i < sizeof turned; i++)
        turned[i] = key[(i + offset) % CI_WS_KEY];
    memcpy(&mask, turned, sizeof mask);
    for (; len >= STEP; len -= STEP, in += STEP, out += STEP) {
        memcpy(parts, in, STEP);
        for (int i = 0; i < 4; i++)
            parts[i] ^= mask;
        memcpy(out, parts, STEP);
    }
    for (; len >= sizeof mask; len -= sizeof mask, in += sizeof mask, out += sizeof mask) {
        memcpy(parts, in, sizeof mask);
        parts[0] ^= mask;
        memcpy(out, parts, sizeof mask);
    }
    for (size_t i = 0; i < len; i++)
        out[i] = in[i] ^ turned[i];
}

/* ---- close frames ---- */

/* 1004 is reserved, 1005, 1006 and 1015 are for reports on this side of the connection; 1012 to
 * 1014 are registered with IANA; 3000 and above are those of frameworks and applications. */
bool ci_ws_code_is_valid(int code)
{
    bool registered = code >= 1000 && code <= 1014;
    return (registered && (code < 1004 || code > 1006)) || (code >= 3000 && code <= 4999);
}

int ci_ws_parse_close(const void *payload, size_t len)
{
    struct ci_utf8 utf8 = {0};
    if (len == 0)
        return CI_WS_NO_CODE;
    if (len == 1)
        return -CI_WS_PROTOCOL_ERROR;
    int code = (int)number_of(payload, 2);
    if (!ci_ws_code_is_valid(code))
        return -CI_WS_PROTOCOL_ERROR;
    bool text = ci_utf8_check(&utf8, (const uint8_t *)payload + 2, len - 2);
    return text && ci_utf8_is_whole(&utf8) ? code : -CI_WS_BAD_DATA;
}

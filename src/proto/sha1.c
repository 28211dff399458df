#include "proto/sha1.h"

#include <string.h>

#include "base/check.h"

enum { BLOCK = 64, BLOCKS_MAX = 2, ROUNDS = 80 };

static uint32_t turn(uint32_t word, int by)
{
    return word << by | word >> (32 - by);
}

static uint32_t load(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* FIPS 180-4, 6.1.2. */
static void add_block(uint32_t state[5], const uint8_t *block)
{
    static const uint32_t constants[] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
    uint32_t w[ROUNDS], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    for (int i = 0; i < ROUNDS; i++) {
        w[i] = i < 16 ? load(block + 4 * i) : turn(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
        int part = i / 20;
        uint32_t f = part == 0   ? (b & c) | (~b & d)
                     : part == 2 ? (b & c) | (b & d) | (c & d)
                                 : b ^ c ^ d;
        uint32_t next = turn(a, 5) + f + e + constants[part] + w[i];
        e = d;
        d = c;
        c = turn(b, 30);
        b = a;
        a = next;
    }
    const uint32_t sums[] = {a, b, c, d, e};
    for (int i = 0; i < 5; i++)
        state[i] += sums[i];
}

void ci_sha1(const void *text, size_t len, uint8_t digest[CI_SHA1_SIZE])
{
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    uint8_t bytes[BLOCKS_MAX * BLOCK] = {0};
    size_t blocks = (len + 9 + BLOCK - 1) / BLOCK; /* 0x80 and eight bytes of length behind it */
    ci_check(len <= CI_SHA1_TEXT_MAX, "sha1.h 1");
    memcpy(bytes, text, len);
    bytes[len] = 0x80;
    for (size_t i = 0; i < 2; i++)
        bytes[blocks * BLOCK - 1 - i] = (uint8_t)(8 * len >> 8 * i);
    for (size_t i = 0; i < blocks; i++)
        add_block(state, bytes + i * BLOCK);
    for (int i = 0; i < CI_SHA1_SIZE; i++)
        digest[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}

size_t ci_base64(const void *bytes, size_t len, char *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *at = bytes;
    char *to = text;
    for (size_t i = 0; i < len; i += 3) {
        size_t has = len - i < 3 ? len - i : 3;
        uint32_t three = 0;
        for (size_t k = 0; k < 3; k++)
            three = three << 8 | (k < has ? at[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            *to++ = k <= has ? digits[three >> (18 - 6 * k) & 63] : '=';
    }
    *to = '\0';
    return (size_t)(to - text);
}

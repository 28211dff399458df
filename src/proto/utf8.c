#include "proto/utf8.h"

#include <string.h>

#include "base/check.h"

/* The begin of a character of two bytes or more. False: none begins so. */
static bool begin(struct ci_utf8 *utf8, uint8_t byte)
{
    utf8->low = 0x80;
    utf8->high = 0xbf;
    if (byte < 0xc2 || byte > 0xf4)
        return false; /* in the middle of a character, overlong, or beyond U+10FFFF */
    utf8->left = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    switch (byte) {
    case 0xe0: utf8->low = 0xa0; break;  /* below it is overlong */
    case 0xed: utf8->high = 0x9f; break; /* above it are surrogates */
    case 0xf0: utf8->low = 0x90; break;
    case 0xf4: utf8->high = 0x8f; break;
    }
    return true;
}

/* How many bytes at the front are ASCII, in steps of 32: text is, mostly. */
static size_t count_ascii(const uint8_t *at, size_t len)
{
    size_t done = 0;
    for (; len - done >= 32; done += 32) {
        uint64_t words[4];
        memcpy(words, at + done, sizeof words);
        if ((words[0] | words[1] | words[2] | words[3]) & 0x8080808080808080u)
            break;
    }
    return done;
}

bool ci_utf8_check(struct ci_utf8 *utf8, const void *data, size_t len)
{
    const uint8_t *at = data, *end = at + len;
    ci_check(utf8->left <= 3, "utf8.h 1");
    while (at < end) {
        if (utf8->left) {
            if (*at < utf8->low || *at > utf8->high)
                return false;
            utf8->left--;
            utf8->low = 0x80;
            utf8->high = 0xbf;
            at++;
            continue;
        }
        at += count_ascii(at, (size_t)(end - at));
        for (size_t plain = 0; plain < 32 && at < end && *at < 0x80; plain++)
            at++;
        if (at < end && *at >= 0x80 && !begin(utf8, *at++))
            return false;
    }
    return true;
}

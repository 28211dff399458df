#include "base/character.h"

#include <string.h>

static bool continues(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

/* By RFC 3629: no overlong forms, no surrogates, nothing beyond U+10FFFF. */
size_t ci_character_len(const char *text)
{
    unsigned char first = (unsigned char)text[0];
    if (first < 0x80)
        return 1;
    unsigned char second = (unsigned char)text[1];
    if (first < 0xc2 || first > 0xf4 || !continues(text[1]))
        return 0;
    if (first < 0xe0)
        return 2;
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f) || !continues(text[2]))
        return 0;
    if (first < 0xf0)
        return 3;
    return continues(text[3]) ? 4 : 0;
}

bool ci_character_is_plain(const char *text, size_t len)
{
    unsigned char first = (unsigned char)text[0];
    bool is_c1 = len == 2 && first == 0xc2 && (unsigned char)text[1] < 0xa0;
    return len > 1 ? !is_c1 : len == 1 && first >= ' ' && first != 0x7f;
}

void ci_character_make_plain(char *text)
{
    for (size_t len; *text; text += len) {
        len = ci_character_len(text);
        bool plain = ci_character_is_plain(text, len);
        len = len ? len : 1;
        if (!plain)
            memset(text, '?', len);
    }
}

size_t ci_character_to_json(const char **text, char to[CI_CHARACTER_JSON])
{
    static const char digits[] = "0123456789abcdef";
    const char *at = *text;
    size_t len = ci_character_len(at);
    *text = at + (len ? len : 1);
    if (ci_character_is_plain(at, len) && *at != '"' && *at != '\\') {
        memcpy(to, at, len);
        return len;
    }
    memcpy(to, "\\ufffd", CI_CHARACTER_JSON);
    if (len == 0)
        return CI_CHARACTER_JSON;
    unsigned char code = (unsigned char)at[len - 1]; /* of C1 it is the second byte */
    to[2] = to[3] = '0';
    to[4] = digits[code >> 4];
    to[5] = digits[code & 15];
    return CI_CHARACTER_JSON;
}

size_t ci_character_cut(const char *text, size_t most)
{
    size_t len = strnlen(text, most);
    if (len < most)
        return len;
    for (size_t back = 1; back <= 3 && back <= len; back++)
        if (!continues(text[len - back]))
            return ci_character_len(text + len - back) > back ? len - back : len;
    return len;
}

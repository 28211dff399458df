#include "proto/characters.h"

const uint8_t ci_char_classes[256] = {
#define P CI_CHAR_VALUE | CI_CHAR_TARGET | CI_CHAR_PATH
#define N P | CI_CHAR_HOST | CI_CHAR_NAME
#define T P | CI_CHAR_TOKEN
#define H N | CI_CHAR_TOKEN
#define X H | CI_CHAR_HEX
    ['\t'] = CI_CHAR_VALUE,
    [' '] = CI_CHAR_VALUE,
    ['!'] = H,
    ['"'] = CI_CHAR_VALUE,
    ['#'] = CI_CHAR_TOKEN | CI_CHAR_VALUE,
    ['$'] = H,
    ['%'] = CI_CHAR_TOKEN | CI_CHAR_VALUE | CI_CHAR_TARGET | CI_CHAR_HOST,
    ['&'] = H,
    ['\''] = H,
    ['('] = N,
    [')'] = N,
    ['*'] = H,
    ['+'] = H,
    [','] = N,
    ['-'] = H,
    ['.'] = H,
    ['/'] = P,
    ['0' ... '9'] = X,
    [':'] = P,
    [';'] = N,
    ['<'] = CI_CHAR_VALUE,
    ['='] = N,
    ['>'] = CI_CHAR_VALUE,
    ['?'] = CI_CHAR_VALUE | CI_CHAR_TARGET,
    ['@'] = P,
    ['A' ... 'F'] = X,
    ['G' ... 'Z'] = H,
    ['['] = P,
    ['\\'] = CI_CHAR_VALUE,
    [']'] = P,
    ['^'] = CI_CHAR_TOKEN | CI_CHAR_VALUE,
    ['_'] = H,
    ['`'] = CI_CHAR_TOKEN | CI_CHAR_VALUE,
    ['a' ... 'f'] = X,
    ['g' ... 'z'] = H,
    ['{'] = P,
    ['|'] = T,
    ['}'] = P,
    ['~'] = H,
    [0x80 ... 0xff] = CI_CHAR_VALUE,
#undef P
#undef N
#undef T
#undef H
#undef X
};

#include "proto/characters.h"

const uint8_t ci_char_classes[256] = {
#define T CI_CHAR_TOKEN | CI_CHAR_VALUE | CI_CHAR_TARGET
#define H CI_CHAR_TOKEN | CI_CHAR_VALUE | CI_CHAR_TARGET | CI_CHAR_HOST
#define X CI_CHAR_TOKEN | CI_CHAR_VALUE | CI_CHAR_TARGET | CI_CHAR_HOST | CI_CHAR_HEX
    ['\t'] = CI_CHAR_VALUE,
    [' '] = CI_CHAR_VALUE,
    ['!'] = H,
    ['"'] = CI_CHAR_VALUE,
    ['#'] = CI_CHAR_TOKEN | CI_CHAR_VALUE,
    ['$'] = H,
    ['%'] = H,
    ['&'] = H,
    ['\''] = H,
    ['('] = CI_CHAR_VALUE | CI_CHAR_TARGET | CI_CHAR_HOST,
    [')'] = CI_CHAR_VALUE | CI_CHAR_TARGET | CI_CHAR_HOST,
    ['*'] = H,
    ['+'] = H,
    [','] = CI_CHAR_VALUE | CI_CHAR_TARGET | CI_CHAR_HOST,
    ['-'] = H,
    ['.'] = H,
    ['/'] = CI_CHAR_VALUE | CI_CHAR_TARGET,
    ['0' ... '9'] = X,
    [':'] = CI_CHAR_VALUE | CI_CHAR_TARGET,
    [';'] = CI_CHAR_VALUE | CI_CHAR_TARGET | CI_CHAR_HOST,
    ['<'] = CI_CHAR_VALUE,
    ['='] = CI_CHAR_VALUE | CI_CHAR_TARGET | CI_CHAR_HOST,
    ['>'] = CI_CHAR_VALUE,
    ['?'] = CI_CHAR_VALUE | CI_CHAR_TARGET,
    ['@'] = CI_CHAR_VALUE | CI_CHAR_TARGET,
    ['A' ... 'F'] = X,
    ['G' ... 'Z'] = H,
    ['['] = CI_CHAR_VALUE | CI_CHAR_TARGET,
    ['\\'] = CI_CHAR_VALUE,
    [']'] = CI_CHAR_VALUE | CI_CHAR_TARGET,
    ['^'] = CI_CHAR_TOKEN | CI_CHAR_VALUE,
    ['_'] = H,
    ['`'] = CI_CHAR_TOKEN | CI_CHAR_VALUE,
    ['a' ... 'f'] = X,
    ['g' ... 'z'] = H,
    ['{'] = CI_CHAR_VALUE | CI_CHAR_TARGET,
    ['|'] = T,
    ['}'] = CI_CHAR_VALUE | CI_CHAR_TARGET,
    ['~'] = H,
    [0x80 ... 0xff] = CI_CHAR_VALUE,
#undef T
#undef H
#undef X
};

/* Characters of UTF-8 in names, which come from the program and may be any bytes: for texts that
 * are to be valid UTF-8, and for copies that are cut. Safe in a signal handler. */
#ifndef CI_BASE_CHARACTER_H
#define CI_BASE_CHARACTER_H

#include "base/compiler.h"

/* How many bytes the character takes that `text` begins with, which ends with a NUL; 0: it is not
 * UTF-8. */
size_t ci_character_len(const char *text);

/* Whether it may be shown: it is UTF-8, and no control character, which a terminal would obey. */
bool ci_character_is_plain(const char *text, size_t len);

/* Puts a question mark in the place of each byte of what may not be shown. */
void ci_character_make_plain(char *text);

/* The character that *text begins with, or a byte that begins none, as it stands in a string of
 * JSON: the length of that. *text is behind it then. */
enum { CI_CHARACTER_JSON = 6 };
size_t ci_character_to_json(const char **text, char to[CI_CHARACTER_JSON]);

/* How many bytes of the text to copy where there is room for `most`: no part of a character. */
size_t ci_character_cut(const char *text, size_t most);

#endif

/* Names for addresses of code. */
#ifndef CI_SYS_SYMBOL_H
#define CI_SYS_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>

#include "sys/thread_trace.h"

/* Whether this build reads debugging information: functions that were inlined, files and lines.
 * Otherwise there is what the dynamic linker knows: a file, and the address in it that addr2line
 * understands; and the name of a function, if the file exports it. */
extern const bool ci_has_symbols;

/* Writes a stack as text, a line for each frame; returns its length. It is cut, after a whole line,
 * to fit `size`, which is not 0. May allocate, and take locks of the dynamic linker. */
size_t ci_symbol_write(const struct ci_traced *traced, char *text, size_t size);

/* Writes the name of the variable that an address lies in, cut to fit. False: it is not known. */
bool ci_symbol_variable(const void *address, char *name, size_t size);

/* Writes the build id of the program, in hexadecimal digits; "" if it has none. */
enum { CI_BUILD_ID = 2 * 32 + 1 };
void ci_build_id(char text[CI_BUILD_ID]);

#endif

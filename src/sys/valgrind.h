/* Support for programs that run under valgrind. Its own header is not used, so that a library which
 * was built where valgrind is not installed supports them as well. */
#ifndef CI_SYS_VALGRIND_H
#define CI_SYS_VALGRIND_H

#include <stdbool.h>

/* Whether the program runs under it. valgrind intercepts some system calls, and does not support
 * others. */
bool ci_under_valgrind(void);

/* Tells valgrind that [start, end) is a stack: a switch to it is not a very large frame. */
void ci_valgrind_register_stack(const void *start, const void *end);

#endif

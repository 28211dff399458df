/* What valgrind has to be told, and where it has to be gone round. Its own header is not used, so that a library which was built
 * where valgrind is not installed serves programs that run under it. */
#ifndef CI_SYS_VALGRIND_H
#define CI_SYS_VALGRIND_H

#include <stdbool.h>

/* Whether the program runs under it: it knows some system calls too well and others not at all. */
bool ci_under_valgrind(void);

/* A switch to [start, end) is a switch of stacks, not a very large frame. */
void ci_valgrind_register_stack(const void *start, const void *end);

#endif

/* Whether the program runs under valgrind, which knows some system calls too well and others not at
 * all. */
#ifndef CI_SYS_VALGRIND_H
#define CI_SYS_VALGRIND_H

#include <stdbool.h>

bool ci_under_valgrind(void);

#endif

/* The standard input, output and error of the process, descriptors 0 to 2. */
#ifndef CI_SYS_STDIO_H
#define CI_SYS_STDIO_H

/* Takes the numbers of those that are closed, so that no other descriptor gets them: what is
 * written to standard error would go into a socket. Reading or writing them fails with -EBADF as
 * before. To be called while there is one thread. 0, or why /dev/null cannot be opened. */
int ci_stdio_reserve(void);

#endif

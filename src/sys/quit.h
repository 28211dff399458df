/* SIGQUIT, for one thread that waits for it, where it would end the process otherwise: a program
 * that handles or ignores it by itself keeps that. */
#ifndef CI_SYS_QUIT_H
#define CI_SYS_QUIT_H

#include <stdbool.h>

/* False: the signal has no default effect, and nothing was done. */
bool ci_quit_begin(void);
/* Waits for the next one. False: ci_quit_stop was called. */
bool ci_quit_wait(void);
void ci_quit_stop(void);
/* After the thread has ended: the default effect again, unless the program has a handler now. */
void ci_quit_end(void);

#endif

/* Pseudo-terminals, as children have them. */
#ifndef CI_SIM_KERNEL_PTY_H
#define CI_SIM_KERNEL_PTY_H

#include "sim/kernel/kernel.h"

/* The terminal of a pty, opened once more, as the controlling one of a session: `signal(arg,
 * number)` is called when its leader is to get a signal. NULL: `fd` is no pty. */
struct ci_kfile *ci_kpty_control(coir_fd fd, void (*signal)(void *arg, int number), void *arg);

/* The leader of the session has ended: whatever has the terminal open sees its end. */
void ci_kpty_hang_up(struct ci_kfile *terminal);

#endif

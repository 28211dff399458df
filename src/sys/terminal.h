/* Terminals and pseudo-terminals. */
#ifndef CI_SYS_TERMINAL_H
#define CI_SYS_TERMINAL_H

#include <sys/ioctl.h>
#include <termios.h>

#include "sys/signal.h"

/* The values of enum coir_terminal_mode. */
enum ci_terminal_mode { CI_TERMINAL_FOUND, CI_TERMINAL_CBREAK, CI_TERMINAL_RAW, CI_TERMINAL_MODES };

/* A terminal whose mode may be changed. It is all zero but for `fd` at first. */
struct ci_terminal {
    coir_fd fd;
    enum ci_terminal_mode mode;
    uint64_t device;
    struct ci_terminal
        *next; /* in a list of those that have another mode than they were found in */
    struct ci_signal_guard guard;
    struct termios modes[CI_TERMINAL_MODES];
};

/* Opens the terminal behind a descriptor again, without blocking: flags of the new descriptor are
 * not shared with other processes. -ENOTTY it is no terminal; other errors of open(2). */
coir_fd ci_sys_terminal_open(coir_fd fd);

/* Sets the mode of a terminal. While it is not CI_TERMINAL_FOUND, what was found is restored
 * whenever the process ends or stops (sys/signal.h, guards). -EBUSY another ci_terminal has changed
 * the same one's; -EIO the terminal is gone. CI_TERMINAL_FOUND also fails with the mode left. */
int ci_sys_terminal_set_mode(struct ci_terminal *terminal, enum ci_terminal_mode mode);

int ci_sys_terminal_size(coir_fd fd, struct winsize *ret_size);
int ci_sys_terminal_set_size(coir_fd fd, const struct winsize *size);

/* A new pseudo-terminal: a descriptor of the side that has no program, which does not block. */
coir_fd ci_sys_pty_open(void);

/* Opens the terminal of a pseudo-terminal, without making it the process's controlling one. */
coir_fd ci_sys_pty_open_terminal(coir_fd pty);

#endif

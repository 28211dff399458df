/* sys/terminal.h: a simulated system has no terminals. */
#include "sys/terminal.h"

#include <errno.h>

coir_fd ci_sys_terminal_open(coir_fd fd)
{
    (void)fd;
    return -ENOTSUP;
}

int ci_sys_terminal_set_mode(struct ci_terminal *terminal, enum ci_terminal_mode mode)
{
    (void)terminal, (void)mode;
    return -ENOTSUP;
}

int ci_sys_terminal_size(coir_fd fd, struct winsize *ret_size)
{
    (void)fd, (void)ret_size;
    return -ENOTSUP;
}

int ci_sys_terminal_set_size(coir_fd fd, const struct winsize *size)
{
    (void)fd, (void)size;
    return -ENOTSUP;
}

coir_fd ci_sys_pty_open(void)
{
    return -ENOTSUP;
}

coir_fd ci_sys_pty_open_terminal(coir_fd pty)
{
    (void)pty;
    return -ENOTSUP;
}

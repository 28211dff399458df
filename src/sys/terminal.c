/* Terminals, by termios(3) and the calls of a pty(7).
 *
 * 1. What signal handlers read of a terminal is complete before it is guarded.
 */
#include "sys/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/check.h"
#include "sys/call.h"
#include "sys/result.h"

/* Of kernels newer than the headers. */
#if defined(__linux__) && !defined(TIOCGPTPEER)
#define TIOCGPTPEER _IO('T', 0x41)
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ci_terminal *changed; /* guarded by `lock` */

/* ---- opening ---- */

coir_fd ci_sys_terminal_open(coir_fd fd)
{
    char path[PATH_MAX] = "/dev/tty"; /* may be opened also where the terminal is another user's */
    if (!isatty(fd))
        return errno == EBADF ? -EBADF : -ENOTTY;
    int rc = tcgetsid(fd) < 0 ? ttyname_r(fd, path, sizeof path) : 0;
    return rc ? -rc : (coir_fd)ci_result(open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
}

/* The same for every descriptor of a terminal, however it was opened. */
static uint64_t device_of(coir_fd fd)
{
    struct stat what = {.st_rdev = 0};
#if defined(TIOCGDEV)
#if defined(__GLIBC__)
    const unsigned long request = TIOCGDEV;
#else
    const int request = (int)TIOCGDEV; /* musl's ioctl takes an int */
#endif
    unsigned device;
    if (ioctl(fd, request, &device) == 0)
        return device;
#endif
    fstat(fd, &what);
    return what.st_rdev;
}

/* ---- modes ---- */

static void make_modes(struct termios modes[CI_TERMINAL_MODES], const struct termios *found)
{
    struct termios *cbreak = &modes[CI_TERMINAL_CBREAK], *raw = &modes[CI_TERMINAL_RAW];
    modes[CI_TERMINAL_FOUND] = *cbreak = *raw = *found;
    cbreak->c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw->c_iflag &= ~(tcflag_t)(IGNBRK | BRKINT | PARMRK | ISTRIP | INLCR | IGNCR | ICRNL | IXON);
    raw->c_oflag &= ~(tcflag_t)OPOST;
    raw->c_lflag &= ~(tcflag_t)(ECHO | ECHONL | ICANON | ISIG | IEXTEN);
    raw->c_cflag = (raw->c_cflag & ~(tcflag_t)(CSIZE | PARENB)) | CS8;
    cbreak->c_cc[VMIN] = raw->c_cc[VMIN] = 1;
    cbreak->c_cc[VTIME] = raw->c_cc[VTIME] = 0;
}

/* TCSANOW: output that the terminal does not take (^S) would keep the others waiting. */
static int put(const struct ci_terminal *terminal, enum ci_terminal_mode mode)
{
    int rc;
    do
        rc = (int)ci_result(tcsetattr(terminal->fd, TCSANOW, &terminal->modes[mode]));
    while (rc == -EINTR);
    return rc;
}

/* The modes of a terminal are those of the programs in its foreground. */
static bool in_background(const struct ci_terminal *terminal)
{
    pid_t foreground = tcgetpgrp(terminal->fd);
    return foreground >= 0 && foreground != getpgrp();
}

/* Unless it is in the background; should it go there meanwhile, it is not stopped (SIGTTOU). */
static int put_in_foreground(const struct ci_terminal *terminal, enum ci_terminal_mode mode)
{
    sigset_t stop, before;
    if (in_background(terminal))
        return 0;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTTOU);
    pthread_sigmask(SIG_BLOCK, &stop, &before);
    int rc = put(terminal, mode);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static void leave(void *terminal)
{
    put_in_foreground(terminal, CI_TERMINAL_FOUND);
}

static void resume(void *arg)
{
    const struct ci_terminal *terminal = arg;
    put_in_foreground(terminal, ci_load(&terminal->mode));
}

static bool is_changed(uint64_t device)
{
    const struct ci_terminal *other = changed;
    while (other && other->device != device)
        other = other->next;
    return other;
}

/* From now on the mode may be another than the one that is found. */
static int begin(struct ci_terminal *terminal)
{
    struct termios found;
    ci_check(!terminal->mode, "sys/terminal.c 1");
    if (tcgetattr(terminal->fd, &found) < 0)
        return -errno;
    make_modes(terminal->modes, &found);
    terminal->device = device_of(terminal->fd);
    terminal->guard = (struct ci_signal_guard){.leave = leave, .resume = resume, .arg = terminal};
    if (is_changed(terminal->device))
        return -EBUSY;
    int rc = ci_signal_guard(&terminal->guard);
    if (rc < 0)
        return rc;
    terminal->next = changed;
    changed = terminal;
    return 0;
}

static void end(struct ci_terminal *terminal)
{
    struct ci_terminal **at = &changed;
    while (*at != terminal)
        at = &(*at)->next;
    *at = terminal->next;
    ci_signal_unguard(&terminal->guard);
}

static int change(struct ci_terminal *terminal, enum ci_terminal_mode mode)
{
    enum ci_terminal_mode before = terminal->mode;
    int rc = before ? 0 : begin(terminal);
    if (rc < 0)
        return rc;
    ci_store(&terminal->mode, mode); /* also if it is stopped before the next line */
    rc = put(terminal, mode);
    if (rc < 0)
        ci_store(&terminal->mode, before);
    if (!terminal->mode)
        end(terminal);
    return rc;
}

static int restore(struct ci_terminal *terminal)
{
    ci_store(&terminal->mode, CI_TERMINAL_FOUND);
    int rc = put_in_foreground(terminal, CI_TERMINAL_FOUND);
    end(terminal);
    return rc;
}

int ci_sys_terminal_set_mode(struct ci_terminal *terminal, enum ci_terminal_mode mode)
{
    int rc = 0;
    pthread_mutex_lock(&lock);
    if (mode)
        rc = change(terminal, mode);
    else if (terminal->mode)
        rc = restore(terminal);
    pthread_mutex_unlock(&lock);
    return rc;
}

/* ---- sizes ---- */

int ci_sys_terminal_size(coir_fd fd, struct winsize *ret_size)
{
    return (int)ci_result(ioctl(fd, TIOCGWINSZ, ret_size));
}

int ci_sys_terminal_set_size(coir_fd fd, const struct winsize *size)
{
    return (int)ci_result(ioctl(fd, TIOCSWINSZ, size));
}

/* ---- pseudo-terminals ---- */

coir_fd ci_sys_pty_open(void)
{
    int flags = O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK; /* Linux takes the last two as well */
    coir_fd fd = (coir_fd)ci_result(posix_openpt(flags));
    if (fd < 0)
        return fd;
    if (grantpt(fd) < 0 || unlockpt(fd) < 0) {
        int rc = -errno;
        ci_sys_close(fd);
        return rc;
    }
    return fd;
}

coir_fd ci_sys_pty_open_terminal(coir_fd pty)
{
#if defined(TIOCGPTPEER)
    return (coir_fd)ci_result(ioctl(pty, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
#else
    const char *path = ptsname(pty);
    return path ? (coir_fd)ci_result(open(path, O_RDWR | O_NOCTTY | O_CLOEXEC)) : -errno;
#endif
}

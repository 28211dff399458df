/* sys/terminal.h: pseudo-terminals, by drivers/tty/pty.c and tty_io.c of Linux 6.1. Terminals are
 * raw, whatever their mode: bytes pass as they are, nothing is echoed, and no key is a signal.
 *
 * 1. A pty lives while one of its ends is open.
 */
#include "sim/kernel/pty.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "sys/call.h"
#include "sys/terminal.h"

enum { CAPACITY = 4096 };

struct queue {
    size_t start, len;
    char bytes[CAPACITY];
};

struct pty {
    struct ci_list ends;
    struct queue to_terminal, to_pty;
    unsigned terminals; /* open, and not hung up */
    bool left;          /* the last one was closed */
    bool closed;        /* the side without a program was */
    enum ci_terminal_mode mode;
    struct winsize size;
    void (*signal)(void *arg, int number); /* NULL: it controls no session */
    void *arg;
};

struct end {
    struct ci_kfile file;
    struct ci_list link; /* of the pty's */
    struct pty *pty;
    bool is_terminal, hung_up;
};

static struct end *end_of(struct ci_kfile *file)
{
    return ci_container_of(file, struct end, file);
}

/* Wakes those who wait for the other side, or for a side. */
static void tell(const struct pty *pty, bool terminals, unsigned key)
{
    ci_list_for_each (node, &pty->ends) {
        struct end *end = ci_container_of(node, struct end, link);
        if (end->is_terminal == terminals)
            ci_kfile_wake(&end->file, key);
    }
}

/* ---- bytes ---- */

static unsigned poll_end(struct ci_kfile *file)
{
    const struct end *end = end_of(file);
    const struct pty *pty = end->pty;
    const struct queue *in = end->is_terminal ? &pty->to_terminal : &pty->to_pty,
                       *out = end->is_terminal ? &pty->to_pty : &pty->to_terminal;
    if (end->hung_up)
        return POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLERR | POLLHUP;
    return (in->len ? POLLIN | POLLRDNORM : 0u) |
           (out->len < CAPACITY ? POLLOUT | POLLWRNORM : 0u) |
           (!end->is_terminal && pty->left ? POLLHUP : 0u);
}

static ssize_t read_end(struct ci_kfile *file, const struct iovec *iov, int count)
{
    struct end *end = end_of(file);
    struct queue *in = end->is_terminal ? &end->pty->to_terminal : &end->pty->to_pty;
    size_t taken = 0;
    if (end->hung_up)
        return 0;
    if (!in->len)
        return !end->is_terminal && end->pty->left ? -EIO : -EAGAIN;
    for (int i = 0; i < count; i++)
        for (size_t at = 0; at < iov[i].iov_len && in->len; at++, taken++, in->len--) {
            ((char *)iov[i].iov_base)[at] = in->bytes[in->start];
            in->start = (in->start + 1) % CAPACITY;
        }
    tell(end->pty, !end->is_terminal, POLLOUT | POLLWRNORM);
    return (ssize_t)taken;
}

static ssize_t write_end(struct ci_kfile *file, const struct iovec *iov, int count)
{
    struct end *end = end_of(file);
    struct queue *out = end->is_terminal ? &end->pty->to_pty : &end->pty->to_terminal;
    size_t put = 0;
    if (end->hung_up)
        return -EIO;
    if (out->len == CAPACITY)
        return -EAGAIN;
    for (int i = 0; i < count; i++)
        for (size_t at = 0; at < iov[i].iov_len && out->len < CAPACITY; at++, put++)
            out->bytes[(out->start + out->len++) % CAPACITY] = ((const char *)iov[i].iov_base)[at];
    tell(end->pty, !end->is_terminal, POLLIN | POLLRDNORM);
    return (ssize_t)put;
}

/* ---- ends ---- */

static void leave_terminal(struct pty *pty)
{
    if (--pty->terminals == 0) {
        pty->left = true;
        tell(pty, false, POLLHUP);
    }
}

static void hang_up(struct pty *pty)
{
    ci_list_for_each (node, &pty->ends) {
        struct end *end = ci_container_of(node, struct end, link);
        if (end->is_terminal && !end->hung_up) {
            end->hung_up = true;
            leave_terminal(pty);
        }
    }
    tell(pty, true, 0);
}

static void signal_session(const struct pty *pty, int number)
{
    if (pty->signal)
        pty->signal(pty->arg, number);
}

static void release(struct ci_kfile *file)
{
    struct end *end = end_of(file);
    struct pty *pty = end->pty;
    ci_list_unlink(&end->link);
    if (end->is_terminal && !end->hung_up) {
        leave_terminal(pty);
    } else if (!end->is_terminal) {
        pty->closed = true;
        hang_up(pty);
        signal_session(pty, SIGHUP);
        signal_session(pty, SIGCONT);
    }
    free(end);
    if (ci_list_empty(&pty->ends)) {
        ci_check(pty->terminals == 0, "kernel/pty.c 1");
        free(pty);
    }
}

static const struct ci_kfile_type types[2] = {
    {.name = "pty", .poll = poll_end, .read = read_end, .write = write_end, .release = release},
    {.name = "terminal",
     .poll = poll_end,
     .read = read_end,
     .write = write_end,
     .release = release},
};

static struct ci_kfile *add_end(struct pty *pty, bool is_terminal)
{
    struct end *end = ci_kalloc(sizeof *end);
    ci_kfile_init(&end->file, &types[is_terminal]);
    end->pty = pty;
    end->is_terminal = is_terminal;
    ci_list_push(&pty->ends, &end->link);
    if (is_terminal) {
        pty->terminals++;
        pty->left = false;
    }
    return &end->file;
}

static struct end *find(coir_fd fd)
{
    struct ci_kfile *file = ci_kfd_find(fd);
    return file && (file->type == &types[0] || file->type == &types[1]) ? end_of(file) : NULL;
}

static int error_of_other(coir_fd fd)
{
    return ci_kfd_find(fd) ? -ENOTTY : -EBADF;
}

/* ---- sessions ---- */

struct ci_kfile *ci_kpty_control(coir_fd fd, void (*signal)(void *arg, int number), void *arg)
{
    const struct end *end = find(fd);
    if (!end)
        return NULL;
    end->pty->signal = signal;
    end->pty->arg = arg;
    return add_end(end->pty, true);
}

void ci_kpty_hang_up(struct ci_kfile *terminal)
{
    struct pty *pty = end_of(terminal)->pty;
    pty->signal = NULL;
    hang_up(pty);
}

/* ---- sys/terminal.h ---- */

static coir_fd open_terminal(struct pty *pty, bool blocks)
{
    int rc = pty->closed ? -EIO : ci_kfd_refused();
    if (rc < 0)
        return rc;
    struct ci_kfile *file = add_end(pty, true);
    file->blocking = blocks;
    return ci_kfd_install(file);
}

coir_fd ci_sys_terminal_open(coir_fd fd)
{
    ci_kcall();
    const struct end *end = find(fd);
    return end ? open_terminal(end->pty, false) : error_of_other(fd);
}

int ci_sys_terminal_set_mode(struct ci_terminal *terminal, enum ci_terminal_mode mode)
{
    ci_kcall();
    struct end *end = find(terminal->fd);
    if (!end || (!mode && !terminal->mode))
        return end ? 0 : error_of_other(terminal->fd);
    if (!terminal->mode && end->pty->mode)
        return -EBUSY;
    if (end->hung_up && mode)
        return -EIO;
    end->pty->mode = terminal->mode = mode;
    return end->hung_up ? -EIO : 0;
}

int ci_sys_terminal_size(coir_fd fd, struct winsize *ret_size)
{
    ci_kcall();
    const struct end *end = find(fd);
    if (!end || end->hung_up)
        return end ? -EIO : error_of_other(fd);
    *ret_size = end->pty->size;
    return 0;
}

int ci_sys_terminal_set_size(coir_fd fd, const struct winsize *size)
{
    ci_kcall();
    struct end *end = find(fd);
    if (!end || end->hung_up)
        return end ? -EIO : error_of_other(fd);
    end->pty->size = *size;
    signal_session(end->pty, SIGWINCH);
    return 0;
}

coir_fd ci_sys_pty_open(void)
{
    ci_kcall();
    int rc = ci_kfd_refused();
    if (rc < 0)
        return rc;
    struct pty *pty = ci_kalloc(sizeof *pty);
    ci_list_init(&pty->ends);
    return ci_kfd_install(add_end(pty, false));
}

coir_fd ci_sys_pty_open_terminal(coir_fd fd)
{
    ci_kcall();
    const struct end *end = find(fd);
    return end ? open_terminal(end->pty, true) : error_of_other(fd);
}

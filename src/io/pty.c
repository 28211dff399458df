/* Pseudo-terminals: the side without a program, as a stream. */
#include "io/pty.h"

#include <errno.h>

#include "base/check.h"
#include "base/options.h"
#include "io/io.h"
#include "io/pipe.h"
#include "sys/call.h"
#include "sys/terminal.h"

CI_LEAVES_SPARE_WORDS(struct ci_pty, coir_pty);

static const struct winsize size_default = {.ws_row = 24, .ws_col = 80};

static struct ci_pty *pty_of(const coir_pty *opaque)
{
    return (struct ci_pty *)(uintptr_t)opaque;
}

coir_fd ci_pty_fd(const coir_pty *opaque, const char *call, const void *place)
{
    const struct ci_pty *pty = pty_of(opaque);
    if (!ci_worker_current)
        return ci_no_worker();
    if (!pty->stream)
        return ci_misused(-EBADF, "the pty was not opened, or was closed", call, place);
    int rc = ci_elsewhere(pty->worker, call, place);
    return rc < 0 ? rc : pty->stream->fd;
}

int coir_pty_open(coir_pty *opaque, const struct winsize *size)
{
    struct ci_pty *pty = pty_of(opaque);
    struct ci_worker *worker = ci_worker_current;
    if (!worker)
        return ci_no_worker();
    if (!pty)
        return CI_MISUSE(-EINVAL, "pty is NULL");
    if (pty->stream)
        return CI_MISUSE(-EBUSY, "the pty is open");
    if (worker->runtime->simulated)
        return -ENOTSUP;
    coir_fd fd = ci_sys_pty_open();
    if (fd < 0)
        return fd;
    int rc = ci_sys_terminal_set_size(fd, size ? size : &size_default);
    if (rc == 0)
        rc = ci_pipe_open(worker, fd, CI_PIPE_PTY, &pty->stream);
    if (rc < 0)
        ci_sys_close(fd);
    else
        pty->worker = worker;
    return rc;
}

void coir_pty_close(coir_pty *opaque)
{
    struct ci_pty *pty = pty_of(opaque);
    if (!pty || ci_forked() || !pty->stream || CI_ELSEWHERE(pty->worker))
        return;
    ci_pipe_leave(&pty->stream);
    ci_check(!pty->stream, "io/pty.h 1");
}

coir_stream *coir_pty_stream(const coir_pty *opaque)
{
    return CI_REFUSED(!opaque, "pty is NULL") ? NULL : pty_of(opaque)->stream;
}

int coir_pty_set_size(coir_pty *opaque, const struct winsize *size)
{
    if (!opaque || !size)
        return CI_MISUSE(-EINVAL, "pty or size is NULL");
    coir_fd fd = ci_pty_fd(opaque, CI_CALL, CI_PLACE);
    return fd < 0 ? fd : ci_sys_terminal_set_size(fd, size);
}

coir_fd coir_pty_open_terminal(coir_pty *opaque)
{
    if (!opaque)
        return CI_MISUSE(-EINVAL, "pty is NULL");
    coir_fd fd = ci_pty_fd(opaque, CI_CALL, CI_PLACE);
    return fd < 0 ? fd : ci_sys_pty_open_terminal(fd);
}

/* Terminals: a stream, a mode, and a wait for the size of the window.
 *
 * 1. While a task waits for the size, the terminal is busy, and its sink attached.
 *
 * SIGWINCH says that the size may be another; SIGCONT too, because a program in the background gets
 * no SIGWINCH. What decides is the size itself, so no change is lost.
 */
#include "coir/terminal.h"

#include <errno.h>
#include <signal.h>

#include "base/check.h"
#include "base/options.h"
#include "io/io.h"
#include "io/pipe.h"
#include "sys/call.h"
#include "sys/terminal.h"
#include "task/completed.h"

#define SAME(what) ((int)COIR_TERMINAL_##what == (int)CI_TERMINAL_##what)
_Static_assert(SAME(FOUND) && SAME(CBREAK) && SAME(RAW), "sys/terminal.h has the same modes");

struct terminal {
    struct ci_worker *worker;
    coir_stream *stream; /* NULL: it was closed; over a descriptor of its own */
    struct ci_terminal sys;
    struct winsize told;
    bool busy;     /* a task waits for the size */
    bool attached; /* the sink is */
    struct ci_signal_sink sink;
};

struct storage {
    struct terminal *terminal;
};
CI_LEAVES_SPARE_WORDS(struct storage, coir_terminal);

struct terminal_op {
    coir_future future;
    struct ci_io_op io;
    coir_terminal *opaque;
    struct winsize *ret_size;
};
CI_FIBER_OP_FITS(struct terminal_op); /* as a case */
CI_LEAVES_SPARE_WORDS(struct terminal_op, coir_terminal_op);

static struct terminal *terminal_of(const coir_terminal *opaque)
{
    return ((const struct storage *)(const void *)opaque)->terminal;
}

/* An open terminal of the calling worker: 0, or an error. */
static int find(const coir_terminal *opaque, struct terminal **ret_terminal, const char *call,
                const void *place)
{
    if (!ci_worker_current)
        return ci_no_worker();
    struct terminal *terminal = terminal_of(opaque);
    if (!terminal)
        return ci_misused(-EBADF, "the terminal was not opened, or was closed", call, place);
    *ret_terminal = terminal;
    return ci_elsewhere(terminal->worker, call, place);
}

/* ---- opening and closing ---- */

static void free_terminal(struct terminal *terminal)
{
    if (terminal->sys.fd >= 0)
        ci_sys_close(terminal->sys.fd);
    ci_free(&terminal->worker->runtime->allocator, terminal, sizeof *terminal);
}

/* The mode has a descriptor of its own, because the stream may be closed earlier. */
static int open_terminal(struct terminal *terminal, coir_fd fd)
{
    int rc = terminal->sys.fd = ci_sys_terminal_open(fd);
    if (rc >= 0)
        rc = ci_sys_terminal_size(terminal->sys.fd, &terminal->told);
    coir_fd own = rc < 0 ? rc : ci_sys_terminal_open(fd);
    if (own < 0)
        return own;
    rc = ci_pipe_open(terminal->worker, own, CI_PIPE_TERMINAL, &terminal->stream);
    if (rc < 0)
        ci_sys_close(own);
    return rc;
}

int coir_terminal_open(coir_terminal *opaque, coir_fd fd)
{
    struct storage *storage = (struct storage *)(void *)opaque;
    struct ci_worker *worker = ci_worker_current;
    if (!worker)
        return ci_no_worker();
    if (!opaque)
        return CI_MISUSE(-EINVAL, "terminal is NULL");
    if (storage->terminal)
        return CI_MISUSE(-EBUSY, "the terminal is open");
    if (worker->runtime->simulated)
        return -ENOTSUP;
    struct terminal *terminal = ci_alloc_zero(&worker->runtime->allocator, sizeof *terminal);
    if (!terminal)
        return -ENOMEM;
    terminal->worker = worker;
    int rc = open_terminal(terminal, fd);
    if (rc < 0)
        free_terminal(terminal);
    else
        storage->terminal = terminal;
    return rc;
}

void coir_terminal_close(coir_terminal *opaque)
{
    struct terminal *terminal = opaque ? terminal_of(opaque) : NULL;
    if (!terminal || ci_forked() || CI_ELSEWHERE(terminal->worker))
        return;
    (void)ci_sys_terminal_set_mode(&terminal->sys, CI_TERMINAL_FOUND); /* or it is gone */
    if (terminal->busy) {
        (void)CI_MISUSE(-EBUSY, "a task waits for the terminal's size; cancel it first");
        return;
    }
    struct ci_driver *driver = terminal->worker->loop.driver;
    ci_pipe_leave(&terminal->stream);
    if (terminal->attached) {
        ci_signal_detach(&terminal->sink);
        driver->kind->forget(driver, terminal->sink.eventfd);
        ci_sys_close(terminal->sink.eventfd);
    }
    free_terminal(terminal);
    ((struct storage *)(void *)opaque)->terminal = NULL;
}

coir_stream *coir_terminal_stream(const coir_terminal *opaque)
{
    if (CI_REFUSED(!opaque, "terminal is NULL"))
        return NULL;
    const struct terminal *terminal = terminal_of(opaque);
    return terminal ? terminal->stream : NULL;
}

/* ---- the mode ---- */

int coir_terminal_set_mode(coir_terminal *opaque, enum coir_terminal_mode mode)
{
    struct terminal *terminal = NULL;
    if (!opaque || (unsigned)mode >= CI_TERMINAL_MODES)
        return CI_MISUSE(-EINVAL, "terminal is NULL, or the mode is none");
    int rc = find(opaque, &terminal, CI_CALL, CI_PLACE);
    return rc < 0 ? rc : ci_sys_terminal_set_mode(&terminal->sys, (enum ci_terminal_mode)mode);
}

void coir_terminal_restore(void)
{
    ci_signal_leave();
}

/* ---- the size ---- */

static int tell_size(struct terminal *terminal, const struct winsize *size,
                     struct winsize *ret_size)
{
    *ret_size = terminal->told = *size;
    return 0;
}

int coir_terminal_size(coir_terminal *opaque, struct winsize *ret_size)
{
    struct terminal *terminal = NULL;
    struct winsize size;
    if (!opaque || !ret_size)
        return CI_MISUSE(-EINVAL, "terminal or ret_size is NULL");
    int rc = find(opaque, &terminal, CI_CALL, CI_PLACE);
    if (rc == 0)
        rc = ci_sys_terminal_size(terminal->sys.fd, &size);
    return rc < 0 ? rc : tell_size(terminal, &size, ret_size);
}

static int attach(struct terminal *terminal)
{
    if (terminal->attached)
        return 0;
    terminal->sink.wanted = (uint64_t)1 << SIGWINCH | (uint64_t)1 << SIGCONT;
    int rc = terminal->sink.eventfd = ci_sys_eventfd();
    if (rc >= 0 && (rc = ci_signal_attach(&terminal->sink)) < 0)
        ci_sys_close(terminal->sink.eventfd);
    terminal->attached = rc >= 0;
    return rc < 0 ? rc : 0;
}

/* Drops the signals that have come: from here on another one wakes the waiter again. */
static void drop_signals(struct terminal *terminal)
{
    uint64_t count;
    (void)ci_sys_read(terminal->sink.eventfd, &count, sizeof count);
    while (ci_signal_take(&terminal->sink))
        continue;
}

static bool is_same(const struct winsize *a, const struct winsize *b)
{
    return a->ws_row == b->ws_row && a->ws_col == b->ws_col && a->ws_xpixel == b->ws_xpixel &&
           a->ws_ypixel == b->ws_ypixel;
}

static coir_future *resized_poll(coir_future *future)
{
    struct terminal_op *self = ci_container_of(future, struct terminal_op, future);
    struct terminal *terminal = NULL;
    struct winsize size;
    int rc;
    COIR_BEGIN(future);
    rc = find(self->opaque, &terminal, "coir_terminal_resized", NULL);
    if (rc == 0 && terminal->busy)
        rc = -EBUSY;
    if (rc == 0)
        rc = ci_worker_current->runnable->interrupt;
    if (rc < 0 || (rc = attach(terminal)) < 0)
        COIR_RETURN(future, rc);
    for (;;) {
        drop_signals(terminal);
        if ((rc = ci_sys_terminal_size(terminal->sys.fd, &size)) < 0)
            COIR_RETURN(future, rc);
        if (!is_same(&size, &terminal->told))
            break;
        terminal->busy = true;
        COIR_AWAIT(future, ci_io_init(&self->io, NULL,
                                      &(struct ci_op){.fd = terminal->sink.eventfd,
                                                      .kind = CI_OP_FOREIGN,
                                                      .events = COIR_READ}));
        terminal = terminal_of(self->opaque);
        ci_check(terminal && terminal->busy && terminal->attached, "io/terminal.c 1");
        terminal->busy = false;
        if (self->io.future.result < 0)
            COIR_RETURN(future, self->io.future.result);
    }
    if (!ci_claim(ci_worker_current->runnable, future)) /* another case has won the select */
        COIR_RETURN(future, -ECANCELED);
    COIR_RETURN(future, tell_size(terminal, &size, self->ret_size));
}

static const coir_future_kind resized_kind =
    COIR_FUTURE_KIND("another size of a terminal", resized_poll, NULL);

coir_future *coir_terminal_resized_op(coir_terminal_op *opaque, coir_terminal *terminal,
                                      struct winsize *ret_size)
{
    struct terminal_op *op = (struct terminal_op *)(void *)opaque;
    if (!op || !terminal || !ret_size)
        return ci_completed_op(op, CI_MISUSE(-EINVAL, "op, terminal or ret_size is NULL"));
    op->opaque = terminal;
    op->ret_size = ret_size;
    return coir_future_init(&op->future, &resized_kind);
}

int coir_terminal_resized(coir_terminal *opaque, struct winsize *ret_size)
{
    coir_terminal_op op;
    struct terminal *terminal = NULL;
    if (!opaque || !ret_size)
        return CI_MISUSE(-EINVAL, "terminal or ret_size is NULL");
    int rc = find(opaque, &terminal, CI_CALL, CI_PLACE);
    if (rc < 0)
        return rc;
    return (int)ci_await_in_fiber(coir_terminal_resized_op(&op, opaque, ret_size));
}

static coir_future *make_wait(const coir_case *self, void *op)
{
    return coir_terminal_resized_op(op, self->object, self->data);
}

coir_case coir_case_resize(coir_terminal *terminal, struct winsize *ret_size)
{
    if (!terminal || !ret_size)
        return ci_completed_case(CI_MISUSE(-EINVAL, "terminal or ret_size is NULL"));
    return (coir_case){.make = make_wait, .object = terminal, .data = ret_size};
}

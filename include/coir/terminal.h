/* Terminals: keys as they are typed, the size of the window, and terminals for other programs.
 *
 *   COIR_TERMINAL(terminal);
 *   int rc = coir_terminal_open(terminal, STDIN_FILENO);
 *   if (rc == 0)
 *       rc = coir_terminal_set_mode(terminal, COIR_TERMINAL_RAW);
 *   while (rc >= 0 && (rc = (int)coir_read(coir_terminal_stream(terminal), keys, sizeof keys)) > 0)
 *       press(keys, rc);
 *
 * A terminal that the program has changed is put in order again however the program leaves it: when
 * the C block of COIR_TERMINAL is left, in exit(3), and before a signal ends or stops the program.
 * When a stopped program goes on in the foreground, the terminal gets back its mode. That holds for
 * signals with their default effect, and for coir's own reports of stack overflows. A handler of
 * the program's that ends it calls coir_terminal_restore first. It cannot hold for SIGKILL, SIGSTOP
 * and _exit(2).
 *
 * A pty is the other side of a terminal that a child process has (coir_process_options.terminal):
 * what is written to its stream is typed there, and what programs print there is read from it.
 *
 * Both belong to the worker that has opened them. Ptys and children on them need Linux. */
#ifndef COIR_TERMINAL_H
#define COIR_TERMINAL_H

#include <coir/select.h>
#include <coir/stream.h>
#include <sys/ioctl.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A terminal, usually declared by COIR_TERMINAL. It lies in its user's frame, and is zero before
 * its first use. */
typedef struct coir_terminal {
    uint64_t opaque[8];
} coir_terminal;

/* Declares a terminal: `name` is a coir_terminal pointer. When the C block is left, the terminal is
 * closed by coir_terminal_close. */
#define COIR_TERMINAL(name)                                                                      \
    coir_terminal name##_storage COIR_CLEANUP(coir_terminal_close) = {{0, 0, 0, 0, 0, 0, 0, 0}}; \
    coir_terminal *name = &name##_storage

/* What the system does with keys and output. */
enum coir_terminal_mode {
    COIR_TERMINAL_FOUND = 0,  /* what was found: usually lines, which may be edited */
    COIR_TERMINAL_CBREAK = 1, /* keys as they are typed, without echo; ^C and ^Z are signals */
    COIR_TERMINAL_RAW = 2     /* every byte as it is, in both directions */
};

/* Opens the terminal that is behind a descriptor, as 0. It is opened a second time: so nothing that
 * is done here, non-blocking reads above all, changes the descriptor for others that have it.
 * Suspends: no.  Threads: worker.  Owns: the terminal is the caller's to close; the descriptor
 * stays the caller's, and may be closed.
 * Errors: -ENOTTY it is no terminal; -EBADF; -EACCES; -EMFILE; -ENOMEM; -ENOTSUP in the simulator;
 * -EBUSY the terminal is open; -EINVAL no terminal. */
COIR_API int coir_terminal_open(coir_terminal *terminal, coir_fd fd);

/* Closes a terminal: what leaving the C block of COIR_TERMINAL does. Its mode is restored, and its
 * stream closed; one that a filter stands on (coir/filter.h) is closed with the filter. No task may
 * be waiting for its size. Does nothing to one that is not open.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_terminal_close(coir_terminal *terminal);

/* The stream of a terminal: reads keys, writes to the screen. It is closed with the terminal, or
 * earlier by coir_close; then this is NULL. A program in the background that reads is stopped, as
 * every program is (SIGTTIN). It cannot be detached.
 * Suspends: no.  Threads: owner.  Owns: the stream is the terminal's, and may be closed earlier. */
COIR_API coir_stream *coir_terminal_stream(const coir_terminal *terminal);

/* Sets the mode of a terminal. What was typed and not read yet is not lost. A program in the
 * background is stopped until it is in the foreground (SIGTTOU); to set COIR_TERMINAL_FOUND it is
 * not, because then the mode is the foreground's already.
 * Suspends: no.  Threads: owner.
 * Errors: -EBUSY another coir_terminal has set the mode of the same one; -EIO the terminal is gone,
 * or the program is in the background and cannot be stopped; -ENOMEM; -EBADF it is not open; -EXDEV
 * it is another worker's; -EINVAL no terminal, or no mode. */
COIR_API int coir_terminal_set_mode(coir_terminal *terminal, enum coir_terminal_mode mode);

/* Restores the modes of all terminals of the program, for a handler of a signal that ends it, or
 * before exec(3). After SIGCONT they have what coir_terminal_set_mode has set.
 * Suspends: no.  Threads: any, also in a signal handler. */
COIR_API void coir_terminal_restore(void);

/* Reads the size of a terminal's window.
 * Suspends: no.  Threads: owner.
 * Errors: -EIO the terminal is gone; -EBADF it is not open; -EXDEV it is another worker's; -EINVAL
 * no terminal, or nowhere for the size. */
COIR_API int coir_terminal_size(coir_terminal *terminal, struct winsize *ret_size);

/* Waits until a terminal's window has another size, and tells it. That is another one than this
 * call or coir_terminal_size has told last, or it was opened with. It has to be the terminal that
 * controls the program. Several changes in a row may be one.
 * Suspends: yes.  Threads: owner.
 * Errors: those of coir_terminal_size; those of coir_signals_open; -EBUSY another task waits for
 * it.
 * Cancel safety: an error means that the change was not told. */
COIR_SUSPENDS int coir_terminal_resized(coir_terminal *terminal, struct winsize *ret_size);

/* Storage for the future of coir_terminal_resized. */
typedef struct coir_terminal_op {
    coir_future future;
    uint64_t opaque[20];
} coir_terminal_op;
COIR_API coir_future *coir_terminal_resized_op(coir_terminal_op *op, coir_terminal *terminal,
                                               struct winsize *ret_size);

/* A change of a window's size, as a case of coir_select. As coir_terminal_resized. */
COIR_API coir_case coir_case_resize(coir_terminal *terminal, struct winsize *ret_size);

/* A pty, usually declared by COIR_PTY. It lies in its user's frame, and is zero before its first
 * use. */
typedef struct coir_pty {
    uint64_t opaque[8];
} coir_pty;

/* Declares a pty: `name` is a coir_pty pointer. When the C block is left, the pty is closed by
 * coir_pty_close. Declare it before the process that is to have it. */
#define COIR_PTY(name)                                                                 \
    coir_pty name##_storage COIR_CLEANUP(coir_pty_close) = {{0, 0, 0, 0, 0, 0, 0, 0}}; \
    coir_pty *name = &name##_storage

/* Opens a pty, with a terminal of its own. NULL for the size is 24 lines of 80 characters.
 * Suspends: no.  Threads: worker.  Owns: the pty is the caller's to close; the size is borrowed
 * until the call returns.
 * Errors: -ENOSPC too many ptys are open (kernel.pty.max); -ENOENT there are none on this system
 * (/dev/ptmx); -EMFILE; -ENOMEM; -ENOTSUP in the simulator; -EBUSY the pty is open; -EINVAL no
 * pty. */
COIR_API int coir_pty_open(coir_pty *pty, const struct winsize *size);

/* Closes a pty: what leaving the C block of COIR_PTY does. The programs on its terminal get SIGHUP;
 * where a filter stands on its stream (coir/filter.h), when the filter is closed. Does nothing to
 * one that is not open.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_pty_close(coir_pty *pty);

/* The stream of a pty: what is written is typed at its terminal, what is printed there is read.
 * Before a program has opened the terminal, a read waits; when none has it open any more, it
 * returns 0. What is written then is for the next program, until there is no more room (-EIO). A
 * program that prints stops when nothing reads (4 KiB). Closed with
 * the pty, or earlier by coir_close; then this is NULL. It cannot be detached.
 * Suspends: no.  Threads: owner.  Owns: the stream is the pty's, and may be closed earlier. */
COIR_API coir_stream *coir_pty_stream(const coir_pty *pty);

/* Sets the size of the window; the programs in the foreground of the terminal get SIGWINCH.
 * Suspends: no.  Threads: owner.
 * Errors: -EBADF it is not open; -EXDEV it is another worker's; -EINVAL no pty, or no size. */
COIR_API int coir_pty_set_size(coir_pty *pty, const struct winsize *size);

/* Opens the terminal of a pty, for the program itself, and returns the descriptor. A child gets it
 * by coir_process_options.terminal; when that child ends, it is hung up for everybody who has it
 * open. Opened after that it is a new one: the pty's stream does not end before it is closed.
 * Suspends: no.  Threads: owner.  Owns: the descriptor is the caller's to close.
 * Errors: -EMFILE; -EBADF it is not open; -EXDEV it is another worker's; -EINVAL no pty. */
COIR_API coir_fd coir_pty_open_terminal(coir_pty *pty);

#ifdef __cplusplus
}
#endif

#endif

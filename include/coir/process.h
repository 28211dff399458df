/* Child processes: started with streams to talk to them, awaited, and never left behind.
 *
 *   COIR_PROCESS(child);
 *   static const char *const command[] = {"sort", "-u", NULL};
 *   int rc = coir_process_spawn(child, command);
 *   if (rc == 0)
 *       rc = coir_process_wait(child);            its exit code
 *
 * A process lives in a C block, as the tasks of a scope do: when the block is left, for whatever
 * reason, the child and everything else in its process group is asked to end (SIGTERM), after a
 * time of grace made to end (SIGKILL), and waited for (coir_process_close). What is meant to
 * outlive its parent, as a daemon, leaves the group by setsid(2).
 *
 * The exit of the child and the end of each of its outputs are separate events. A child may close
 * its output and go on; or it ends, while a process that it has started keeps the output open. So a
 * task that waits for the exit does not read, and a task that reads to the end does not wait for
 * the exit. A child whose output is not read stops when the pipe is full (64 KiB).
 *
 * Of the descriptors of the program the child gets its standard input, output and error alone. Its
 * signals have their default effects, and none is blocked.
 *
 * The program may have a handler for SIGCHLD, or ignore the signal. If the program itself waits
 * for all children (wait(2), waitpid(2) of -1) or ignores SIGCHLD, the exit code is known from
 * Linux 6.15 on; before that coir_process_wait returns -ECHILD when the child has ended.
 *
 * It needs Linux 5.4. */
#ifndef COIR_PROCESS_H
#define COIR_PROCESS_H

#include <coir/stream.h>
#include <coir/terminal.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A child process, usually declared by COIR_PROCESS. It lies in its user's frame, and is zero
 * before its first use. */
typedef struct coir_process {
    uint64_t opaque[16];
} coir_process;

/* Declares a process: `name` is a coir_process pointer. When the C block is left, the process is
 * closed by coir_process_close. */
#define COIR_PROCESS(name)                                           \
    coir_process name##_storage COIR_CLEANUP(coir_process_close) = { \
        {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}};           \
    coir_process *name = &name##_storage

/* What a child gets as its standard input, output or error: values of the fields of
 * coir_process_options. */
enum coir_stdio {
    COIR_STDIO_INHERIT = 0,       /* what the program has; its own terminal, if it gets one */
    COIR_STDIO_NULL = -1,         /* /dev/null */
    COIR_STDIO_PIPE = -2,         /* a pipe, whose other end is a stream of the process */
    COIR_STDIO_OUT = -3,          /* as error: what is the output */
    COIR_STDIO_FIRST_FD = 1 << 20 /* descriptor 0; COIR_STDIO_FD adds to it */
};

/* In the fields `in`, `out` and `err` of coir_process_options: descriptor `fd` of the program,
 * which stays the program's. A spawn refuses a number below 0. */
#define COIR_STDIO_FD(fd) ((fd) + COIR_STDIO_FIRST_FD)

/* A limit of a child's resources, as for setrlimit(2). */
typedef struct coir_process_limit {
    int resource;        /* RLIMIT_NOFILE and the like */
    uint64_t soft, hard; /* UINT64_MAX: none */
} coir_process_limit;

/* Options of the spawn of a process. */
typedef struct coir_process_options {
    size_t size; /* sizeof(coir_process_options), set by COIR_PROCESS_OPTIONS */
    /* [the first argument] the program: a path; or without a slash a name, which is looked for in
     * the directories of PATH, in the environment that the child gets */
    const char *file;
    /* [that of the program] of the child: "NAME=value" each, then NULL */
    const char *const *environment;
    const char *directory; /* [that of the program] in which the child begins */
    int in, out, err;      /* [COIR_STDIO_INHERIT] enum coir_stdio, or COIR_STDIO_FD(fd) */
    /* [false: the child leads a group of its own] it stays in the program's process group, as
     * what reads from the terminal has to. Then coir_process_close ends the child alone, and not
     * what the child has started */
    bool share_group;
    /* [5 s; COIR_NEVER] what coir_process_close gives the child between SIGTERM and SIGKILL */
    coir_time grace;
    const coir_process_limit *limits; /* [none] what is set for the child, each resource once */
    size_t limit_count;               /* [0] how many of these; at most 16 */
    /* [none] the child leads a session of its own, which the terminal of this pty (coir/terminal.h)
     * controls. coir_process_close then sends SIGHUP too, because shells ignore SIGTERM; groups
     * that a shell has made for its jobs are the shell's to end */
    coir_pty *terminal;
} coir_process_options;

#define COIR_PROCESS_OPTIONS                                              \
    {                                                                     \
        sizeof(coir_process_options), 0, 0, 0, 0, 0, 0, false, 0, 0, 0, 0 \
    }

/* Starts a program as a child process: its output and error are those of this program, and so is
 * its input. `arguments` ends with NULL; the first one names the program. When this returns 0, the
 * program runs. The call takes the time that the system needs to load it.
 * Suspends: no.  Threads: worker.  Owns: the process is the caller's to close; the arguments are
 * borrowed until the call returns.
 * Errors: those of execve(2): -ENOENT there is no such program, -EACCES it must not be executed,
 * -ENOEXEC it is no program; those of clone(2): -EAGAIN too many processes; -EMFILE; -ENOMEM;
 * -ECANCELED or -ETIME the caller should end; -ENOTSUP in the simulator, and before Linux 5.4;
 * -EBUSY the process is open; -EINVAL no process, or no arguments; -ESRCH no worker. */
COIR_API int coir_process_spawn(coir_process *process, const char *const *arguments);

/* Starts a program as coir_process_spawn does, with options.
 * Suspends: no.  Threads: worker.  Owns: the process is the caller's to close; arguments, options
 * and what they point at are borrowed until the call returns.
 * Errors: those of coir_process_spawn; -ENOENT and -ENOTDIR no such directory; -EBADF a descriptor
 * is not open, or the pty is not; -EINVAL bad options, as a limit that there is not, or a terminal
 * of its own in the program's group; -EPERM a limit above the hard one; -EXDEV the pty is another
 * worker's; -COIR_EUNSIZED; -COIR_ENEWER. */
COIR_API int coir_process_spawn_with(coir_process *process, const char *const *arguments,
                                     const coir_process_options *options);

/* Added to the number of the signal that has killed a child, in what coir_process_wait returns. */
enum { COIR_PROCESS_KILLED = 256 };

/* Waits until the child has ended, and returns its exit code. That is 0 to 255, or
 * COIR_PROCESS_KILLED + the number of the signal that has killed the child. It says nothing about
 * the child's output, which may still be read, nor about processes that the child has started.
 * Once the child has ended, every call returns this at once.
 * Suspends: yes.  Threads: owner.
 * Errors: -ECHILD the child has ended, but the program has taken its exit code (see above); -EBUSY
 * another task waits for the exit; -EXDEV the process is another worker's; -EBADF it is not open;
 * -EINVAL no process.
 * Cancel safety: nothing is lost. */
COIR_SUSPENDS int coir_process_wait(coir_process *process);

/* Storage for the future of a wait for the end of a process. */
typedef struct coir_process_op {
    coir_future future;
    uint64_t opaque[20];
} coir_process_op;
COIR_API coir_future *coir_process_wait_op(coir_process_op *op, coir_process *process);

/* The exit of a child, as a case of coir_select; its result is what coir_process_wait returns. As
 * coir_process_wait. */
COIR_API coir_case coir_case_process(coir_process *process);

/* The stream to the standard input of a child, if that is COIR_STDIO_PIPE; otherwise NULL. It is
 * used on the worker that has started the process, and closed with it, or earlier by coir_close:
 * that tells the child that its input ends, and from then on this is NULL. Writing to what the
 * child has closed is -EPIPE. The stream cannot be detached.
 * Suspends: no.  Threads: owner.  Owns: the stream is the process's, and may be closed earlier. */
COIR_API coir_stream *coir_process_stdin(const coir_process *process);

/* The stream from the standard output of a child. As coir_process_stdin. */
COIR_API coir_stream *coir_process_stdout(const coir_process *process);

/* The stream from the standard error of a child. As coir_process_stdin. */
COIR_API coir_stream *coir_process_stderr(const coir_process *process);

/* The process id of the child. It identifies the child until that has been waited for.
 * Suspends: no.  Threads: owner.
 * Errors: -EBADF the process is not open; -EINVAL no process. */
COIR_API pid_t coir_process_pid(const coir_process *process);

/* Sends a signal to the child only, not to processes that it has started.
 * Suspends: no.  Threads: owner.
 * Errors: -ESRCH the child has ended and was waited for (until then a signal has no effect), or no
 * worker; -EINVAL no such signal, or no process; -EPERM; -EXDEV the process is another worker's;
 * -EBADF it is not open. */
COIR_API int coir_process_signal(coir_process *process, int number);

/* Ends the child at once, and every other process in its group (SIGKILL). Nothing is waited for.
 * Suspends: no.  Threads: owner.
 * Errors: -ESRCH they have ended and were waited for, or no worker; -EPERM; -EXDEV the process is
 * another worker's; -EBADF it is not open; -EINVAL no process. */
COIR_API int coir_process_kill(coir_process *process);

/* Closes a process: what leaving the C block of COIR_PROCESS does. Its streams are closed, but for
 * one that a filter stands on (coir/filter.h): that is closed with the filter. Unless all of the
 * child's group have ended, they get SIGTERM, after `grace` SIGKILL, and are waited for, then for
 * 5 s at most; whatever is left after that is logged. Another task's wait for the exit returns
 * -ECANCELED. While another task closes it, this waits until it is closed. Does nothing to a
 * process that is not open. A task without a stack calls it by coir_call_init.
 * Suspends: yes, unless all have ended.  Threads: owner, in a fiber.
 * Cancel safety: it waits all the same. */
COIR_SUSPENDS void coir_process_close(coir_process *process);

#ifdef __cplusplus
}
#endif

#endif

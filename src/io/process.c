/* Child processes: a process is spawned, awaited and signalled here; closed in process_close.c. */
#include "io/process.h"
#include "task/completed.h"

#include <errno.h>

#include "base/check.h"
#include "base/options.h"
#include "io/pipe.h"
#include "io/pty.h"
#include "sys/call.h"

CI_LEAVES_SPARE_WORDS(struct ci_process, coir_process);
_Static_assert((int)COIR_PROCESS_KILLED == (int)CI_EXIT_KILLED, "what is added to a signal");

static const coir_time grace_default = 5 * COIR_S;

int ci_process_find(const coir_process *opaque, struct ci_process **ret_process, const char *call,
                    const void *place)
{
    struct ci_process *process = (struct ci_process *)(uintptr_t)opaque;
    if (!ci_worker_current)
        return ci_no_worker();
    if (!process)
        return -EINVAL;
    if (!process->worker)
        return -EBADF;
    if (process->worker != ci_worker_current)
        return ci_misused_elsewhere(process->worker, call, place);
    ci_check(process->pidfd >= 0 && process->pid > 0, "io/process.h 1");
    *ret_process = process;
    return 0;
}

/* ---- spawning ---- */

/* The child's ends of the pipes, which are closed when it has its own. */
struct ends {
    coir_fd fds[3];
    size_t count;
};

static int open_pipe(struct ci_process *process, int which, struct ends *ends)
{
    coir_fd own = -1, child = -1;
    bool child_writes = which > 0;
    int rc = ci_sys_pipe_to_child(child_writes, &own, &child);
    if (rc < 0)
        return rc;
    ends->fds[ends->count++] = child;
    rc = ci_pipe_open(process->worker, own, child_writes ? CI_PIPE_READS : CI_PIPE_WRITES,
                      &process->streams[which]);
    if (rc < 0)
        ci_sys_close(own);
    return rc < 0 ? rc : child;
}

static int choose_stdio(struct ci_process *process, const coir_process_options *options,
                        struct ci_spawn *spawn, struct ends *ends)
{
    const int chosen[] = {options->in, options->out, options->err};
    for (int i = 0; i < 3; i++) {
        int rc = 0;
        switch (chosen[i]) {
        case COIR_STDIO_INHERIT:
            spawn->stdio[i] = spawn->own_session ? CI_SPAWN_TERMINAL : CI_SPAWN_INHERIT;
            break;
        case COIR_STDIO_NULL: spawn->stdio[i] = CI_SPAWN_NULL; break;
        case COIR_STDIO_PIPE: rc = spawn->stdio[i] = open_pipe(process, i, ends); break;
        case COIR_STDIO_OUT:
            rc = i == 2 ? 0 : -EINVAL;
            spawn->stdio[i] = spawn->stdio[1] == CI_SPAWN_INHERIT ? 1 : spawn->stdio[1];
            break;
        default:
            spawn->stdio[i] = chosen[i] - COIR_STDIO_FIRST_FD;
            rc = chosen[i] < COIR_STDIO_FIRST_FD ? -EINVAL : 0;
        }
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int choose_limits(const coir_process_options *options, struct ci_spawn *spawn)
{
    if (options->limit_count > CI_SPAWN_LIMITS_MAX || (options->limit_count && !options->limits))
        return -EINVAL;
    spawn->limit_count = options->limit_count;
    for (size_t i = 0; i < options->limit_count; i++)
        spawn->limits[i] = (struct ci_spawn_limit){
            options->limits[i].resource, options->limits[i].soft, options->limits[i].hard};
    return 0;
}

void ci_process_close_streams(struct ci_process *process)
{
    for (int i = 0; i < 3; i++)
        ci_pipe_leave(&process->streams[i]);
}

static int spawn_child(struct ci_process *process, const coir_process_options *options,
                       struct ci_spawn *spawn)
{
    const coir_allocator *allocator = &process->worker->runtime->allocator;
    struct ends ends = {.count = 0};
    int rc = choose_stdio(process, options, spawn, &ends);
    if (rc >= 0 && !(spawn->stack = ci_alloc(allocator, CI_SPAWN_STACK_SIZE)))
        rc = -ENOMEM;
    if (rc >= 0) {
        rc = process->pidfd = ci_sys_spawn(spawn, &process->pid);
        ci_free(allocator, spawn->stack, CI_SPAWN_STACK_SIZE);
    }
    while (ends.count)
        ci_sys_close(ends.fds[--ends.count]);
    return rc < 0 ? rc : 0;
}

static int begin(struct ci_process *process, const char *const *arguments,
                 const coir_process_options *given, const char *call, const void *place)
{
    struct ci_worker *worker = ci_worker_current;
    coir_process_options options = COIR_PROCESS_OPTIONS;
    if (!worker)
        return ci_no_worker();
    int rc = given ? ci_options_read(&options, sizeof options, given) : 0;
    if (rc < 0)
        return rc;
    if (worker->runnable && worker->runnable->interrupt)
        return worker->runnable->interrupt;
    if (worker->runtime->simulated)
        return -ENOTSUP;
    struct ci_spawn spawn = {
        .file = options.file ? options.file : arguments[0],
        .arguments = arguments,
        .environment = options.environment,
        .directory = options.directory,
        .own_group = !options.share_group,
        .own_session = options.terminal,
    };
    if (options.grace < 0 || (rc = choose_limits(&options, &spawn)) < 0 ||
        (options.terminal && options.share_group))
        return -EINVAL;
    if (options.terminal && (rc = spawn.pty = ci_pty_fd(options.terminal, call, place)) < 0)
        return rc;
    *process = (struct ci_process){.worker = worker,
                                   .grace = options.grace ? options.grace : grace_default,
                                   .own_group = spawn.own_group,
                                   .own_session = spawn.own_session,
                                   .status = -EAGAIN};
    rc = spawn_child(process, &options, &spawn);
    if (rc < 0) {
        ci_process_close_streams(process);
        process->worker = NULL;
        process->pidfd = -1;
    }
    return rc;
}

/* 0, or the misuse. */
static int check(const coir_process *process, const char *const *arguments, const char *call,
                 const void *place)
{
    if (!process || !arguments || !arguments[0])
        return ci_misused(-EINVAL, "process or arguments is NULL, or arguments has no program",
                          call, place);
    if (((const struct ci_process *)(const void *)process)->worker)
        return ci_misused(-EBUSY, "the process was started before", call, place);
    return 0;
}

int coir_process_spawn(coir_process *process, const char *const *arguments)
{
    if (ci_forked())
        return -COIR_EFORKED;
    int rc = check(process, arguments, CI_CALL, CI_PLACE);
    return rc < 0 ? rc
                  : begin((struct ci_process *)(void *)process, arguments, NULL, CI_CALL, CI_PLACE);
}

int coir_process_spawn_with(coir_process *process, const char *const *arguments,
                            const coir_process_options *options)
{
    if (ci_forked())
        return -COIR_EFORKED;
    int rc = check(process, arguments, CI_CALL, CI_PLACE);
    return rc < 0
               ? rc
               : begin((struct ci_process *)(void *)process, arguments, options, CI_CALL, CI_PLACE);
}

/* ---- the exit ---- */

struct process_op {
    coir_future future;
    struct ci_io_op io;
    const coir_process *opaque;
    struct ci_process *process; /* NULL: it was closed during the wait */
};
CI_FIBER_OP_FITS(struct process_op); /* when it is a case of coir_select */
CI_LEAVES_SPARE_WORDS(struct process_op, coir_process_op);

/* The group is looked at when the child has just been waited for: from then on its number may
 * become another group's, as soon as it has no members. */
int ci_process_status(struct ci_process *process)
{
    if (process->status == -EAGAIN &&
        (process->status = ci_sys_exit_status(process->pidfd)) != -EAGAIN)
        ci_process_group_ended(process);
    return process->status;
}

static coir_future *process_poll(coir_future *future)
{
    struct process_op *self = ci_container_of(future, struct process_op, future);
    int rc;
    COIR_BEGIN(future);
    if ((rc = ci_process_find(self->opaque, &self->process, "coir_process_wait", NULL)) < 0)
        COIR_RETURN(future, rc);
    while (self->process->status == -EAGAIN) {
        if (self->process->waiter)
            COIR_RETURN(future, -EBUSY);
        self->process->waiter = &self->process;
        COIR_AWAIT(future, ci_io_init(&self->io, NULL,
                                      &(struct ci_op){.fd = self->process->pidfd,
                                                      .kind = CI_OP_FOREIGN,
                                                      .events = COIR_READ}));
        if (!self->process)
            COIR_RETURN(future, -ECANCELED);
        ci_check(self->process->waiter == &self->process, "io/process.h 2");
        self->process->waiter = NULL;
        if (self->io.future.result < 0)
            COIR_RETURN(future, self->io.future.result);
        ci_process_status(self->process);
    }
    COIR_RETURN(future, self->process->status);
}

static const coir_future_kind process_kind =
    COIR_FUTURE_KIND("the exit of a process", process_poll, NULL);

coir_future *coir_process_wait_op(coir_process_op *opaque, coir_process *process)
{
    struct process_op *op = (struct process_op *)(void *)opaque;
    if (!op || !process)
        return ci_completed_op(op, CI_MISUSE(-EINVAL, "op or process is NULL"));
    op->opaque = process;
    return coir_future_init(&op->future, &process_kind);
}

int coir_process_wait(coir_process *process)
{
    coir_process_op op;
    if (!process)
        return CI_MISUSE(-EINVAL, "process is NULL");
    return CI_MISUSE_IF(-EBADF, (int)ci_await_in_fiber(coir_process_wait_op(&op, process)),
                        "the process was not started, or was closed");
}

static coir_future *make_wait(const coir_case *self, void *op)
{
    return coir_process_wait_op(op, self->object);
}

coir_case coir_case_process(coir_process *process)
{
    if (!process)
        return ci_completed_case(CI_MISUSE(-EINVAL, "process is NULL"));
    return (coir_case){.make = make_wait, .object = process};
}

/* ---- what an open process has ---- */

static coir_stream *stream_of(const coir_process *process, int which)
{
    return ((const struct ci_process *)(const void *)process)->streams[which];
}

coir_stream *coir_process_stdin(const coir_process *process)
{
    return CI_REFUSED(!process, "process is NULL") ? NULL : stream_of(process, 0);
}

coir_stream *coir_process_stdout(const coir_process *process)
{
    return CI_REFUSED(!process, "process is NULL") ? NULL : stream_of(process, 1);
}

coir_stream *coir_process_stderr(const coir_process *process)
{
    return CI_REFUSED(!process, "process is NULL") ? NULL : stream_of(process, 2);
}

pid_t coir_process_pid(const coir_process *process)
{
    if (!process)
        return CI_MISUSE(-EINVAL, "process is NULL");
    const struct ci_process *own = (const struct ci_process *)(const void *)process;
    return own->worker ? own->pid : CI_MISUSE(-EBADF, "the process was not started, or was closed");
}

/* ---- signals ---- */

bool ci_process_group_ended(struct ci_process *process)
{
    if (!process->group_ended)
        process->group_ended = !process->own_group || ci_process_kill_all(process, 0) == -ESRCH;
    return process->group_ended;
}

int ci_process_kill_all(const struct ci_process *process, int number)
{
    if (process->group_ended)
        return -ESRCH;
    return process->own_group ? ci_sys_kill_group(process->pidfd, process->pid, number)
                              : ci_sys_kill(process->pidfd, number);
}

/* Finds an open process; that there is none, or that it is not open, is misuse. */
static int find(const coir_process *opaque, struct ci_process **ret_process, const char *call,
                const void *place)
{
    int rc = ci_process_find(opaque, ret_process, call, place);
    rc = ci_misuse_if(-EINVAL, rc, "process is NULL", call, place);
    return ci_misuse_if(-EBADF, rc, "the process was not started, or was closed", call, place);
}

int coir_process_signal(coir_process *opaque, int number)
{
    struct ci_process *process = NULL;
    int rc = find(opaque, &process, CI_CALL, CI_PLACE);
    if (rc < 0)
        return rc;
    return number < 1 ? -EINVAL : ci_sys_kill(process->pidfd, number);
}

int coir_process_kill(coir_process *opaque)
{
    struct ci_process *process = NULL;
    int rc = find(opaque, &process, CI_CALL, CI_PLACE);
    if (rc < 0)
        return rc;
    rc = ci_process_kill_all(process, SIGKILL);
    return ci_sys_kill(process->pidfd, SIGKILL) == 0 ? 0 : rc; /* it may have left its group */
}

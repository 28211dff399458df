/* sys/process.h: what a program does with its children, by pidfds (kernel/fork.c, kernel/pid.c of
 * Linux 6.1). */
#include <errno.h>
#include <stdlib.h>

#include "sim/kernel/child.h"
#include "sim/kernel/pty.h"

/* ---- pidfds ---- */

struct pidfd {
    struct ci_kfile file;
    struct ci_kchild *child;
};

static struct ci_kchild *child_of(struct ci_kfile *file)
{
    return ci_container_of(file, struct pidfd, file)->child;
}

static unsigned poll_pidfd(struct ci_kfile *file)
{
    return child_of(file)->state >= CI_KCHILD_ZOMBIE ? POLLIN | POLLRDNORM : 0;
}

static void release(struct ci_kfile *file)
{
    child_of(file)->pidfd = NULL;
    free(ci_container_of(file, struct pidfd, file));
}

static const struct ci_kfile_type pidfd_type = {
    .name = "pidfd", .poll = poll_pidfd, .release = release};

static struct ci_kfile *new_pidfd(struct ci_kchild *child)
{
    struct pidfd *pidfd = ci_kalloc(sizeof *pidfd);
    ci_kfile_init(&pidfd->file, &pidfd_type);
    pidfd->child = child;
    return child->pidfd = &pidfd->file;
}

static struct ci_kchild *find(coir_fd fd)
{
    struct ci_kfile *file = ci_kfd_find(fd);
    return file && file->type == &pidfd_type ? child_of(file) : NULL;
}

/* ---- beginning ---- */

static void signal_leader(void *child, int number)
{
    ci_kchild_signal(child, number);
}

static int begin_program(struct ci_kchild *child, const struct ci_spawn *spawn)
{
    int rc = spawn->directory ? ci_kdisk_enter(spawn->directory) : 0;
    if (spawn->own_session)
        child->terminal = ci_kpty_control(spawn->pty, signal_leader, child);
    for (int i = 0; i < 3; i++) {
        struct ci_kfile *file =
            spawn->stdio[i] == CI_SPAWN_TERMINAL ? child->terminal : ci_kfd_find(spawn->stdio[i]);
        if (spawn->stdio[i] >= 0 && !file)
            return -EBADF;
        child->files[i] = file ? ci_kfile_ref(file) : NULL;
    }
    return rc < 0 ? rc : ci_kprogram_read(child, spawn->file, spawn->arguments);
}

/* The thread sleeps until the child has executed the program, or ended. */
coir_fd ci_sys_spawn(const struct ci_spawn *spawn, pid_t *ret_pid)
{
    ci_kcall();
    struct ci_kprocess *host = ci_k.process;
    struct ci_node *node = host->node;
    int rc = ci_kfd_refused();
    if (rc == 0 && ci_world_fault(ci_k.world, node, node->faults.no_memory, "no memory to clone"))
        rc = ci_kone_in(2) ? -EAGAIN : -ENOMEM;
    if (rc < 0)
        return rc;
    struct ci_kchild *child = ci_kchild_new(host);
    child->group = spawn->own_group ? child->pid : ci_kprocess_id(host);
    child->spawned = true;
    child->state = CI_KCHILD_GONE;
    coir_fd fd = ci_kfd_install(new_pidfd(child));
    ci_kthread_sleep("a child to execute", ci_kafter((uint64_t)COIR_MS));
    rc = begin_program(child, spawn);
    if (rc < 0) {
        ci_kchild_close_all(child);
        ci_kfd_close(fd);
        return rc;
    }
    child->state = CI_KCHILD_RUNS;
    ci_ktrace("spawn", child->pid, fd);
    ci_kchild_continue(child);
    *ret_pid = child->pid;
    return fd;
}

/* ---- the exit, signals ---- */

/* Before Linux 6.15, only who has waited for a process knows how it has ended. */
int ci_sys_exit_status(coir_fd pidfd)
{
    ci_kcall();
    struct ci_kchild *child = find(pidfd);
    if (!child)
        return -EBADF;
    if (child->state < CI_KCHILD_ZOMBIE)
        return -EAGAIN;
    if (child->state == CI_KCHILD_GONE && !ci_k.settings.tells_of_reaped)
        return -ECHILD;
    if (child->state == CI_KCHILD_ZOMBIE)
        ci_kchild_wait(child);
    return child->status;
}

int ci_sys_kill(coir_fd pidfd, int number)
{
    ci_kcall();
    struct ci_kchild *child = find(pidfd);
    if (!child || number < 0 || number > 63)
        return child ? -EINVAL : -EBADF;
    if (child->state == CI_KCHILD_GONE)
        return -ESRCH;
    if (number)
        ci_kchild_signal(child, number);
    return 0;
}

int ci_sys_kill_group(coir_fd pidfd, pid_t group, int number)
{
    int rc = -ESRCH;
    (void)pidfd;
    ci_kcall();
    for (struct ci_kchild *child = ci_k.children; child; child = child->next)
        if (child->group == group && child->state != CI_KCHILD_GONE) {
            rc = 0;
            if (number)
                ci_kchild_signal(child, number);
        }
    return rc;
}

/* No child of this kernel changes its group. */
bool ci_sys_is_in_own_group(pid_t pid)
{
    (void)pid;
    return true;
}

bool ci_sys_group_runs(pid_t group)
{
    ci_kcall();
    for (const struct ci_kchild *child = ci_k.children; child; child = child->next)
        if (child->group == group && child->state < CI_KCHILD_ZOMBIE)
            return true;
    return false;
}

/* As waitpid(2) without blocking, of any of the program's children in a group; 0: in any. */
pid_t ci_kchildren_wait(pid_t group)
{
    ci_kcall();
    for (struct ci_kchild *child = ci_k.children; child; child = child->next)
        if (child->host == ci_k.process && ci_kchild_is_of_host(child) &&
            child->state == CI_KCHILD_ZOMBIE && (!group || child->group == group)) {
            ci_kchild_wait(child);
            return child->pid;
        }
    return 0;
}

void ci_sys_reap_group(pid_t group)
{
    while (ci_kchildren_wait(group))
        continue;
}

int ci_sys_pipe_to_child(bool child_writes, coir_fd *ret_own, coir_fd *ret_child)
{
    coir_fd ends[2];
    int rc = ci_kfd_refused();
    if (rc < 0 || (rc = ci_kpipe(ends)) < 0)
        return rc;
    *ret_own = ends[!child_writes];
    *ret_child = ends[child_writes];
    ci_kfd_find(*ret_own)->blocking = false;
    return 0;
}

/* Processes that end, and signals to them: kernel/exit.c and kernel/signal.c of Linux 6.1. */
#include "sim/kernel/child.h"

#include <signal.h>
#include <stdlib.h>

#include "sim/audit.h"
#include "sim/kernel/pty.h"

static const coir_time step_most = 50 * COIR_US, end_most = 100 * COIR_US,
                       adopt_most = 10 * COIR_MS;

/* ---- beginning ---- */

struct ci_kchild *ci_kchild_new(struct ci_kprocess *host)
{
    enum { FIRST_PID = 10000 };
    struct ci_kchild *child = ci_kalloc(sizeof *child);
    *child = (struct ci_kchild){.next = ci_k.children,
                                .host = host,
                                .pid = ci_k.children ? ci_k.children->pid + 1 : FIRST_PID,
                                .trap = -1};
    ci_k.children = child;
    return child;
}

struct ci_kchild *ci_kchild_fork(struct ci_kchild *parent)
{
    struct ci_kchild *child = ci_kchild_new(parent->host);
    child->parent = parent;
    child->group = parent->group;
    child->run = parent->run;
    child->ignored = parent->ignored;
    for (int i = 0; i < 3; i++)
        child->files[i] = parent->files[i] ? ci_kfile_ref(parent->files[i]) : NULL;
    ci_ktrace("fork", parent->pid, child->pid);
    return child;
}

static void carry_on(void *arg, size_t serial)
{
    struct ci_kchild *child = arg;
    struct ci_kprocess *before = ci_k.process;
    if (child->serial != serial || child->state != CI_KCHILD_RUNS)
        return;
    child->due = child->stopped;
    if (child->stopped)
        return;
    ci_k.process = child->host;
    child->run(child);
    ci_k.process = before;
}

void ci_kchild_continue(struct ci_kchild *child)
{
    ci_kschedule(ci_kafter((uint64_t)step_most), carry_on, child, ++child->serial);
}

/* ---- ending ---- */

bool ci_kchild_is_of_host(const struct ci_kchild *child)
{
    return !child->parent && !child->orphan;
}

void ci_kchild_wait(struct ci_kchild *child)
{
    ci_check(child->state == CI_KCHILD_ZOMBIE, "kernel/child.h 1");
    child->state = CI_KCHILD_GONE;
    if (child->pidfd)
        ci_kfile_wake(child->pidfd, POLLIN | POLLRDNORM | POLLHUP);
}

static void adopt(void *arg, size_t number)
{
    (void)number;
    struct ci_kchild *child = arg;
    if (child->orphan && child->state == CI_KCHILD_ZOMBIE)
        ci_kchild_wait(child);
}

/* Process 1 waits for its children, some time; where the host's program is that, it is told. */
static void tell_parent(struct ci_kchild *child)
{
    if (child->orphan && !ci_k.settings.no_reaper)
        ci_kschedule(ci_kafter((uint64_t)adopt_most), adopt, child, 0);
    if (ci_kchild_is_of_host(child))
        ci_ksignal_raise(child->host, SIGCHLD);
}

static void orphan_children(const struct ci_kchild *parent)
{
    for (struct ci_kchild *child = ci_k.children; child; child = child->next)
        if (child->parent == parent) {
            child->parent = NULL;
            child->orphan = !ci_k.settings.adopts;
            if (child->state == CI_KCHILD_ZOMBIE)
                tell_parent(child);
        }
}

static void be_zombie(void *arg, size_t number)
{
    (void)number;
    struct ci_kchild *child = arg;
    struct ci_kprocess *before = ci_k.process;
    ci_k.process = child->host;
    for (int i = 0; i < 3; i++)
        ci_check(!child->files[i], "kernel/child.h 2");
    child->state = CI_KCHILD_ZOMBIE;
    ci_ktrace("exit", child->pid, child->status);
    orphan_children(child);
    if (child->pidfd)
        ci_kfile_wake(child->pidfd, POLLIN | POLLRDNORM);
    tell_parent(child);
    ci_k.process = before;
}

void ci_kchild_close(struct ci_kchild *child, int fd)
{
    struct ci_kfile *file = child->files[fd];
    child->files[fd] = NULL;
    if (file && child->waiter.file == file)
        ci_kwaiter_remove(&child->waiter);
    if (file)
        ci_kfile_unref(file);
}

/* The leader of a session ends: its group gets SIGHUP. */
static void leave_session(struct ci_kchild *leader)
{
    struct ci_kfile *terminal = leader->terminal;
    if (!terminal)
        return;
    leader->terminal = NULL;
    ci_kpty_hang_up(terminal);
    ci_kfile_unref(terminal);
    for (struct ci_kchild *child = ci_k.children; child; child = child->next)
        if (child->group == leader->group)
            ci_kchild_signal(child, SIGHUP);
}

void ci_kchild_close_all(struct ci_kchild *child)
{
    for (int i = 0; i < 3; i++)
        ci_kchild_close(child, i);
    leave_session(child);
}

static void close_files(void *arg, size_t number)
{
    struct ci_kchild *child = arg;
    ci_kchild_close_all(child);
    ci_kschedule(ci_kafter((uint64_t)end_most), be_zombie, child, number);
}

void ci_kchild_end(struct ci_kchild *child, int status)
{
    if (child->state != CI_KCHILD_RUNS)
        return;
    child->state = CI_KCHILD_ENDS;
    child->status = status;
    ci_kschedule(ci_kafter((uint64_t)end_most), close_files, child, 0);
}

/* ---- signals ---- */

static uint64_t bit(int number)
{
    return (uint64_t)1 << number;
}

static void end_trap(void *arg, size_t number)
{
    (void)number;
    ci_kchild_end(arg, 0);
}

static void go_on(struct ci_kchild *child)
{
    uint64_t pending = child->pending;
    child->stopped = false;
    child->pending = 0;
    for (int number = 1; number < 64; number++)
        if (pending & bit(number))
            ci_kchild_signal(child, number);
    if (child->due)
        ci_kchild_continue(child);
}

void ci_kchild_signal(struct ci_kchild *child, int number)
{
    const uint64_t no_effect = bit(SIGCHLD) | bit(SIGURG) | bit(SIGWINCH),
                   stops = bit(SIGTSTP) | bit(SIGTTIN) | bit(SIGTTOU);
    if (number == SIGKILL)
        ci_kchild_end(child, CI_EXIT_KILLED + SIGKILL);
    else if (number == SIGSTOP)
        child->stopped = true;
    else if (number == SIGCONT && child->stopped)
        go_on(child);
    else if (number == SIGCONT || (no_effect | child->ignored) & bit(number))
        return;
    else if (child->stopped)
        child->pending |= bit(number);
    else if (stops & bit(number))
        child->stopped = true;
    else if (number == SIGTERM && child->trap >= 0)
        ci_kschedule(ci_time_after(ci_know(), child->trap), end_trap, child, 0);
    else
        ci_kchild_end(child, CI_EXIT_KILLED + number);
}

/* ---- the kernel's end, and a host's ---- */

static bool led_by_spawned(const struct ci_kchild *child)
{
    const struct ci_kchild *leader = ci_k.children;
    while (leader && leader->pid != child->group)
        leader = leader->next;
    return leader && leader->spawned;
}

/* Its children must have been waited for, and their groups have ended. */
void ci_kchildren_audit(const struct ci_kprocess *host)
{
    for (const struct ci_kchild *child = ci_k.children; child; child = child->next)
        if (child->host == host &&
            ((ci_kchild_is_of_host(child) && child->state != CI_KCHILD_GONE && child->spawned) ||
             (led_by_spawned(child) && child->state < CI_KCHILD_ZOMBIE)))
            ci_world_leave(ci_k.world, host->node, "process %d of group %d%s", (int)child->pid,
                           (int)child->group, child->state == CI_KCHILD_ZOMBIE ? ", a zombie" : "");
}

void ci_kchildren_free(void)
{
    while (ci_k.children) {
        struct ci_kchild *child = ci_k.children;
        ci_k.process = child->host;
        ci_kchild_close_all(child);
        ci_k.children = child->next;
        free(child->steps);
        free(child);
    }
    ci_k.process = NULL;
}

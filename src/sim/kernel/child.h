/* Child processes of the hosts' programs, and what they start: who waits for whom, groups, signals.
 * What a child does is in its arguments (program.c).
 *
 * 1. A process that has ended is a zombie until its parent has waited for it; until then it is a
 *    member of its group.
 * 2. A process has its descriptors until it ends, and they are closed before it is a zombie.
 *
 * Process numbers are not reused.
 */
#ifndef CI_SIM_KERNEL_CHILD_H
#define CI_SIM_KERNEL_CHILD_H

#include "sim/kernel/kernel.h"
#include "sys/process.h"

struct ci_kstep;

enum ci_kchild_state { CI_KCHILD_RUNS, CI_KCHILD_ENDS, CI_KCHILD_ZOMBIE, CI_KCHILD_GONE };

struct ci_kchild {
    struct ci_kchild *next;   /* of ci_k.children, newest first; freed with the kernel */
    struct ci_kprocess *host; /* whose program it descends from */
    struct ci_kchild *parent; /* NULL: the host's program, or process 1 */
    bool orphan;              /* process 1 is its parent */
    bool spawned;             /* by the host's program */
    enum ci_kchild_state state;
    pid_t pid, group;
    int status;             /* as ci_sys_exit_status */
    struct ci_kfile *pidfd; /* NULL: none is open */

    bool stopped, due;         /* its program is to be continued when it is not stopped */
    uint64_t ignored, pending; /* signals; those that came while it was stopped */
    coir_time trap; /* after SIGTERM it takes so long, then exits; negative: it does not */

    struct ci_kfile *files[3];            /* NULL: /dev/null, or closed */
    struct ci_kfile *terminal;            /* it leads a session, which this controls; or NULL */
    void (*run)(struct ci_kchild *child); /* carries out steps until it has to wait */
    const struct ci_kstep *at, *end;
    struct ci_kstep *steps; /* of the program; NULL: another process's */
    size_t done;            /* bytes of the step */
    uint64_t bytes_read;
    uint64_t serial;          /* of the event that continues it; others are outdated */
    struct ci_kwaiter waiter; /* while it waits for a file */
};

/* One that has not begun, of a program. */
struct ci_kchild *ci_kchild_new(struct ci_kprocess *host);

/* Whether the host's program is its parent. */
bool ci_kchild_is_of_host(const struct ci_kchild *child);

/* Its parent waits for it: it is a zombie no more. */
void ci_kchild_wait(struct ci_kchild *child);

/* Ends a process, after a while. */
void ci_kchild_end(struct ci_kchild *child, int status);

/* A child of a child, with its descriptors, in its group. */
struct ci_kchild *ci_kchild_fork(struct ci_kchild *parent);

void ci_kchild_signal(struct ci_kchild *child, int number);
void ci_kchild_close(struct ci_kchild *child, int fd);
void ci_kchild_close_all(struct ci_kchild *child); /* with its terminal, as its end does */

/* Continues the program of a process, after a while. */
void ci_kchild_continue(struct ci_kchild *child);

/* Reads the arguments: 0, or the error of execve(2). */
int ci_kprogram_read(struct ci_kchild *child, const char *file, const char *const *arguments);

#endif

/* Task dumps: what every task of the process does, as stacks of threads show it of a program with
 * threads.
 *
 *   coir_dump(STDERR_FILENO, COIR_DUMP_TEXT);
 *
 * A dump has the tree of scopes and tasks of every worker of every runtime: the name of each task,
 * what it waits for, for how long and who holds that, its deadline, whether it is cancelled, and
 * its asynchronous stack: the frames of its fiber, by function, file and line, the futures that it
 * awaits, and where it was spawned. At its end are findings: tasks that wait for each other, a lock
 * that a task has kept beyond its end, a task that computes without a wait, a scope that was left
 * open. No function of the program is run for it. In a program of coir_main, SIGQUIT has one
 * written to standard error. */
#ifndef COIR_DUMP_H
#define COIR_DUMP_H

#include <coir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a dump is written. */
enum coir_dump_format {
    COIR_DUMP_TEXT, /* for people; tasks of one scope that do the same are listed once, counted */
    COIR_DUMP_JSON  /* for programs: see docs/debugging.md */
};

/* Writes a dump to a descriptor. Each worker is halted where it looks at its inbox, between two
 * turns of tasks, until all have been read; then they go on, and the text is made and written. So
 * the tasks of a dump are seen at one moment. A worker that does not answer within 250 ms goes on,
 * and its tasks are missing; the stack of its thread is shown instead, which a handler of SIGURG
 * takes that is installed for that time. It runs on a stack of its own. A system call in which such
 * a task waits by itself (nanosleep, poll) may end with EINTR. The stack stays unknown if the
 * program has blocked or handles SIGURG, unless coir_config.slow_turn is set.
 * Several such workers are asked for their stacks at once; they have 200 ms together, while all
 * others are halted. A dump has 64 runtimes at most, and says how many it leaves out; of a task it
 * has 256 lines, 64 frames of each stack, and 63 bytes of the name. Scopes may be nested as deep as
 * they are. A descriptor that does not block is waited for when it has no room. Calls from several
 * threads at once are served one after the other. In a simulation it shows the runtime of the
 * caller.
 * Suspends: no (it blocks).  Threads: any, but not in a signal handler.
 * Errors: -EINVAL format; those of write(2); -ENOMEM; -EAGAIN a thread could not be started;
 * -COIR_EFORKED in a child after fork(). */
COIR_API int coir_dump(coir_fd fd, enum coir_dump_format format);

#ifdef __cplusplus
}
#endif

#endif

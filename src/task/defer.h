/* Deferred calls: they run when their fiber ends. */
#ifndef CI_TASK_DEFER_H
#define CI_TASK_DEFER_H

struct ci_fiber;
struct ci_worker;

/* From the worker's pool: the frame that deferred the call has returned when it is made. */
struct ci_deferred {
    struct ci_deferred *next;
    void (*fn)(void *arg);
    void *arg;
};

/* Runs what the fiber has deferred, newest first, and measures its stack; on the fiber, which has
 * returned from its call. */
void ci_run_deferred(struct ci_worker *worker, struct ci_fiber *fiber);

#endif

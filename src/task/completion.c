/* Completions: a future runs as a task of its own, and a function is called with its result. */
#include <errno.h>

#include "base/options.h"
#include "coir/future.h"
#include "sys/misuse.h"
#include "task/spawn.h"
#include "task/task.h"

struct completion {
    coir_future future;
    coir_future *child;
    void (*fn)(int64_t result, void *arg);
    void *arg;
};
CI_LEAVES_SPARE_WORDS(struct completion, coir_completion);

static coir_future *completion_poll(coir_future *future);

static const coir_future_kind completion_kind =
    COIR_FUTURE_KIND("a completion", completion_poll, NULL);
static const coir_future_kind background_kind =
    /* spawned without a scope: only `fn` gets the result */
    COIR_FUTURE_KIND("a completion", completion_poll, NULL);

static coir_future *completion_poll(coir_future *future)
{
    struct completion *completion = ci_container_of(future, struct completion, future);
    COIR_BEGIN(future);
    COIR_AWAIT(future, completion->child);
    int64_t result = completion->child->result;
    completion->child->caller = NULL; /* from now on it may be started again */
    coir_future *caller = future->caller;
    /* in a scope, the task's result as well */
    caller->result = future->kind == &background_kind ? 0 : result;
    /* `fn` may free the completion and its future, but not `caller` */
    completion->fn(result, completion->arg);
    return caller;
}

int coir_completion_start(coir_scope *scope, coir_completion *opaque, coir_future *future,
                          void (*fn)(int64_t result, void *arg), void *arg)
{
    struct completion *completion = (struct completion *)(void *)opaque;
    struct ci_task *task;
    if (!completion || !future || !future->kind || !fn)
        return CI_MISUSE(-EINVAL, "completion, future or fn is NULL, or the future was not made");
    if (future->caller)
        return CI_MISUSE(-EBUSY, "the future was started before"); /* it was started before, perhaps
                                                                      by this completion */
    *completion = (struct completion){
        {scope ? &completion_kind : &background_kind, NULL, 0, 0}, future, fn, arg};
    int rc = ci_go_future(scope, NULL, &completion->future, &task);
    if (rc == 0)
        future->caller = &completion->future;
    return CI_MISUSE_IF(-EBADF, rc, "the scope is closed, or was not opened in a fiber");
}

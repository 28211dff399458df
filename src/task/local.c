/* Task-locals. */
#include "task/local.h"

#include <errno.h>

#include "coir/fiber.h"
#include "task/current.h"
#include "task/task.h"
#include "task/worker.h"

CI_THREAD_LOCAL struct ci_local *ci_carried_locals;

struct ci_local *ci_local_inherit(struct ci_local *locals)
{
    ci_fetch_add_relaxed(&locals->refs, 1);
    return locals;
}

/* The last reference may be dropped on another worker than the one whose pool the link came from;
 * pools accept each other's objects. */
void ci_local_drop(struct ci_worker *worker, struct ci_local *locals)
{
    while (locals && ci_fetch_sub(&locals->refs, 1) == 1) {
        struct ci_local *next = locals->next;
        ci_pool_give(&worker->locals, locals);
        locals = next;
    }
}

static struct ci_task *running_task(void)
{
    struct ci_worker *worker = ci_worker_current;
    return worker && worker->runnable ? worker->runnable->task : NULL;
}

int coir_local_set(const void *key, void *value)
{
    struct ci_task *task = running_task();
    if (!task)
        return ci_no_fiber();
    struct ci_local *local = ci_pool_take(&task->worker->locals);
    if (!local)
        return -ENOMEM;
    *local = (struct ci_local){task->locals, key, value, 1};
    task->locals = local;
    return 0;
}

void *coir_local_get(const void *key)
{
    struct ci_task *task = running_task();
    for (struct ci_local *local = task ? task->locals : ci_carried_locals; local;
         local = local->next)
        if (local->key == key)
            return local->value;
    return NULL;
}

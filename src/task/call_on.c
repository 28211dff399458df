/* A fiber runs a function on another worker, and waits for it. */
#include <errno.h>

#include "task/spawn.h"
#include "task/waiter.h"

int coir_call_on(int index, coir_task_fn *fn, void *arg)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    if (!fn)
        return CI_MISUSE(-EINVAL, "fn is NULL");
    COIR_SERVING_SCOPE(scope);
    COIR_HANDLE(handle);
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = "call";
    options.handle = handle;
    options.place = ci_placement_of(index);
    rc = coir_go_with(scope, &options, fn, arg);
    if (rc == 0 && (rc = coir_scope_wait(scope)) == 0)
        rc = coir_join(handle);
    return rc;
}

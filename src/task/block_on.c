/* A plain thread runs a future and sleeps until it has ended. */
#include <errno.h>

#include "coir/future.h"
#include "sys/gate.h"
#include "task/current.h"
#include "task/run_state.h"

struct blocked {
    struct ci_message message;
    coir_completion completion;
    coir_future *future;
    struct ci_gate ended;
    int64_t result;
};

static void end(int64_t result, void *arg)
{
    struct blocked *blocked = arg;
    blocked->result = result;
    ci_gate_open(&blocked->ended);
}

static void begin(struct ci_message *message)
{
    struct blocked *blocked = ci_container_of(message, struct blocked, message);
    int rc = ci_worker_current
                 ? coir_completion_start(NULL, &blocked->completion, blocked->future, end, blocked)
                 : -COIR_EENDED;
    if (rc < 0)
        end(rc, blocked);
}

static int await_in_fiber(void *arg)
{
    int64_t result = coir_await(arg);
    return result < 0 ? (int)result : 0; /* a count may be larger than an int */
}

static int64_t block_alone(coir_future *future)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    coir_runtime *runtime;
    int rc = coir_runtime_new(&config, &runtime);
    if (rc < 0)
        return rc;
    rc = coir_runtime_run(runtime, await_in_fiber, future);
    coir_runtime_free(runtime);
    return rc < 0 ? rc : future->result;
}

int64_t coir_block_on(coir_runtime *runtime, coir_future *future)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!future)
        return CI_MISUSE(-EINVAL, "future is NULL");
    if (ci_worker_current)
        return -EDEADLK;
    if (!runtime)
        return block_alone(future);
    struct blocked blocked = {.message.deliver = begin, .future = future};
    ci_gate_init(&blocked.ended);
    int64_t rc = ci_run_send(&runtime->workers[0], &blocked.message);
    if (rc == 0) {
        ci_gate_wait(&blocked.ended);
        rc = blocked.result;
    }
    ci_gate_done(&blocked.ended);
    return rc;
}

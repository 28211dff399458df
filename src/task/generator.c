/* Generators: a second stack inside one fiber. The task stays the same, so whatever the function
 * awaits parks the whole chain, and the fiber's saved context is simply that of the stack it parked
 * on.
 *
 * 1. A generator runs on its worker only, and is freed when it does not run.
 *
 *    FRESH -- next --> RUNNING -- yield --> SUSPENDED
 *                      ^  |                   |
 *                      |  `-- returns --> ENDED
 *                      `------- next ---------'
 */
#include "task/generator.h"

#include <errno.h>

#include "base/check.h"
#include "task/stack_use.h"
#include "task/waiter.h"

enum state { FRESH, RUNNING, SUSPENDED, ENDED };

/* Lies at the top of its own stack, like a fiber. */
struct coir_generator {
    struct ci_stack_free free;
    struct ci_context context; /* where a fiber has its own */
    struct ci_context resumer;
    coir_generator *outer; /* the one that resumed it, while it runs; NULL: the fiber itself did */
    struct ci_worker *worker;
    coir_generator_fn *fn;
    void *arg;
    uint64_t value; /* being passed, in either direction */
    int32_t result;
    uint8_t state;
    bool closing;
};
_Static_assert(sizeof(struct coir_generator) <= offsetof(struct ci_fiber, view),
               "a generator takes a fiber's place");
_Static_assert(offsetof(struct coir_generator, context) == offsetof(struct ci_fiber, context),
               "and is attached like one");

static CI_UNTRACED void generator_main(void)
{
    ci_context_entered();
    coir_generator *generator = ci_worker_current->fiber->generator;
    generator->result = generator->fn(generator, generator->value, generator->arg);
    generator->state = ENDED;
    ci_context_leave(&generator->resumer);
}

int coir_generator_new(coir_generator_fn *fn, void *arg, coir_generator **ret_generator)
{
    struct ci_worker *worker = ci_worker_current;
    if (!worker || !worker->fiber)
        return ci_no_fiber();
    if (!fn || !ret_generator)
        return CI_MISUSE(-EINVAL, "fn or ret_generator is NULL");
    coir_generator *generator = ci_stacks_take(&worker->stacks);
    if (!generator)
        return -ENOMEM;
    generator->worker = worker;
    generator->fn = fn;
    generator->arg = arg;
    generator->result = 0;
    generator->state = FRESH;
    generator->closing = false;
    ci_context_init(&generator->context, generator_main, generator);
    *ret_generator = generator;
    return 0;
}

static void resume(coir_generator *generator)
{
    generator->state = RUNNING;
    struct ci_fiber *fiber = generator->worker->fiber;
    struct ci_stack_view *own = fiber->context.view;
    generator->outer = fiber->generator;
    fiber->generator = generator;
    generator->resumer.view = own;
    /* an operation that suspends parks the fiber on the generator's stack */
    fiber->context.view = generator->context.view;
    ci_context_switch(&generator->resumer, &generator->context);
    fiber->context.view = own;
    fiber->generator = generator->outer;
}

const coir_generator *ci_generator_outer(const coir_generator *generator)
{
    return generator->outer;
}

const struct ci_context *ci_generator_resumer(const coir_generator *generator)
{
    return &generator->resumer;
}

int coir_generator_next(coir_generator *generator, uint64_t send, uint64_t *ret_value)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    struct ci_worker *worker = ci_worker_current;
    if (!generator || !ret_value)
        return CI_MISUSE(-EINVAL, "generator or ret_value is NULL");
    if (generator->worker != worker)
        return CI_ELSEWHERE(generator->worker);
    if (generator->state == RUNNING)
        return -EBUSY;
    if (generator->state == ENDED)
        return generator->result;
    generator->value = send;
    resume(generator);
    if (generator->state == ENDED)
        return generator->result;
    *ret_value = generator->value;
    return 1;
}

int coir_generator_yield(coir_generator *generator, uint64_t value, uint64_t *ret_sent)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!generator)
        return CI_MISUSE(-EINVAL, "generator is NULL");
    const struct ci_worker *worker = ci_worker_current;
    const struct ci_fiber *fiber = worker ? worker->fiber : NULL;
    if (ci_unlikely(!fiber || fiber->generator != generator)) {
        /* it may run for another task, or have resumed another generator */
        int rc = CI_ELSEWHERE(generator->worker);
        return rc < 0 ? rc : CI_MISUSE(-EINVAL, "only a generator's own function yields");
    }
    if (generator->closing)
        return -ECANCELED;
    generator->value = value;
    generator->state = SUSPENDED;
    ci_context_switch(&generator->context, &generator->resumer);
    if (generator->closing)
        return -ECANCELED;
    if (ret_sent)
        *ret_sent = generator->value;
    return 0;
}

void coir_generator_free(coir_generator *generator)
{
    if (!generator || ci_forked() || CI_ELSEWHERE(generator->worker) ||
        CI_REFUSED_AS(-EBUSY, generator->state == RUNNING, "it runs; it cannot free itself") ||
        CI_REFUSED_AS(-ESRCH, generator->state == SUSPENDED && !ci_worker_current->fiber,
                      "its function has to run to its end, which needs a fiber"))
        return;
    ci_check(generator->state != RUNNING && generator->worker == ci_worker_current,
             "generator.c 1");
    generator->closing = true;
    if (generator->state == SUSPENDED)
        resume(generator);
    struct ci_worker *worker = generator->worker;
    ci_fiber_init(generator);
    if (worker->measures_stacks)
        ci_stack_use_watch((struct ci_fiber *)(void *)generator);
    ci_stacks_give(&worker->stacks, generator);
}

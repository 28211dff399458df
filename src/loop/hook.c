#include "loop/hook.h"

#include <errno.h>

#include "base/options.h"
#include "loop/loop.h"
#include "sys/fork.h"
#include "sys/misuse.h"

struct hook {
    struct ci_list link;
    coir_hook_fn *fn;
    void *arg;
    uint64_t turn; /* the one in which it was started, or that was the last one then */
};
CI_LEAVES_SPARE_WORDS(struct hook, coir_hook);

static struct hook *hook_of(coir_hook *hook)
{
    return (struct hook *)(void *)hook;
}

void ci_hooks_call(coir_loop *loop, struct ci_list *hooks)
{
    struct ci_list turn, *node;
    ci_list_take(&turn, hooks);
    while ((node = turn.next) != &turn) {
        ci_list_remove(node);
        ci_list_push(hooks, node);
        struct hook *hook = ci_container_of(node, struct hook, link);
        if (hook->turn == loop->turns)
            continue;
        ci_loop_note_call(loop, hook->fn);
        hook->fn(loop, (coir_hook *)(void *)hook, hook->arg);
    }
}

static bool is_started(const struct hook *hook) /* its links are zeros before the first time */
{
    return hook->link.next && !ci_list_empty(&hook->link);
}

void coir_hook_start(coir_loop *loop, coir_hook *hook, enum coir_hook_when when, coir_hook_fn *fn,
                     void *arg)
{
    if (ci_forked() ||
        ((!loop || !hook || !fn || (unsigned)when > COIR_HOOK_IN_TURN) &&
         CI_MISUSE(-EINVAL, "loop, hook or fn is NULL, or when is no enum coir_hook_when")))
        return;
    if ((ci_loop_is_foreign(loop) &&
         CI_MISUSE(-EXDEV, "another thread is in a turn of the loop; use coir_loop_post")) ||
        (is_started(hook_of(hook)) &&
         CI_MISUSE(-EBUSY, "the hook was started before; stop it first")))
        return;
    *hook_of(hook) = (struct hook){.fn = fn, .arg = arg, .turn = loop->turns};
    ci_list_push(&loop->hooks[when], &hook_of(hook)->link);
}

void coir_hook_stop(coir_loop *loop, coir_hook *hook)
{
    if (ci_forked() || ((!loop || !hook) && CI_MISUSE(-EINVAL, "loop or hook is NULL")) ||
        (ci_loop_is_foreign(loop) &&
         CI_MISUSE(-EXDEV, "another thread is in a turn of the loop; use coir_loop_post")))
        return;
    if (is_started(hook_of(hook)))
        ci_list_remove(&hook_of(hook)->link);
}

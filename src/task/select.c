/* Select is a coir_any (group.c) whose members lie on the caller's stack. claim.c decides the
 * winner; group.c withdraws the losers. */
#include "coir/select.h"

#include <errno.h>

#include "task/completed.h"
#include "task/group.h"
#include "task/runtime.h"
#include "task/waiter.h"

enum { ON_STACK = 8 };

/* Room for any operation that a case makes; CI_FIBER_OP_FITS checks the size of each, where its
 * type is defined. */
struct storage {
    uint64_t op[CI_FIBER_OP_WORDS];
};

static int run(coir_case *cases, size_t count, bool in_order, coir_branch *branches,
               struct storage *storage)
{
    coir_group group;
    for (size_t i = 0; i < count; i++) {
        if (ci_unlikely(!cases[i].make))
            return -EINVAL;
        branches[i].future = cases[i].make(&cases[i], &storage[i]);
    }
    coir_future *any = ci_group_init(&group, branches, count, CI_GROUP_ANY, 0, !in_order);
    int which = (int)ci_await(ci_worker_current, any);
    if (which >= 0)
        cases[which].result = branches[which].future->result;
    return which;
}

static CI_NOINLINE int run_on_stack(coir_case *cases, size_t count, bool in_order)
{
    struct storage storage[ON_STACK];
    coir_branch branches[ON_STACK];
    return run(cases, count, in_order, branches, storage);
}

static CI_NOINLINE int run_in_memory(coir_case *cases, size_t count, bool in_order)
{
    const coir_allocator *allocator = &ci_worker_current->runtime->allocator;
    size_t size;
    struct storage *storage;
    if (__builtin_mul_overflow(count, sizeof(struct storage) + sizeof(coir_branch), &size) ||
        !(storage = ci_alloc(allocator, size)))
        return -ENOMEM;
    int which = run(cases, count, in_order, (coir_branch *)(void *)(storage + count), storage);
    ci_free(allocator, storage, size);
    return which;
}

CI_INLINE int start(coir_case *cases, size_t count, bool in_order, const char *call,
                    const void *place)
{
    int rc = 0;
    if (!ci_fiber_enter_in(&rc, call, place))
        return rc;
    if (!count)
        return -EINVAL;
    if (ci_unlikely(!cases))
        return ci_misused(-EINVAL, "cases is NULL", call, place);
    return ci_misuse_if(-EINVAL,
                        count <= ON_STACK ? run_on_stack(cases, count, in_order)
                                          : run_in_memory(cases, count, in_order),
                        "a case was not made by a coir_case_ function", call, place);
}

int coir_select(coir_case *cases, size_t count)
{
    return start(cases, count, false, CI_CALL, CI_PLACE);
}

int coir_select_in_order(coir_case *cases, size_t count)
{
    return start(cases, count, true, CI_CALL, CI_PLACE);
}

/* ---- cases of this layer ---- */

static coir_future *make_sleep(const coir_case *self, void *place)
{
    return coir_sleep_until_op(place, self->number);
}

coir_case coir_case_at(coir_time when)
{
    return (coir_case){.make = make_sleep, .number = when};
}

static coir_future *make_sleep_for(const coir_case *self, void *place)
{
    return coir_sleep_for_op(place, self->number);
}

coir_case coir_case_after(coir_time duration)
{
    return (coir_case){.make = make_sleep_for, .number = duration};
}

static coir_future *make_join(const coir_case *self, void *place)
{
    (void)place;
    return coir_join_op(self->object);
}

coir_case coir_case_join(coir_handle *handle)
{
    if (!handle)
        return ci_completed_case(CI_MISUSE(-EINVAL, "handle is NULL"));
    return (coir_case){.make = make_join, .object = handle};
}

/* Select. First each case is tried (`try_now` of coir_case): nothing is queued, so the first that
 * can happen has happened alone. A case that cannot be tried ends that pass, since those behind it
 * must not overtake it every time. Where nothing has happened, select is a coir_any (group.c) whose
 * members lie on the caller's stack: claim.c decides the winner, group.c withdraws the losers. */
#include "coir/select.h"

#include <errno.h>

#include "task/completed.h"
#include "task/group.h"
#include "task/runtime.h"
#include "task/task.h"
#include "task/waiter.h"

enum { ON_STACK = 8 };

/* Room for any operation that a case makes; CI_FIBER_OP_FITS checks the size of each, where its
 * type is defined. */
struct storage {
    uint64_t op[CI_FIBER_OP_WORDS];
};

static int run(coir_case *cases, size_t count, size_t first, coir_branch *branches,
               struct storage *storage)
{
    coir_group group;
    for (size_t i = 0; i < count; i++)
        branches[i].future = cases[i].make(&cases[i], &storage[i]);
    coir_future *any = ci_group_init(&group, branches, count, CI_GROUP_ANY, 0, first);
    int which = (int)ci_await(ci_worker_current, any);
    if (which >= 0)
        cases[which].result = branches[which].future->result;
    return which;
}

static CI_NOINLINE int run_on_stack(coir_case *cases, size_t count, size_t first)
{
    struct storage storage[ON_STACK];
    coir_branch branches[ON_STACK];
    return run(cases, count, first, branches, storage);
}

static CI_NOINLINE int run_in_memory(coir_case *cases, size_t count, size_t first)
{
    const coir_allocator *allocator = &ci_worker_current->runtime->allocator;
    size_t size;
    struct storage *storage;
    if (__builtin_mul_overflow(count, sizeof(struct storage) + sizeof(coir_branch), &size) ||
        !(storage = ci_alloc(allocator, size)))
        return -ENOMEM;
    int which = run(cases, count, first, (coir_branch *)(void *)(storage + count), storage);
    ci_free(allocator, storage, size);
    return which;
}

static bool all_made(const coir_case *cases, size_t count)
{
    const coir_case *one = cases, *end = cases + count;
    for (; end - one >= 4; one += 4) /* unrolled: this is a fifth of a select of many */
        if (ci_unlikely(!one[0].make || !one[1].make || !one[2].make || !one[3].make))
            return false;
    for (; one != end; one++)
        if (ci_unlikely(!one->make))
            return false;
    return true;
}

/* The first of some cases that happens at once, or that cannot be tried; `end`: there is none. */
CI_INLINE coir_case *try_each(coir_case *one, const coir_case *end)
{
    for (; one != end; one++)
        if (!one->try_now || one->try_now(one))
            break;
    return one;
}

/* The first case, from `first` on and round, that happens at once; -1: a future has to tell. */
CI_INLINE int try_all(coir_case *cases, size_t count, size_t first)
{
    coir_case *end = cases + count, *one = try_each(cases + first, end);
    if (one == end) {
        end = cases + first;
        one = try_each(cases, end);
    }
    return one != end && one->try_now ? (int)(one - cases) : -1;
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
    if (ci_unlikely(!all_made(cases, count)))
        return ci_misused(-EINVAL, "a case was not made by a coir_case_ function", call, place);
    struct ci_worker *worker = ci_worker_current;
    size_t first = in_order || count == 1 ? 0 : worker->rotation++ % count;
    int which = try_all(cases, count, first);
    if (which >= 0) {
        ci_spend(worker);
        return which;
    }
    return count <= ON_STACK ? run_on_stack(cases, count, first)
                             : run_in_memory(cases, count, first);
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

/* A sleep never completes at its first poll, even one whose time has come. */
static bool try_sleep(coir_case *self)
{
    (void)self;
    return false;
}

coir_case coir_case_at(coir_time when)
{
    return (coir_case){.make = make_sleep, .number = when, .try_now = try_sleep};
}

static coir_future *make_sleep_for(const coir_case *self, void *place)
{
    return coir_sleep_for_op(place, self->number);
}

coir_case coir_case_after(coir_time duration)
{
    return (coir_case){.make = make_sleep_for, .number = duration, .try_now = try_sleep};
}

static coir_future *make_join(const coir_case *self, void *place)
{
    (void)place;
    return coir_join_op(self->object);
}

static bool try_join(coir_case *self)
{
    return ci_handle_has_result(ci_handle_of(self->object), &self->result);
}

coir_case coir_case_join(coir_handle *handle)
{
    if (!handle)
        return ci_completed_case(CI_MISUSE(-EINVAL, "handle is NULL"));
    int rc = ci_handle_of(handle)->used ? CI_ELSEWHERE(ci_handle_of(handle)->worker) : 0;
    if (rc < 0)
        return ci_completed_case(rc);
    return (coir_case){.make = make_join, .object = handle, .try_now = try_join};
}

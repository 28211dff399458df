/* coir_resolve: all addresses of a name, from two lookups (IPv6 and IPv4). */
#include "coir/name.h"

#include <errno.h>
#include <string.h>

#include "io/io.h"
#include "io/name_lookup.h"
#include "task/completed.h"

enum { SIX, FOUR, FAMILIES };

/* What is needed only to resolve a host's name, not for a numeric address. */
struct resolving {
    struct ci_lookup lookups[FAMILIES];
    coir_branch branches[FAMILIES];
    coir_group group;
    struct ci_where where;
};

struct resolve_op {
    coir_future future;
    struct resolving *resolving;
    const char *text;
    coir_address *ret_addresses;
    size_t max;
    enum coir_family family;
};
CI_LEAVES_SPARE_WORDS(struct resolve_op, coir_name_op);
_Static_assert(sizeof(coir_name_op) <= CI_FIBER_OP_WORDS * sizeof(uint64_t), "a resolve is a case");

static void write_address(const struct resolve_op *self, size_t at, const struct ci_where *where)
{
    if (at >= self->max)
        return;
    memset(&self->ret_addresses[at], 0, sizeof self->ret_addresses[at]);
    memcpy(&self->ret_addresses[at], &where->address, sizeof where->address);
}

static bool is_wanted(const struct resolve_op *self, int family)
{
    return self->family == COIR_ANY_FAMILY || (self->family == COIR_IPV4) == (family == AF_INET);
}

/* The text is a numeric address, not a name. */
static int resolve_address(const struct resolve_op *self, struct ci_where *where)
{
    if (where->kind == CI_AT_SOCKET)
        return -COIR_EADDRESS;
    if (where->any && self->family == COIR_IPV4)
        ci_address_become_ipv4(where);
    if (where->address.ss_family != AF_UNIX && !is_wanted(self, where->address.ss_family))
        return -COIR_ENAME;
    write_address(self, 0, where);
    return 1;
}

static int interleave(const struct resolve_op *self)
{
    struct resolving *resolving = self->resolving;
    const struct ci_lookup *lookups = resolving->lookups;
    size_t count = 0;
    for (size_t i = 0; i < CI_IPS_MAX; i++)
        for (size_t family = 0; family < FAMILIES; family++)
            if (lookups[family].result == 0 && i < lookups[family].ips.count) {
                ci_where_set(&resolving->where, &lookups[family].ips.ip[i]);
                write_address(self, count++, &resolving->where);
            }
    if (count)
        return (int)count;
    return ci_lookup_error(lookups[SIX].result, lookups[FOUR].result);
}

static coir_future *ask_all(const struct resolve_op *self)
{
    struct resolving *resolving = self->resolving;
    size_t count = 0;
    for (size_t i = 0; i < FAMILIES; i++) {
        int family = i == SIX ? AF_INET6 : AF_INET;
        coir_future *future = ci_lookup_init(&resolving->lookups[i], resolving->where.host, family);
        resolving->lookups[i].result = -COIR_ENAME;
        if (is_wanted(self, family))
            resolving->branches[count++] = (coir_branch)COIR_BRANCH(future);
    }
    return coir_join_all_op(&resolving->group, resolving->branches, count, 0);
}

static bool is_question(const char *address, const coir_address *ret_addresses, size_t max)
{
    return address && (ret_addresses || !max);
}

static coir_future *resolve_poll(coir_future *future)
{
    struct resolve_op *self = ci_container_of(future, struct resolve_op, future);
    const coir_allocator *allocator = &ci_worker_current->runtime->allocator;
    struct ci_where where;
    int rc;
    COIR_BEGIN(future);
    if (ci_leaf_refused(ci_worker_current, future))
        return future->caller;
    if (!is_question(self->text, self->ret_addresses, self->max))
        COIR_RETURN(future, -EINVAL);
    if ((rc = ci_where_parse(self->text, &where)) < 0 || where.kind != CI_AT_HOST)
        COIR_RETURN(future, rc < 0 ? rc : resolve_address(self, &where));
    if (!(self->resolving = ci_alloc(allocator, sizeof *self->resolving)))
        COIR_RETURN(future, -ENOMEM);
    self->resolving->where = where;
    COIR_AWAIT(future, ask_all(self));
    rc = (int)self->resolving->group.future.result; /* 0, or the interrupt of the task */
    if (rc == 0)
        rc = interleave(self);
    ci_free(allocator, self->resolving, sizeof *self->resolving);
    COIR_RETURN(future, rc);
}

static const coir_future_kind resolve_kind =
    COIR_FUTURE_KIND("the addresses of a name", resolve_poll, NULL);

coir_future *coir_resolve_op(coir_name_op *opaque, const char *address, coir_address *ret_addresses,
                             size_t max)
{
    struct resolve_op *op = (struct resolve_op *)(void *)opaque;
    if (!op || !is_question(address, ret_addresses, max))
        return ci_completed_op(op, CI_MISUSE(-EINVAL, "op, address or ret_addresses is NULL"));
    op->text = address;
    op->ret_addresses = ret_addresses;
    op->max = max;
    op->family = COIR_ANY_FAMILY;
    return coir_future_init(&op->future, &resolve_kind);
}

int coir_resolve_with(const char *address, const coir_resolve_options *given,
                      coir_address *ret_addresses, size_t max)
{
    coir_resolve_options options = COIR_RESOLVE_OPTIONS;
    coir_name_op op;
    if (!is_question(address, ret_addresses, max))
        return CI_MISUSE(-EINVAL, "address or ret_addresses is NULL");
    int rc = ci_options_read(&options, sizeof options, given);
    if (rc < 0)
        return rc;
    coir_resolve_op(&op, address, ret_addresses, max);
    ((struct resolve_op *)(void *)&op)->family = options.family;
    if (options.family != COIR_ANY_FAMILY && options.family != COIR_IPV4 &&
        options.family != COIR_IPV6)
        return -EINVAL;
    return (int)ci_await_in_fiber(&op.future);
}

int coir_resolve(const char *address, coir_address *ret_addresses, size_t max)
{
    coir_name_op op;
    if (!is_question(address, ret_addresses, max))
        return CI_MISUSE(-EINVAL, "address or ret_addresses is NULL");
    return (int)ci_await_in_fiber(coir_resolve_op(&op, address, ret_addresses, max));
}

static coir_future *make_resolve(const coir_case *self, void *node)
{
    return coir_resolve_op(node, self->object, self->data, (size_t)self->number);
}

coir_case coir_case_resolve(const char *address, coir_address *ret_addresses, size_t max)
{
    if (!is_question(address, ret_addresses, max))
        return ci_completed_case(CI_MISUSE(-EINVAL, "address or ret_addresses is NULL"));
    return (coir_case){.make = make_resolve,
                       .object = (void *)(uintptr_t)address,
                       .data = ret_addresses,
                       .number = (int64_t)max};
}

#include "sim/completion.h"

#include "base/check.h"
#include "base/time.h"
#include "sim/audit.h"
#include "sim/event.h"
#include "sim/fault.h"
#include "sim/node.h"

static bool is_in(const struct ci_op *list, const struct ci_op *op)
{
    while (list && list != op)
        list = list->next;
    return list;
}

static void put_completed(struct ci_sim_driver *driver, struct ci_op *op)
{
    ci_debug_check(!is_in(driver->completed, op) && !is_in(driver->late, op), "completion.h 1");
    op->next = NULL;
    *driver->completed_tail = op;
    driver->completed_tail = &op->next;
}

/* An operation that has been taken off its list. */
static void report(struct ci_sim_driver *driver, struct ci_op *op)
{
    ci_debug_check(!is_in(driver->completed, op) && !is_in(driver->late, op), "completion.h 1");
    ci_check(op->pending && driver->base.pending, "completion.h 1");
    ci_op_done(&driver->base, op);
}

static void become_reportable(void *arg, size_t amount)
{
    (void)amount;
    struct ci_sim_driver *driver = arg;
    struct ci_op **at = &driver->late, *op;
    while (*at && (*at)->next)
        at = &(*at)->next;
    if ((op = *at)) { /* otherwise its descriptor has been closed in between */
        *at = NULL;
        put_completed(driver, op);
    }
}

void ci_sim_driver_complete(struct ci_sim_driver *driver, struct ci_op *op, int result)
{
    struct ci_world *world = driver->world;
    ci_check(op->pending, "completion.h 1");
    op->result = result;
    if (!ci_world_fault(world, driver->node, driver->node->faults.late, "late news")) {
        put_completed(driver, op);
        return;
    }
    op->next = driver->late;
    driver->late = op;
    ci_world_call(world,
                  ci_time_after(world->now, (coir_time)ci_random_below(&world->random, COIR_MS)),
                  become_reportable, driver, 0, NULL);
}

void ci_sim_driver_report(struct ci_sim_driver *driver)
{
    while (driver->completed && ci_random_below(&driver->world->random, 4) > 0) {
        struct ci_op *op = driver->completed;
        driver->completed = op->next;
        if (!driver->completed)
            driver->completed_tail = &driver->completed;
        report(driver, op);
    }
}

void ci_sim_driver_report_all(struct ci_sim_driver *driver, coir_fd fd)
{
    for (struct ci_op **at = &driver->late, *op; (op = *at);)
        if (op->fd == fd) {
            *at = op->next;
            put_completed(driver, op);
        } else {
            at = &op->next;
        }
    for (struct ci_op **at = &driver->completed, *op; (op = *at);) {
        if (op->fd != fd) {
            at = &op->next;
            continue;
        }
        *at = op->next;
        if (!*at)
            driver->completed_tail = at;
        report(driver, op);
        at = &driver->completed; /* `done` may have changed the list */
    }
}

bool ci_sim_driver_busy(const struct ci_driver *driver)
{
    const struct ci_sim_driver *sim = ci_container_of(driver, struct ci_sim_driver, base);
    return sim->completed || sim->woken;
}

void ci_sim_driver_audit(const struct ci_driver *driver)
{
    const struct ci_sim_driver *sim = ci_container_of(driver, struct ci_sim_driver, base);
    if (driver->pending)
        ci_world_leave(sim->world, sim->node, "%zu operations, never reported", driver->pending);
    for (const struct ci_op *op = sim->completed; op; op = op->next)
        ci_world_leave(sim->world, sim->node, "operation kind=%d fd=%d result=%d, never reported",
                       op->kind, op->fd, op->result);
    for (const struct ci_op *op = sim->late; op; op = op->next)
        ci_world_leave(sim->world, sim->node, "operation kind=%d fd=%d result=%d, late", op->kind,
                       op->fd, op->result);
}

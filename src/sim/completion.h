/* The operations of a simulated worker that are complete but not reported yet.
 *
 * 1. An operation is pending from its start until it is reported, which happens once;
 * `base.pending` counts those.
 */
#ifndef CI_SIM_COMPLETION_H
#define CI_SIM_COMPLETION_H

#include "driver/driver.h"
#include "sim/world.h"

/* The driver of one worker. */
struct ci_sim_driver {
    struct ci_driver base;
    struct ci_world *world;
    struct ci_node *node;
    struct ci_op *completed, **completed_tail; /* to be reported in the next wait */
    struct ci_op *late;                        /* to be reported later; the oldest last */
    bool woken;
};

/* Hands a completed operation to the driver that it was started on. */
void ci_sim_driver_complete(struct ci_sim_driver *driver, struct ci_op *op, int result);

/* Reports some of the completed operations; the seed chooses how many. */
void ci_sim_driver_report(struct ci_sim_driver *driver);

/* Reports all completed operations of a descriptor, before it is closed or forgotten. */
void ci_sim_driver_report_all(struct ci_sim_driver *driver, coir_fd fd);

/* Whether a wait would do something at once. */
bool ci_sim_driver_busy(const struct ci_driver *driver);

/* The audit: operations that are complete but were never reported. */
void ci_sim_driver_audit(const struct ci_driver *driver);

#endif

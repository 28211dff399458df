/* A driver over any selector. */
#ifndef CI_DRIVER_READINESS_H
#define CI_DRIVER_READINESS_H

#include "driver/driver.h"
#include "driver/selector.h"

/* Takes the selector over, also on failure. */
int ci_readiness_open(struct ci_selector *selector, const coir_allocator *allocator,
                      struct ci_driver **ret_driver);

#endif

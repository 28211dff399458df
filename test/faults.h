/* A driver around a real one that makes it late: operations begin or complete a wait later, and cancelled ones complete instead of being
 * withdrawn, as the seed says. Everything that a driver promises (driver.h) still holds, so every test must pass with it. */
#ifndef TEST_FAULTS_H
#define TEST_FAULTS_H

#include <stdint.h>

#include "driver/driver.h"

/* Takes the real driver over. */
struct ci_driver *faults_around(struct ci_driver *real, uint64_t seed);

#endif

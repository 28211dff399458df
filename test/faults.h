/* A driver around a real one that makes it late and sparing: operations begin or complete a wait
 * later, move less than they could, and cancelled ones complete instead of being withdrawn, as the
 * seed says. Everything that a driver promises (driver.h) still holds, so every test must pass with
 * it. */
#ifndef TEST_FAULTS_H
#define TEST_FAULTS_H

#include <stdint.h>

#include "driver/driver.h"

/* Takes the real driver over. */
struct ci_driver *faults_around(struct ci_driver *real, uint64_t seed);

/* From now on one in `one_in` calls fails too, for want of memory, buffers or descriptors. 0:
 * none. */
void faults_fail(struct ci_driver *driver, unsigned one_in);

/* The next `count` accepts fail, with this error. */
void faults_fail_accepts(struct ci_driver *driver, int error, unsigned count);

#endif

/* What overflow.c and snapshot.c need of generators. */
#ifndef CI_TASK_GENERATOR_H
#define CI_TASK_GENERATOR_H

#include "coir/generator.h"
#include "sys/context.h"

/* The generator that resumed this one, which is running; NULL: the fiber itself resumed it. Safe in
 * a signal handler. */
const coir_generator *ci_generator_outer(const coir_generator *generator);

/* Where what resumed this one goes on, while it runs. */
const struct ci_context *ci_generator_resumer(const coir_generator *generator);

#endif

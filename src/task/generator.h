/* What overflow.c needs of generators. */
#ifndef CI_TASK_GENERATOR_H
#define CI_TASK_GENERATOR_H

#include "coir/generator.h"

/* The generator that resumed this one, which is running; NULL: the fiber itself resumed it. Safe in
 * a signal handler. */
const coir_generator *ci_generator_outer(const coir_generator *generator);

#endif

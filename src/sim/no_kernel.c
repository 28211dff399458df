/* The ordinary library, over the real kernel, has no simulated one. */
#include "sim/kernel.h"

const struct ci_sim_kernel *const ci_sim_kernel = NULL;

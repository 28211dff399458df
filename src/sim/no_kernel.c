/* For the library over the real kernel: there is no simulated one. */
#include "sim/kernel.h"

const struct ci_sim_kernel *const ci_sim_kernel = NULL;

/* Runs a test inside a process of the simulated kernel. */
#ifndef TEST_KERNEL_RUN_H
#define TEST_KERNEL_RUN_H

#include <stdint.h>

/* From a seed; everything that the body opened must be closed by then. */
void kernel_run(uint64_t seed, void (*body)(void));

/* The same from a few seeds, or the one that SEED=N in the environment names. */
void kernel_run_seeds(void (*body)(void));

#endif

/* The simulated kernel where linux/io_uring.h is missing: it has no io_uring, and the library is
 * built without it. */
#include "sim/kernel/kernel.h"

void ci_krings_open(void)
{
}

void ci_krings_calm(void)
{
}

void ci_krings_free(void)
{
}

#include "sys/residence.h"

#include <sys/mman.h>

#include "sys/result.h"

/* Without MCL_FUTURE: guards of stacks cannot be made in memory that is locked. */
int ci_memory_lock(void)
{
    return (int)ci_result(mlockall(MCL_CURRENT));
}

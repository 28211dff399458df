#include "sys/valgrind.h"

#include <stdlib.h>
#include <string.h>

/* Valgrind preloads a library of its own into every program that it runs, static ones too, and takes
 * it out of the environment of children that it does not follow. Its header's RUNNING_ON_VALGRIND
 * would need that header wherever coir is built. */
bool ci_under_valgrind(void)
{
    const char *preload = getenv("LD_PRELOAD");
    return preload && strstr(preload, "/vgpreload_core");
}

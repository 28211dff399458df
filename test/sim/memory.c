/* Memory that a seed has freed stays in the process for the next one: to give it back to the
 * system and to fault it in again took a quarter of the time of the short scenarios. */
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>

enum { KEPT_MOST = 64 << 20 };

__attribute__((constructor)) static void keep_memory(void)
{
    mallopt(M_TRIM_THRESHOLD, KEPT_MOST);
    mallopt(M_MMAP_THRESHOLD, KEPT_MOST / 2);
    mallopt(M_TOP_PAD, 1 << 20);
}
#endif

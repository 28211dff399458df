#include "sys/mapping_keep.h"

#include <string.h>
#include <sys/mman.h>

#include "base/compiler.h"

static CI_THREAD_LOCAL struct ci_mapping_keep *kept;

void ci_mapping_keep(struct ci_mapping_keep *keep)
{
    kept = keep;
}

bool ci_mapping_is_kept(void)
{
    return kept != NULL;
}

static struct ci_kept_mapping remove_at(size_t i)
{
    const struct ci_kept_mapping mapping = kept->mappings[i];
    kept->count--;
    memmove(&kept->mappings[i], &kept->mappings[i + 1], (kept->count - i) * sizeof mapping);
    return mapping;
}

bool ci_mapping_give(const struct ci_kept_mapping *mapping)
{
    if (!kept)
        return false;
    if (kept->count == CI_MAPPINGS_KEPT) {
        const struct ci_kept_mapping oldest = remove_at(0);
        munmap(oldest.start, oldest.size);
    }
    kept->mappings[kept->count++] = *mapping;
    return true;
}

bool ci_mapping_take(struct ci_kept_mapping *mapping)
{
    for (size_t i = kept ? kept->count : 0; i-- > 0;) {
        const struct ci_kept_mapping *one = &kept->mappings[i];
        if (one->size == mapping->size && one->stack_size == mapping->stack_size) {
            *mapping = remove_at(i);
            return true;
        }
    }
    return false;
}

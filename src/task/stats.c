#include "task/stats.h"

#include <string.h>

#include "base/character.h"

enum { PROBES = 32 };

static size_t hash_of(const char *name, size_t len)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (uint8_t)name[i]) * 16777619u;
    return hash ^ hash >> 16;
}

/* By its characters, as each task may have a copy of its own. */
static struct ci_stats_name *find(struct ci_stats *stats, const char *name)
{
    size_t len = ci_character_cut(name, CI_STATS_NAME - 1), at = hash_of(name, len);
    for (size_t i = 0; i < PROBES; i++) {
        struct ci_stats_name *entry = &stats->names[(at + i) % CI_STATS_NAMES];
        if (!entry->name[0])
            memcpy(entry->name, name, len);
        if (strncmp(entry->name, name, len) == 0 && !entry->name[len])
            return entry;
    }
    return &stats->names[CI_STATS_NAMES];
}

struct ci_stats_name *ci_stats_find(struct ci_stats *stats, const char *name)
{
    if (!*name)
        return NULL;
    struct ci_stats_known *known = ci_stats_known_at(stats, name);
    *known = (struct ci_stats_known){name, find(stats, name)};
    return known->name;
}

void ci_stats_renamed(struct ci_stats *stats, const char *name)
{
    ci_stats_known_at(stats, name)->from = NULL;
}

void ci_stats_begin(struct ci_stats *stats)
{
    stats->first = stats->batch_count = 0;
    memset(stats->known, 0, sizeof stats->known);
}

void ci_stats_stack(struct ci_stats *stats, const char *name, size_t used)
{
    struct ci_stats_name *entry = find(stats, name);
    /* After the name: pairs with the acquire in metrics.c. Always, because how much is used depends
     * on what else the process has done (the first call of a function by name needs more), and in a
     * simulation nothing else may. */
    ci_store_release(&entry->stack, used > entry->stack ? used : entry->stack);
}

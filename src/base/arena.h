/* Memory that is freed all at once. Pieces are cut from pooled blocks by advancing a pointer;
 * larger ones get a block of their own. */
#ifndef CI_BASE_ARENA_H
#define CI_BASE_ARENA_H

#include "base/pool.h"

enum { CI_ARENA_BLOCK = 4096 };

struct ci_arena {
    char *at, *end;                /* the free part of the current block; NULL: there is none */
    struct ci_arena_block *blocks; /* newest first */
    struct ci_pool *pool;          /* of CI_ARENA_BLOCK objects; NULL: it gets no memory */
    size_t used;                   /* bytes of all pieces, rounded up to 16 each */
    size_t used_max;               /* 0: no limit */
};

static inline void ci_arena_init(struct ci_arena *arena, struct ci_pool *pool, size_t used_max)
{
    *arena = (struct ci_arena){.pool = pool, .used_max = used_max};
}

/* An arena that has `size` bytes at `memory`, aligned to 16 bytes, and gets no more. */
static inline void ci_arena_init_at(struct ci_arena *arena, void *memory, size_t size)
{
    *arena = (struct ci_arena){.at = memory, .end = (char *)memory + size};
}

/* Whether anything was taken since it was made or reset. */
static inline bool ci_arena_is_used(const struct ci_arena *arena)
{
    return arena->blocks || arena->used;
}

/* Frees every piece; the arena can be used again. */
void ci_arena_free_blocks(struct ci_arena *arena);
static inline void ci_arena_reset(struct ci_arena *arena)
{
    if (arena->blocks)
        ci_arena_free_blocks(arena);
}

/* Aligned to 16 bytes; NULL at the limit or when memory is out. */
void *ci_arena_alloc(struct ci_arena *arena, size_t size);

/* A copy of the text with a NUL behind it; NULL as ci_arena_alloc. */
char *ci_arena_copy(struct ci_arena *arena, const char *text, size_t len);

#endif

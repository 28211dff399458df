#include "base/arena.h"

#include <string.h>

struct ci_arena_block {
    struct ci_arena_block *next;
    size_t size; /* CI_ARENA_BLOCK: it is from the pool */
};

void ci_arena_free_blocks(struct ci_arena *arena)
{
    while (arena->blocks) {
        struct ci_arena_block *block = arena->blocks;
        arena->blocks = block->next;
        if (block->size == CI_ARENA_BLOCK)
            ci_pool_give(arena->pool, block);
        else
            ci_free(arena->pool->allocator, block, block->size);
    }
    arena->at = arena->end = NULL;
    arena->used = 0;
}

static void *alloc_in_new_block(struct ci_arena *arena, size_t size)
{
    if (!arena->pool)
        return NULL;
    size_t head = (sizeof(struct ci_arena_block) + 15) & ~(size_t)15;
    bool small = head + size <= CI_ARENA_BLOCK;
    size_t block_size = small ? (size_t)CI_ARENA_BLOCK : head + size;
    struct ci_arena_block *block =
        small ? ci_pool_take(arena->pool) : ci_alloc(arena->pool->allocator, block_size);
    if (!block)
        return NULL;
    *block = (struct ci_arena_block){arena->blocks, block_size};
    arena->blocks = block;
    char *memory = (char *)block + head;
    if (small && (size_t)((char *)block + CI_ARENA_BLOCK - memory) - size >
                     (size_t)(arena->end - arena->at)) {
        /* the block with more free space becomes the current one */
        arena->at = memory + size;
        arena->end = (char *)block + CI_ARENA_BLOCK;
    }
    return memory;
}

void *ci_arena_alloc(struct ci_arena *arena, size_t size)
{
    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + 15) & ~(size_t)15;
    if (arena->used_max && (size > arena->used_max || arena->used > arena->used_max - size))
        return NULL;
    void *memory;
    if (ci_likely((size_t)(arena->end - arena->at) >= size && arena->at)) {
        memory = arena->at;
        arena->at += size;
    } else if (!(memory = alloc_in_new_block(arena, size))) {
        return NULL;
    }
    arena->used += size;
    return memory;
}

char *ci_arena_copy(struct ci_arena *arena, const char *text, size_t len)
{
    char *copy = ci_arena_alloc(arena, len + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

/* Arenas: aligned pieces, a limit, and everything back at once. */
#include "base/arena.h"

#include <string.h>

#include "harness.h"

TEST(arena_gives_aligned_memory_and_takes_it_back_whole)
{
    struct ci_pool blocks;
    struct ci_arena arena;
    ci_pool_init(&blocks, &ci_system_allocator, CI_ARENA_BLOCK, 0);
    ci_arena_init(&arena, &blocks, 100000);
    for (int round = 0; round < 3; round++) {
        for (size_t size = 1; size < 9000; size = size * 3 + 1) {
            char *memory = ci_arena_alloc(&arena, size);
            CHECK(memory && ((uintptr_t)memory & 15) == 0);
            memset(memory, (int)size, size);
        }
        CHECK(strcmp(ci_arena_copy(&arena, "abc", 2), "ab") == 0);
        ci_arena_reset(&arena);
        CHECK_EQ(blocks.live, 0);
    }
    CHECK(ci_arena_alloc(&arena, 100001) == NULL);
    CHECK(ci_arena_alloc(&arena, SIZE_MAX) == NULL);
    CHECK(ci_arena_alloc(&arena, SIZE_MAX - 7) == NULL);
    ci_arena_reset(&arena);
    ci_pool_done(&blocks);
}

TEST(a_piece_that_has_a_block_of_its_own_leaves_the_small_ones_where_they_are)
{
    struct ci_pool blocks;
    struct ci_arena arena;
    ci_pool_init(&blocks, &ci_system_allocator, CI_ARENA_BLOCK, 0);
    ci_arena_init(&arena, &blocks, 0);
    char *first = ci_arena_alloc(&arena, 16);
    CHECK(ci_arena_alloc(&arena, 2 * CI_ARENA_BLOCK));
    CHECK(ci_arena_alloc(&arena, 16) == first + 16);
    CHECK_EQ(blocks.live, 1);
    CHECK_EQ(arena.used, 32 + 2 * CI_ARENA_BLOCK);
    ci_arena_reset(&arena);
    ci_pool_done(&blocks);
}

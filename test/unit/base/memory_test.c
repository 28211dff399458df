/* Arrays that grow; memory that is aligned, or zero. */
#include "base/memory.h"

#include "harness.h"
#include "unit/base/bounded.h"

TEST(an_array_grows_and_keeps_its_items)
{
    void *array = NULL;
    size_t room = 0;
    for (size_t want = 1; want < 5000; want = want * 3 / 2 + 1) {
        size_t before = room;
        CHECK_EQ(ci_grow(&bounded, &array, &room, sizeof(uint64_t), want), 0);
        CHECK(room >= want && in_a_block(array, room * sizeof(uint64_t)));
        uint64_t *items = array;
        for (size_t i = 0; i < room; i++) {
            CHECK_EQ(items[i], i < before ? i + 1 : 0);
            items[i] = i + 1;
        }
    }
    CHECK_EQ(block_count, 1);
    bounded_free(array, room * sizeof(uint64_t), NULL);
}

TEST(the_systems_memory_is_aligned_and_zero_where_asked)
{
    for (size_t size = 1; size < 100000; size = size * 2 + 1) {
        char *memory = ci_alloc_zero(&bounded, size);
        CHECK(memory && ((uintptr_t)memory & 63) == 0);
        for (size_t i = 0; i < size; i++)
            CHECK_EQ(memory[i], 0);
        ci_free(&bounded, memory, size);
        memory = ci_alloc(&ci_system_allocator, size);
        CHECK(memory && ((uintptr_t)memory & 63) == 0);
        ci_free(&ci_system_allocator, memory, size);
    }
    CHECK_EQ(block_count, 0);
}

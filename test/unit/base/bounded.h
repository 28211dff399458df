/* An allocator that knows its blocks: whether a pointer lies in one, and how much is live. */
#ifndef TEST_BOUNDED_H
#define TEST_BOUNDED_H

#include <coir/base.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

enum { BLOCKS_MOST = 4096 };
static struct block {
    char *memory;
    size_t size;
} blocks[BLOCKS_MOST];
static size_t block_count, bytes_live;

static void *bounded_alloc(size_t size, void *context)
{
    (void)context;
    void *memory = NULL;
    CHECK(block_count < BLOCKS_MOST);
    CHECK_EQ(posix_memalign(&memory, 64, size), 0);
    memset(memory, 0xee, size);
    blocks[block_count++] = (struct block){memory, size};
    bytes_live += size;
    return memory;
}

static void bounded_free(void *memory, size_t size, void *context)
{
    (void)context;
    if (!memory)
        return;
    size_t i = 0;
    while (i < block_count && blocks[i].memory != memory)
        i++;
    CHECK(i < block_count);
    CHECK_EQ(size, blocks[i].size); /* `free` gets the size that was asked for */
    bytes_live -= size;
    blocks[i] = blocks[--block_count];
    free(memory);
}

static const coir_allocator bounded = COIR_ALLOCATOR(bounded_alloc, bounded_free, NULL);

static inline bool in_a_block(const char *object, size_t size)
{
    for (size_t i = 0; i < block_count; i++)
        if (object >= blocks[i].memory && object + size <= blocks[i].memory + blocks[i].size)
            return true;
    return false;
}

#endif

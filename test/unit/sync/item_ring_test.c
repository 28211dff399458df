/* The ring of a channel's items, beside an array. */
#include "sync/item_ring.h"

#include <coir.h>
#include <stdlib.h>

#include "base/random.h"
#include "harness.h"

static size_t allocations_left, bytes_live;

static void *few_alloc(size_t size, void *arg)
{
    (void)arg;
    if (allocations_left == 0)
        return NULL;
    allocations_left--;
    bytes_live += size;
    return malloc(size);
}

static void few_free(void *memory, size_t size, void *arg)
{
    (void)arg;
    bytes_live -= size;
    free(memory);
}

static const coir_allocator few = COIR_ALLOCATOR(few_alloc, few_free, NULL);

enum { ITEMS = 2000 };
struct item {
    uint32_t number;
    uint8_t more[9]; /* no word */
};

static void put(struct ci_item_ring *ring, uint32_t number)
{
    struct item item = {.number = number};
    memset(item.more, (int)number, sizeof item.more);
    CHECK_EQ(ci_item_ring_put(ring, &item), 0);
}

static void take(struct ci_item_ring *ring, uint32_t number)
{
    struct item item;
    ci_item_ring_take(ring, &item);
    CHECK_EQ(item.number, number);
    for (size_t i = 0; i < sizeof item.more; i++)
        CHECK_EQ(item.more[i], (uint8_t)number);
}

/* Items come out in the order in which they went in, wherever the ring begins when it grows. */
static void in_order(size_t capacity, uint64_t seed)
{
    struct ci_random random = {seed};
    struct ci_item_ring ring;
    uint32_t sent = 0, taken = 0;
    allocations_left = 1000;
    CHECK_EQ(ci_item_ring_init(&ring, &few, sizeof(struct item), capacity), 0);
    while (taken < ITEMS) {
        for (uint64_t n = ci_random_below(&random, 9); n > 0 && sent < ITEMS; n--)
            if (sent - taken < capacity)
                put(&ring, sent++);
        for (uint64_t n = ci_random_below(&random, 8); n > 0 && taken < sent; n--)
            if (ci_random_below(&random, 3))
                take(&ring, taken++);
            else
                ci_item_ring_drop(&ring), taken++;
        CHECK_EQ(ring.count, sent - taken);
        for (size_t i = 0; i < ring.count; i++) {
            struct item item;
            memcpy(&item, ci_item_ring_slot(&ring, i), sizeof item);
            CHECK_EQ(item.number, taken + i);
        }
    }
    ci_item_ring_done(&ring);
    CHECK_EQ(bytes_live, 0);
}

TEST(items_stay_in_order)
{
    static const size_t capacities[] = {1, 2, 3, 16, 50, COIR_UNLIMITED};
    for (size_t i = 0; i < ci_countof(capacities); i++)
        for (uint64_t seed = 1; seed <= 5; seed++)
            in_order(capacities[i], seed);
}

/* A full ring stays full, and in order, wherever it begins. */
static void exchanges(size_t item_size, size_t capacity)
{
    struct ci_item_ring ring;
    uint8_t sent[16] = {0}, oldest[16] = {0}; /* numbered by their first byte */
    allocations_left = 1;
    CHECK_EQ(ci_item_ring_init(&ring, &few, item_size, capacity), 0);
    for (; sent[0] < capacity; sent[0]++)
        CHECK_EQ(ci_item_ring_put(&ring, sent), 0);
    for (; sent[0] < 4 * capacity; sent[0]++) {
        CHECK(ci_item_ring_exchange(&ring, oldest, sent));
        CHECK_EQ(oldest[0], sent[0] - capacity);
        CHECK(ring.count == capacity && ring.head < capacity);
    }
    for (size_t taken = sent[0] - capacity; taken < sent[0]; taken++) {
        ci_item_ring_take(&ring, oldest);
        CHECK_EQ(oldest[0], taken);
    }
    ci_item_ring_done(&ring);
    CHECK_EQ(bytes_live, 0);
}

TEST(the_oldest_item_is_exchanged_for_a_new_one)
{
    static const size_t sizes[] = {1, 4, 8, 16};
    for (size_t i = 0; i < ci_countof(sizes); i++)
        for (size_t capacity = 1; capacity <= 5; capacity++)
            exchanges(sizes[i], capacity);
}

TEST(items_of_an_unusual_size_are_not_exchanged)
{
    struct ci_item_ring ring;
    uint8_t first[17] = {1}, item[17] = {7}, oldest[17] = {9};
    allocations_left = 1;
    CHECK_EQ(ci_item_ring_init(&ring, &few, sizeof item, 1), 0);
    CHECK_EQ(ci_item_ring_put(&ring, first), 0);
    CHECK(!ci_item_ring_exchange(&ring, oldest, item));
    CHECK_EQ(oldest[0], 9);
    ci_item_ring_take(&ring, oldest);
    CHECK_EQ(oldest[0], 1);
    ci_item_ring_done(&ring);
}

TEST(a_ring_that_cannot_grow_keeps_its_items)
{
    struct ci_item_ring ring;
    struct item item = {.number = 1};
    CHECK_EQ(ci_item_ring_init(&ring, &few, sizeof item, 10), -ENOMEM);
    CHECK_EQ(ci_item_ring_init(&ring, &few, SIZE_MAX / 2, 3), -ENOMEM);
    allocations_left = 2;
    CHECK_EQ(ci_item_ring_init(&ring, &few, sizeof item, COIR_UNLIMITED), 0);
    uint32_t sent = 0;
    while (allocations_left || ring.count < ring.slots)
        put(&ring, sent++);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(ci_item_ring_put(&ring, &item), -ENOMEM);
    CHECK_EQ(ring.count, sent);
    for (uint32_t i = 0; i < sent; i++)
        take(&ring, i);
    ci_item_ring_done(&ring);
    CHECK_EQ(bytes_live, 0);
}

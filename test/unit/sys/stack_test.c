/* Stacks: their reuse, and what goes back to the system after a burst. */
#include "sys/stack.h"

#include <string.h>
#include <sys/mman.h>

#include "harness.h"

enum { SIZE = 64 * 1024, RECORD = 300 };

static struct ci_stacks stacks;

TEST(the_last_given_is_the_next_taken)
{
    ci_stacks_init(&stacks, &ci_system_allocator, SIZE, RECORD);
    void *a = ci_stacks_take(&stacks), *b = ci_stacks_take(&stacks);
    CHECK_EQ(stacks.live, 2);
    ci_stacks_give(&stacks, a);
    ci_stacks_give(&stacks, b);
    CHECK(ci_stacks_take(&stacks) == b && ci_stacks_take(&stacks) == a);
    ci_stacks_done(&stacks);
}

enum { BURST = 5000 };

TEST(what_only_a_burst_needed_goes_back)
{
    static void *records[BURST];
    ci_stacks_init(&stacks, &ci_system_allocator, SIZE, RECORD);
    for (int i = 0; i < BURST; i++)
        CHECK((records[i] = ci_stacks_take(&stacks)));
    size_t mappings = stacks.mapping_count;
    CHECK_EQ(ci_stacks_trim(&stacks), CI_TRIM_LATER); /* all are in use: nothing can go yet */
    for (int i = 0; i < BURST; i++)
        if (i != 3000)
            ci_stacks_give(&stacks, records[i]);
    CHECK_EQ(ci_stacks_trim(&stacks), CI_TRIM_SOON); /* puts them aside */
    CHECK_EQ(stacks.mapping_count, mappings);
    ci_stacks_trim(&stacks);
    /* the first, that of the one still in use, that of the few kept */
    CHECK(mappings > 5 && stacks.mapping_count <= 3);
    memset(records[3000], 2, RECORD);
    CHECK_EQ(stacks.live, 1);
    size_t cached = 0;
    for (struct ci_stack_free *free = stacks.free; free; free = free->next)
        cached++;
    for (struct ci_stack_free *free = stacks.cold; free; free = free->next)
        cached++;
    CHECK(!stacks.aside && stacks.cold);
    CHECK_EQ(cached, stacks.cached);
    for (int i = 0; i < BURST; i++)
        CHECK((records[i] = ci_stacks_take(&stacks)));
    ci_stacks_done(&stacks);
}

TEST(what_is_used_between_two_trims_stays)
{
    static void *records[BURST];
    ci_stacks_init(&stacks, &ci_system_allocator, SIZE, RECORD);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < BURST; i++)
            CHECK((records[i] = ci_stacks_take(&stacks)));
        size_t mappings = stacks.mapping_count;
        for (int i = 0; i < BURST; i++)
            ci_stacks_give(&stacks, records[i]);
        CHECK_EQ(ci_stacks_trim(&stacks), CI_TRIM_SOON);
        CHECK_EQ(stacks.mapping_count, mappings);
        CHECK_EQ(stacks.cached, BURST);
    }
    ci_stacks_done(&stacks);
}

TEST(what_was_reserved_is_there_and_stays)
{
    static void *records[300];
    unsigned char resident[SIZE / 4096];
    ci_stacks_init(&stacks, &ci_system_allocator, SIZE, RECORD);
    records[0] = ci_stacks_take(&stacks);
    ci_stacks_give(&stacks, records[0]);
    CHECK(ci_stacks_reserve(&stacks, 300));
    CHECK_EQ(stacks.cached, 300);
    CHECK_EQ(stacks.live, 0);
    CHECK_EQ(ci_stacks_trim(&stacks), CI_TRIM_DONE);
    for (int i = 0; i < 300; i++) {
        records[i] = ci_stacks_take(&stacks);
        char *frames = (char *)ci_stack_bottom(&stacks, records[i]) + CI_STACK_GUARD;
        CHECK_EQ(mincore(frames, stacks.size - CI_STACK_GUARD, resident), 0);
        for (size_t page = 0; page < (stacks.size - CI_STACK_GUARD) / 4096; page++)
            CHECK(resident[page] & 1);
    }
    CHECK_EQ(stacks.cached, 0);
    ci_stacks_done(&stacks);
}

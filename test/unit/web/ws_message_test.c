/* Messages: counted, framed in place, and of memory that is used again. */
#include "web/ws_message.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

static long allocations, live;

static void *count_alloc(size_t size, void *arg)
{
    (void)arg;
    allocations++;
    live++;
    return malloc(size);
}

static void *alloc_nothing(size_t size, void *arg)
{
    (void)size, (void)arg;
    return NULL;
}

static void count_free(void *memory, size_t size, void *arg)
{
    (void)size, (void)arg;
    live--;
    free(memory);
}

static const coir_allocator counting = COIR_ALLOCATOR(count_alloc, count_free, NULL);
static bool grown;

TEST(blocks_are_used_again_and_trimmed)
{
    struct ci_ws_memory memory;
    coir_ws_message *messages[100];
    ci_ws_memory_init(&memory, &counting, &grown);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 100; i++) {
            messages[i] = ci_ws_message_take(&memory, i * 50);
            CHECK(messages[i] && ci_ws_message_room(messages[i]) >= i * 50);
            memset(ci_ws_message_payload(messages[i]), 1, i * 50);
        }
        CHECK_EQ(memory.live, 100);
        for (size_t i = 0; i < 100; i++)
            coir_ws_message_unref(messages[i]);
        CHECK_EQ(allocations, 100);
    }
    CHECK(grown && memory.live == 0);
    CHECK_EQ(ci_ws_memory_trim(&memory), CI_TRIM_SOON);
    CHECK_EQ(live, 100);
    CHECK_EQ(ci_ws_memory_trim(&memory), CI_TRIM_DONE);
    CHECK_EQ(live, 0);
    ci_ws_memory_done(&memory);
}

TEST(a_reserved_memory_keeps_what_it_has)
{
    struct ci_ws_memory memory;
    ci_ws_memory_init(&memory, &counting, &grown);
    memory.reserved = true;
    coir_ws_message_unref(ci_ws_message_take(&memory, 1000));
    for (int i = 0; i < 5; i++)
        CHECK_EQ(ci_ws_memory_trim(&memory), CI_TRIM_DONE);
    CHECK_EQ(live, 1);
    ci_ws_memory_done(&memory);
    CHECK_EQ(live, 0);
}

/* In whatever order they come, and in whatever number of each length. */
TEST(reserved_blocks_are_enough)
{
    struct ci_ws_memory memory;
    enum { COUNT = 10, LONGEST = 1000 };
    static const size_t sizes[] = {100, 300, 300, 5000};
    coir_ws_message *messages[COUNT];
    void *blocks[3 * 4];
    ci_ws_memory_init(&memory, &counting, &grown);
    CHECK(ci_ws_memory_room(&memory) == 0);
    for (int twice = 0; twice < 2; twice++) {
        CHECK(ci_ws_memory_reserve_messages(&memory, LONGEST, COUNT));
        CHECK(ci_ws_memory_reserve(&memory, sizes, 4, 3));
        CHECK_EQ(allocations, 2 * COUNT + 3 * 4);
    }
    CHECK(ci_ws_memory_room(&memory) >= LONGEST);
    for (size_t least = 0; least <= LONGEST; least += 100) {
        for (size_t i = 0; i < COUNT; i++) {
            size_t room = least + (i * 777) % (LONGEST - least + 1);
            CHECK((messages[i] = ci_ws_message_take(&memory, room)));
            CHECK(ci_ws_message_room(messages[i]) >= room);
            memset(ci_ws_message_payload(messages[i]), 1, room);
        }
        for (size_t i = 0; i < 3 * 4; i++)
            CHECK((blocks[i] = ci_alloc(&memory.blocks, sizes[i % 4])));
        for (size_t i = 0; i < COUNT; i++)
            coir_ws_message_unref(messages[(i * 7) % COUNT]);
        for (size_t i = 0; i < 3 * 4; i++)
            ci_free(&memory.blocks, blocks[i], sizes[i % 4]);
        CHECK_EQ(memory.live, 0);
    }
    for (size_t i = 0; i < COUNT; i++) /* short ones beyond those for short ones */
        messages[i] = ci_ws_message_take(&memory, 1);
    coir_ws_message *more = ci_ws_message_take(&memory, 1);
    CHECK(ci_ws_message_room(more) >= LONGEST);
    CHECK_EQ(allocations, 2 * COUNT + 3 * 4);
    coir_ws_message *longer = ci_ws_message_take(&memory, LONGEST + 100);
    CHECK_EQ(allocations, 2 * COUNT + 3 * 4 + 1);
    /* a server with longer messages begins while these are in use */
    CHECK(ci_ws_memory_reserve_messages(&memory, 3 * LONGEST, 2));
    coir_ws_message_unref(longer);
    coir_ws_message_unref(more);
    for (size_t i = 0; i < COUNT; i++)
        coir_ws_message_unref(messages[i]);
    CHECK_EQ(memory.live, 0);
    ci_ws_memory_done(&memory);
    CHECK_EQ(live, 0);
}

TEST(what_cannot_be_reserved)
{
    struct ci_ws_memory memory;
    static const size_t sizes[] = {100, 4 << 20};
    ci_ws_memory_init(&memory, &counting, &grown);
    CHECK(!ci_ws_memory_reserve(&memory, sizes, 2, 1));
    CHECK(!ci_ws_memory_reserve_messages(&memory, SIZE_MAX / 2, 1));
    memory.allocator.alloc = alloc_nothing;
    CHECK(!ci_ws_memory_reserve(&memory, sizes, 1, 1));
    CHECK(!ci_ws_memory_reserve_messages(&memory, 1000, 1));
    CHECK_EQ(memory.live, 0);
    ci_ws_memory_done(&memory);
    CHECK_EQ(live, 0);
}

TEST(what_is_no_message_comes_from_the_same_blocks)
{
    struct ci_ws_memory memory;
    ci_ws_memory_init(&memory, &counting, &grown);
    for (size_t size = 1; size < 5000; size += 100) {
        char *block = ci_alloc(&memory.blocks, size);
        CHECK(block != NULL);
        CHECK_EQ(memory.live, 1);
        memset(block, 1, size);
        ci_free(&memory.blocks, block, size);
        CHECK_EQ(memory.live, 0);
    }
    CHECK_EQ(allocations, 6); /* 256 bytes to 8192 */
    coir_ws_message_unref(ci_ws_message_take(&memory, 300));
    CHECK_EQ(allocations, 6);
    ci_ws_memory_done(&memory);
    CHECK_EQ(live, 0);
}

TEST(little_is_kept)
{
    struct ci_ws_memory memory;
    enum { MANY = 20 };
    coir_ws_message *messages[MANY];
    ci_ws_memory_init(&memory, &counting, &grown);
    for (int i = 0; i < MANY; i++)
        CHECK((messages[i] = ci_ws_message_take(&memory, 1000000)));
    for (int i = 0; i < MANY; i++)
        coir_ws_message_unref(messages[i]);
    CHECK(memory.kept <= 4 << 20 && memory.kept > 1 << 20);
    CHECK((messages[0] = ci_ws_message_take(&memory, 10000000)));
    coir_ws_message_unref(messages[0]);
    CHECK(memory.kept <= 4 << 20);
    ci_ws_memory_done(&memory);
    CHECK_EQ(live, 0);
}

TEST(a_message_grows_and_keeps_its_bytes)
{
    struct ci_ws_memory memory;
    coir_ws_message *message = NULL;
    ci_ws_memory_init(&memory, &counting, &grown);
    CHECK(ci_ws_message_grow(&memory, &message, 0, 5));
    memcpy(ci_ws_message_payload(message), "hello", 5);
    CHECK(ci_ws_message_grow(&memory, &message, 5, 50000));
    CHECK(memcmp(ci_ws_message_payload(message), "hello", 5) == 0);
    CHECK_EQ(memory.live, 1);
    coir_ws_message_unref(message);
    ci_ws_memory_done(&memory);
    CHECK_EQ(live, 0);
}

/* What a server sends of it, and what a client does. */
TEST(frames)
{
    static const size_t lengths[] = {0, 125, 126, 65535, 65536};
    static char data[65536];
    struct ci_ws_memory memory;
    ci_ws_memory_init(&memory, &counting, &grown);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        coir_ws_message *message = ci_ws_message_take(&memory, lengths[i]);
        struct ci_ws_head head = {.len = lengths[i], .opcode = CI_WS_TEXT, .fin = true};
        memset(data, 'd', sizeof data);
        memcpy(ci_ws_message_payload(message), data, lengths[i]);
        ci_ws_message_finish(message, &head);
        size_t head_len = ci_ws_head_len(lengths[i], false);
        const uint8_t *frame = coir_buffer_data(&message->frame);
        CHECK_EQ(coir_buffer_len(&message->frame), head_len + lengths[i]);
        CHECK(frame[0] == 0x81 && memcmp(frame + head_len, data, lengths[i]) == 0);
        coir_ws_message *masked =
            ci_ws_message_mask(&memory, message, (const uint8_t[]){1, 2, 3, 4});
        struct ci_ws_frames frames = {.masked = true};
        size_t used;
        frame = coir_buffer_data(&masked->frame);
        CHECK_EQ(ci_ws_parse_head(&frames, frame, coir_buffer_len(&masked->frame), &used), 1);
        CHECK_EQ(coir_buffer_len(&masked->frame), used + lengths[i]);
        ci_ws_mask(data, frame + used, lengths[i], frames.head.key, 0);
        CHECK(memcmp(data, coir_ws_message_data(message), lengths[i]) == 0);
        coir_ws_message_unref(masked);
        coir_ws_message_unref(message);
    }
    ci_ws_memory_done(&memory);
    CHECK_EQ(live, 0);
}

enum { DROPPED = 5000 };

static void *drop(void *messages)
{
    for (int i = 0; i < DROPPED; i++)
        coir_ws_message_unref(((coir_ws_message **)messages)[i]);
    return NULL;
}

/* For ThreadSanitizer. */
TEST(a_worker_trims_while_another_thread_drops_messages)
{
    static coir_ws_message *messages[DROPPED];
    struct ci_ws_memory memory;
    pthread_t thread;
    ci_ws_memory_init(&memory, &ci_system_allocator, &grown);
    for (int i = 0; i < DROPPED; i++)
        CHECK((messages[i] = ci_ws_message_take(&memory, 100)));
    CHECK_EQ(pthread_create(&thread, NULL, drop, messages), 0);
    for (int i = 0; i < DROPPED; i++)
        CHECK(ci_ws_memory_trim(&memory) != CI_TRIM_SOON || i == 0);
    pthread_join(thread, NULL);
    CHECK_EQ(ci_ws_memory_trim(&memory), CI_TRIM_DONE);
    ci_ws_memory_done(&memory);
}

/* lists, pools, arenas, the inbox */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/inbox.h"
#include "base/list.h"
#include "base/time.h"
#include "coir/version.h"
#include "harness.h"

TEST(list_keeps_order_and_removes_twice)
{
    struct ci_list head, nodes[3], other;
    ci_list_init(&head);
    for (int i = 0; i < 3; i++)
        ci_list_push(&head, &nodes[i]);
    ci_list_remove(&nodes[1]);
    ci_list_remove(&nodes[1]);
    CHECK(ci_list_pop(&head) == &nodes[0]);
    ci_list_take(&other, &head);
    CHECK(ci_list_empty(&head));
    CHECK(ci_list_pop(&other) == &nodes[2]);
    CHECK(ci_list_pop(&other) == NULL);
}

TEST(pool_reuses_last_given_first_and_stops_at_its_limit)
{
    struct ci_pool pool;
    ci_pool_init(&pool, &ci_system_allocator, 40, 3);
    char *a = ci_pool_take(&pool), *b = ci_pool_take(&pool), *c = ci_pool_take(&pool);
    CHECK(a && b && c && b > a && c > b);
    memset(a, 1, 40);
    CHECK(ci_pool_take(&pool) == NULL);
    ci_pool_give(&pool, a);
    ci_pool_give(&pool, c);
    CHECK(ci_pool_take(&pool) == c);
    CHECK(ci_pool_take(&pool) == a);
    ci_pool_done(&pool);
}

static size_t allocations, allocations_max;

static void *counted_alloc(size_t size, void *context)
{
    (void)context;
    return allocations < allocations_max ? allocations++, malloc(size) : NULL;
}

static void counted_free(void *memory, size_t size, void *context)
{
    (void)context;
    (void)size;
    free(memory);
}

TEST(pool_survives_a_failed_allocation)
{
    const coir_allocator allocator = COIR_ALLOCATOR(counted_alloc, counted_free, NULL);
    struct ci_pool pool;
    ci_pool_init(&pool, &allocator, 64, 0);
    CHECK(ci_pool_take(&pool) == NULL);
    allocations_max = 1;
    CHECK(ci_pool_take(&pool) != NULL);
    ci_pool_done(&pool);
}

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

enum { SENDERS = 4, MESSAGES = 20000 };

struct numbered {
    struct ci_message message;
    int sender, number;
};

static struct ci_inbox inbox;
static struct numbered sent[SENDERS][MESSAGES];

static void *send_all(void *arg)
{
    int sender = (int)(intptr_t)arg;
    for (int i = 0; i < MESSAGES; i++) {
        sent[sender][i].sender = sender;
        sent[sender][i].number = i;
        ci_inbox_push(&inbox, &sent[sender][i].message);
    }
    return NULL;
}

TEST(inbox_keeps_every_senders_order)
{
    pthread_t threads[SENDERS];
    int next[SENDERS] = {0}, total = 0;
    for (int i = 0; i < SENDERS; i++)
        CHECK(pthread_create(&threads[i], NULL, send_all, (void *)(intptr_t)i) == 0);
    while (total < SENDERS * MESSAGES) {
        struct ci_message *message = ci_inbox_take(&inbox);
        while (message) {
            struct numbered *numbered = ci_container_of(message, struct numbered, message);
            message = message->next;
            CHECK_EQ(numbered->number, next[numbered->sender]);
            next[numbered->sender]++;
            total++;
        }
    }
    for (int i = 0; i < SENDERS; i++)
        pthread_join(threads[i], NULL);
}

static const int meant_by_coir[] = {
    ESRCH,      EXDEV,    ETIME,     ECANCELED,    EDEADLK,  EBUSY,  EAGAIN,        EALREADY,
    EPIPE,      EINVAL,   EBADF,     EADDRINUSE,   EMFILE,   ENFILE, EADDRNOTAVAIL, ECONNREFUSED,
    ECONNRESET, ENOTCONN, ETIMEDOUT, EDESTADDRREQ, EMSGSIZE, ENOBUFS};

TEST(errors_have_texts)
{
    CHECK(strstr(coir_strerror(-COIR_EEND), "the stream ended") != NULL);
    CHECK(strcmp(coir_strerror(-2), "No such file or directory") == 0);
    CHECK(strcmp(coir_strerror(-123456), "unknown error") == 0);
    CHECK(strcmp(coir_strerror(INT_MIN), "unknown error") == 0);
    for (int i = 0; i < (int)(sizeof meant_by_coir / sizeof meant_by_coir[0]); i++) {
        const char *text = coir_strerror(-meant_by_coir[i]);
        /* the C library means something else by it */
        CHECK(strcmp(text, strerror(meant_by_coir[i])) != 0);
        for (int k = 0; k < i; k++)
            CHECK(strcmp(text, coir_strerror(meant_by_coir[k])) != 0);
    }
    CHECK(strstr(coir_strerror(-ESRCH), "outside of a fiber") != NULL);
    CHECK(strstr(coir_strerror(-ETIME), "deadline") != NULL);
}

/* Against arithmetic that cannot overflow, on every pair of times at and around each border. */
TEST(times_saturate)
{
    static const coir_time borders[] = {INT64_MIN, INT64_MIN / 2,  -COIR_S,   0,
                                        COIR_S,    COIR_NEVER / 2, COIR_NEVER};
    coir_time times[3 * sizeof borders / sizeof *borders];
    int count = 0;
    for (size_t i = 0; i < sizeof borders / sizeof *borders; i++)
        for (int beside = -1; beside <= 1; beside++)
            if (!(borders[i] == INT64_MIN && beside < 0) &&
                !(borders[i] == COIR_NEVER && beside > 0))
                times[count++] = borders[i] + beside;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++) {
            coir_time a = times[i], b = times[j];
            __int128 sum = (__int128)a + b, difference = (__int128)a - b;
            bool never = a == COIR_NEVER || b == COIR_NEVER || sum > COIR_NEVER;
            CHECK_EQ(ci_time_after(a, b), never             ? COIR_NEVER
                                          : sum < INT64_MIN ? INT64_MIN
                                                            : (coir_time)sum);
            never = a == COIR_NEVER || difference > COIR_NEVER;
            coir_time left = never ? COIR_NEVER : difference > 0 ? (coir_time)difference : 0;
            CHECK_EQ(ci_time_left(a, b), left);
            CHECK_EQ(ci_time_timeout(a, b), left == COIR_NEVER ? -1 : left);
        }
}

/* ---- growth ---- */

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

static bool in_a_block(const char *object, size_t size)
{
    for (size_t i = 0; i < block_count; i++)
        if (object >= blocks[i].memory && object + size <= blocks[i].memory + blocks[i].size)
            return true;
    return false;
}

/* Objects of every slab are zero at first, whole, apart from each other, and inside of memory that
 * is the pool's. */
static void grow_pool(size_t size, size_t count)
{
    struct ci_pool pool;
    char **objects = calloc(count, sizeof *objects);
    ci_pool_init(&pool, &bounded, size, 0);
    for (int round = 0; round < 2; round++) {
        size_t slabs = block_count;
        for (size_t i = 0; i < count; i++) {
            CHECK((objects[i] = ci_pool_take(&pool)));
            CHECK(in_a_block(objects[i], size) && ((uintptr_t)objects[i] & 15) == 0);
            for (size_t at = 0; round == 0 && at < size; at++)
                CHECK_EQ(objects[i][at], 0);
            memset(objects[i], (int)(i & 0x7f), size);
            CHECK_EQ(pool.live, i + 1);
        }
        for (size_t i = 0; i < count; i++)
            for (size_t at = 0; at < size; at++)
                CHECK_EQ(objects[i][at], i & 0x7f);
        for (size_t i = 0; i < count; i++)
            ci_pool_give(&pool, objects[i]);
        CHECK_EQ(pool.live, 0);
        /* the second round needs nothing new */
        CHECK(round == 0 ? block_count > 2 : block_count == slabs);
    }
    ci_pool_done(&pool);
    CHECK_EQ(block_count, 0);
    CHECK_EQ(bytes_live, 0);
    free(objects);
}

TEST(pool_grows_by_whole_objects_of_its_own)
{
    static const size_t sizes[] = {8, 16, 40, 96, 1000, 16 * 1024, 20000, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        grow_pool(sizes[i], sizes[i] < 100 ? 3 * 65536 / sizes[i] : sizes[i] < 16384 ? 500 : 40);
}

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

/* ---- what a pool gives back ---- */

static size_t slabs_live;

static void *count_alloc(size_t size, void *context)
{
    slabs_live++;
    return ci_system_allocator.alloc(size, context);
}

static void count_free(void *memory, size_t size, void *context)
{
    slabs_live--;
    ci_system_allocator.free(memory, size, context);
}

TEST(a_pool_gives_back_what_was_not_used_between_two_trims)
{
    enum { OBJECTS = 2000, SIZE = 1000 };
    static char *objects[OBJECTS];
    const coir_allocator counting = COIR_ALLOCATOR(count_alloc, count_free, NULL);
    struct ci_pool pool;
    bool grown = false;
    ci_pool_init(&pool, &counting, SIZE, 0);
    pool.grown = &grown;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < OBJECTS; i++) {
            CHECK((objects[i] = ci_pool_take(&pool)));
            memset(objects[i], i, SIZE);
        }
        size_t most = slabs_live;
        CHECK(grown && most > 20);
        CHECK_EQ(ci_pool_trim(&pool), CI_TRIM_LATER); /* all are in use: nothing can go yet */
        for (int i = 0; i < OBJECTS; i++)
            if (i != 1000 || round < 2)
                ci_pool_give(&pool, objects[i]);
        CHECK_EQ(ci_pool_trim(&pool), CI_TRIM_SOON); /* they were used since the last one */
        CHECK_EQ(slabs_live, most);
    }
    ci_pool_trim(&pool);
    /* that of the one in use, the newest, those of the few kept */
    CHECK(slabs_live <= 4);
    /* it may be more when the one in use is given back */
    CHECK_EQ(ci_pool_trim(&pool), CI_TRIM_LATER);
    for (int i = 0; i < SIZE; i++)
        CHECK_EQ(objects[1000][i], (char)1000);
    CHECK_EQ(pool.live, 1);
    ci_pool_done(&pool);
    CHECK_EQ(slabs_live, 0);
}

/* As tasks' copies do that end on another worker than they were spawned on. */
TEST(a_pool_of_other_pools_objects_can_be_trimmed)
{
    enum { SIZE = 64, COUNT = 100 };
    struct ci_pool from, to;
    void *objects[COUNT];
    ci_pool_init(&from, &ci_system_allocator, SIZE, 0);
    ci_pool_init(&to, &ci_system_allocator, SIZE, 0);
    for (int i = 0; i < COUNT; i++)
        CHECK((objects[i] = ci_pool_take(&from)));
    for (int i = 0; i < COUNT; i++)
        ci_pool_give(&to, objects[i]);
    for (int i = 0; i < 4; i++)
        ci_pool_trim(&to);
    for (int i = 0; i < COUNT; i++)
        CHECK(ci_pool_take(&to));
    CHECK_EQ(to.live, 0); /* it counts what it gave less what it took */
    ci_pool_done(&to);
    ci_pool_done(&from);
}

TEST(the_library_tells_the_version_of_its_headers)
{
    CHECK(coir_version() == COIR_VERSION);
    CHECK(COIR_VERSION_MINOR < 1000 && COIR_VERSION_PATCH < 1000);
}

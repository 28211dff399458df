/* Buffers: what they hold, and when it is freed. */
#include <coir.h>
#include <errno.h>
#include <string.h>

#include "harness.h"

static int freed;

static void count_freed(void *data, void *arg)
{
    CHECK(data == arg);
    freed++;
}

TEST(a_new_buffer_holds_a_copy_and_a_wrapped_one_does_not)
{
    char bytes[] = "hello";
    coir_buffer *copy, *wrapped;
    CHECK_EQ(coir_buffer_new(bytes, 5, &copy), 0);
    CHECK_EQ(coir_buffer_wrap(bytes, 5, NULL, NULL, &wrapped), 0);
    CHECK(coir_buffer_data(wrapped) == bytes && coir_buffer_len(wrapped) == 5);
    bytes[0] = 'j';
    CHECK(coir_buffer_len(copy) == 5 && memcmp(coir_buffer_data(copy), "hello", 5) == 0);
    coir_buffer_unref(copy);
    coir_buffer_unref(wrapped);
    coir_buffer_unref(NULL);
}

TEST(the_last_reference_frees_the_bytes_once)
{
    char bytes[3] = "abc";
    coir_buffer *buffer;
    CHECK_EQ(coir_buffer_wrap(bytes, sizeof bytes, count_freed, bytes, &buffer), 0);
    CHECK(coir_buffer_ref(buffer) == buffer);
    coir_buffer_unref(buffer);
    CHECK_EQ(freed, 0);
    coir_buffer_unref(buffer);
    CHECK_EQ(freed, 1);
}

enum { WORKERS = 3, ROUNDS = 2000 };

static int share(void *arg)
{
    for (int i = 0; i < ROUNDS; i++)
        coir_buffer_unref(coir_buffer_ref(arg));
    coir_buffer_unref(arg);
    return 0;
}

static void share_everywhere(void)
{
    char bytes[3] = "abc";
    coir_buffer *buffer;
    CHECK_EQ(coir_buffer_wrap(bytes, sizeof bytes, count_freed, bytes, &buffer), 0);
    COIR_SCOPE(scope);
    for (int i = 0; i < WORKERS; i++)
        CHECK_EQ(coir_go_on(scope, i, share, coir_buffer_ref(buffer)), 0);
    coir_buffer_unref(buffer);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(freed, 1);
}

TEST(workers_may_take_and_give_up_references_at_the_same_time)
{
    test_in_runtime(share_everywhere, WORKERS);
}

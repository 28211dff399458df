/* Messages of a program: on plain threads, and on a worker, given back from another one. */
#include <coir.h>
#include <coir/ws.h>
#include <errno.h>
#include <string.h>

#include "harness.h"
#include "sys/misuse.h"

TEST(messages_of_plain_threads)
{
    coir_ws_message *message;
    CHECK_EQ(coir_ws_message_new(COIR_WS_TEXT, "h\xc3\xa9", 3, &message), 0);
    CHECK_EQ(coir_ws_message_len(coir_ws_message_ref(message)), 3);
    CHECK(memcmp(coir_ws_message_data(message), "h\xc3\xa9", 3) == 0);
    CHECK_EQ(coir_ws_message_type(message), COIR_WS_TEXT);
    coir_ws_message_unref(message);
    coir_ws_message_unref(message);
    CHECK_EQ(coir_ws_message_new(COIR_WS_BINARY, NULL, 0, &message), 0);
    CHECK_EQ(coir_ws_message_len(message), 0);
    CHECK_EQ(coir_ws_message_type(message), COIR_WS_BINARY);
    coir_ws_message_unref(message);
    coir_ws_message_unref(NULL);
    CHECK_EQ(coir_ws_message_new(COIR_WS_TEXT, "h\xe9", 2, &message), -EILSEQ);
    ci_misuse_aborts = false;
    CHECK_EQ(coir_ws_message_new((enum coir_ws_type)3, "a", 1, &message), -EINVAL);
}

static int drop(void *message)
{
    CHECK(memcmp(coir_ws_message_data(message), "abc", 3) == 0);
    coir_ws_message_unref(message);
    return 0;
}

static void hand_over(void)
{
    for (int i = 0; i < 100; i++) {
        coir_ws_message *message;
        CHECK_EQ(coir_ws_message_new(COIR_WS_BINARY, "abc", 3, &message), 0);
        CHECK_EQ(coir_call_on(i % 2, drop, coir_ws_message_ref(message)), 0);
        coir_ws_message_unref(message);
    }
}

TEST(a_message_goes_back_from_another_worker)
{
    test_in_runtime(hand_over, 2);
}

/* Channels: their limit, their policies, their end. */
#include <coir.h>
#include <errno.h>

#include "unit/sync/everywhere.h"

TEST_SIM(a_channel_keeps_order_and_its_limit)
{
    coir_channel *channel;
    CHECK_EQ(coir_channel_new(0, 3, &channel), -EINVAL);
    CHECK_EQ(coir_channel_new(sizeof(int), 3, &channel), 0);
    int got[8];
    for (int i = 1; i <= 3; i++)
        CHECK_EQ(coir_channel_try_send(channel, &i), 0);
    int four = 4;
    CHECK_EQ(coir_channel_try_send(channel, &four), -EAGAIN);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_channel_send(channel, &four), -ETIME);
    }
    CHECK_EQ(coir_channel_count(channel), 3);
    CHECK_EQ(coir_channel_recv(channel, got), 0);
    CHECK_EQ(got[0], 1);
    CHECK_EQ(coir_channel_send(channel, &four), 0);
    CHECK_EQ(coir_channel_recv_many(channel, got, 8), 3);
    CHECK(got[0] == 2 && got[1] == 3 && got[2] == 4);
    CHECK_EQ(coir_channel_try_recv(channel, got), -EAGAIN);
    CHECK_EQ(coir_channel_send(channel, &four), 0);
    coir_channel_close(channel);
    coir_channel_close(channel);
    CHECK_EQ(coir_channel_send(channel, &four), -EPIPE);
    CHECK_EQ(coir_channel_recv(channel, got), 0);
    CHECK_EQ(coir_channel_recv(channel, got), -EPIPE);
    CHECK_EQ(coir_channel_recv_many(channel, got, 8), -EPIPE);
    CHECK(coir_channel_is_closed(channel));
    coir_channel_free(channel);
    coir_channel_free(NULL);
}

/* The ring is copied when it grows, wherever its oldest item lies. */
TEST_SIM(a_channel_that_grows_keeps_its_order)
{
    coir_channel *channel;
    int got;
    CHECK_EQ(coir_channel_new(sizeof got, COIR_UNLIMITED, &channel), 0);
    for (int taken = 0, sent = 0; taken < 500; taken++) {
        for (int more = 0; more < 3; more++, sent++)
            CHECK_EQ(coir_channel_try_send(channel, &sent), 0);
        CHECK_EQ(coir_channel_try_recv(channel, &got), 0);
        CHECK_EQ(got, taken);
    }
    for (int i = 500; i < 1500; i++) {
        CHECK_EQ(coir_channel_try_recv(channel, &got), 0);
        CHECK_EQ(got, i);
    }
    coir_channel_free(channel);
}

static int released;

static void count_release(void *item, void *arg)
{
    (void)arg;
    released += *(int *)item;
}

TEST_SIM(a_full_channel_does_what_its_policy_says)
{
    coir_channel_options options = COIR_CHANNEL_OPTIONS;
    options.item_size = sizeof(int);
    options.capacity = 2;
    options.unref = count_release;
    int got;
    for (int policy = COIR_OVERFLOW_DROP_OLDEST; policy <= COIR_OVERFLOW_KEEP_LATEST; policy++) {
        coir_channel *channel;
        options.overflow = (enum coir_overflow)policy;
        CHECK_EQ(coir_channel_new_with(&options, &channel), 0);
        released = 0;
        int last = 0;
        for (int i = 1; i <= 3; i++)
            last = coir_channel_send(channel, &i);
        CHECK_EQ(last, policy == COIR_OVERFLOW_CLOSE ? -EPIPE : 0);
        static const int dropped[] = {0, 1, 3, 0, 1 + 2}, first[] = {0, 2, 1, 1, 3},
                         left[] = {0, 3, 2, 2, 0};
        CHECK_EQ(released, dropped[policy]);
        CHECK_EQ(coir_channel_recv(channel, &got), 0);
        CHECK_EQ(got, first[policy]);
        released = 0;
        coir_channel_free(channel);
        CHECK_EQ(released, left[policy]);
    }
}

struct waiting {
    coir_channel *channel;
    int result;
};

static int receive_four(void *arg)
{
    struct waiting *waiting = arg;
    int got[4];
    waiting->result = (int)coir_channel_recv_many(waiting->channel, got, 4);
    return 0;
}

static int await_four(void *arg)
{
    struct waiting *waiting = arg;
    int got[4];
    coir_wait_op op;
    waiting->result = (int)coir_await(coir_channel_recv_many_op(&op, waiting->channel, got, 4));
    return 0;
}

static int receive_one(void *arg)
{
    struct waiting *waiting = arg;
    int got;
    waiting->result = coir_channel_recv(waiting->channel, &got);
    return 0;
}

static int send_one(void *arg)
{
    struct waiting *waiting = arg;
    int item = 1;
    waiting->result = coir_channel_send(waiting->channel, &item);
    return 0;
}

static int await_send(void *arg)
{
    struct waiting *waiting = arg;
    int item = 1;
    coir_wait_op op;
    waiting->result = (int)coir_await(coir_channel_send_op(&op, waiting->channel, &item));
    return 0;
}

/* What a call returns that waits until another one transfers its item, by a call or a try. */
static int result_of(coir_task_fn *call, bool sends, size_t capacity, bool by_try)
{
    struct waiting waiting = {.result = 99};
    int item = 2;
    CHECK_EQ(coir_channel_new(sizeof item, capacity, &waiting.channel), 0);
    for (size_t i = 0; sends && i < capacity; i++)
        CHECK_EQ(coir_channel_try_send(waiting.channel, &item), 0);
    {
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, call, &waiting), 0);
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
        CHECK_EQ(waiting.result, 99);
        if (sends)
            CHECK_EQ((by_try ? coir_channel_try_recv : coir_channel_recv)(waiting.channel, &item),
                     0);
        else
            CHECK_EQ((by_try ? coir_channel_try_send : coir_channel_send)(waiting.channel, &item),
                     0);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    coir_channel_free(waiting.channel);
    return waiting.result;
}

TEST_SIM(a_call_that_waited_returns_what_it_says)
{
    for (int how = 0; how < 4; how++) {
        size_t capacity = how & 1;
        CHECK_EQ(result_of(receive_four, false, capacity, how & 2), 1);
        CHECK_EQ(result_of(await_four, false, capacity, how & 2), 1);
        CHECK_EQ(result_of(receive_one, false, capacity, how & 2), 0);
        CHECK_EQ(result_of(send_one, true, capacity, how & 2), 0);
        CHECK_EQ(result_of(await_send, true, capacity, how & 2), 0);
    }
}

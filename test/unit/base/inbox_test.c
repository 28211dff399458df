/* The inbox keeps the order of every producer. */
#include "base/inbox.h"

#include <pthread.h>

#include "harness.h"

enum { SENDERS = 4, MESSAGES = 20000 };

/* Never delivered: the test takes them itself. */
static void deliver(struct ci_message *message)
{
    (void)message;
    CHECK(false);
}

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
        sent[sender][i].message.deliver = deliver;
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

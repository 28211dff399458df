/* An inbox: many producers, one consumer, intrusive. It is a stack that the consumer takes whole
 * and reverses, so the order of one producer's messages is kept. Pushing never fails and never
 * allocates. A message is the consumer's from the moment it is pushed: its own deliver may free it.
 *
 * 1. A message that is pushed has its function `deliver` set.
 */
#ifndef CI_BASE_INBOX_H
#define CI_BASE_INBOX_H

#include "base/atomic.h"
#include "base/check.h"
#include "base/sanitizer.h"

struct ci_message {
    struct ci_message *next;
    void (*deliver)(struct ci_message *message);
};

struct ci_inbox {
    struct ci_message *top;
};

static inline void ci_inbox_push(struct ci_inbox *inbox, struct ci_message *message)
{
    ci_debug_check(message->deliver, "inbox.h 1");
    ci_note_release(inbox);
    struct ci_message *top = ci_load_relaxed(&inbox->top);
    do
        message->next = top;
    /* seq_cst: a look at whether the consumer sleeps comes after it without a fence (loop.c); as a
     * release it pairs with the acquire in ci_inbox_take */
    while (!ci_compare_exchange(&inbox->top, &top, message));
}

static inline bool ci_inbox_empty(const struct ci_inbox *inbox)
{
    return ci_load_relaxed(&inbox->top) == NULL;
}

/* Takes all messages: a list, oldest first. */
static inline struct ci_message *ci_inbox_take(struct ci_inbox *inbox)
{
    struct ci_message *message = ci_exchange_acquire(&inbox->top, NULL), *oldest = NULL;
    ci_note_acquire(inbox);
    while (message) {
        struct ci_message *next = message->next;
        message->next = oldest;
        oldest = message;
        message = next;
    }
    return oldest;
}

#endif

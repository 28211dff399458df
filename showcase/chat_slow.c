/* The slow reader: a member of a room that takes a message every SLOW_READ, from a queue of
 * SLOW_QUEUE with the policy that somebody chose. The room is told what that does to it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "chat.h"
#include "json.h"

#define SLOW_READ (700 * COIR_MS)
#define SLOW_MOST (5 * 60 * COIR_S)

struct slow {
    struct chat *chat;
    struct room *room;
    coir_channel *channel;
    const char *policy;
    bool off; /* it was switched off; else its policy has closed it */
    uint64_t read;
};

static const struct {
    const char *name;
    enum coir_overflow overflow;
} policies[] = {
    {"drop-oldest", COIR_OVERFLOW_DROP_OLDEST},
    {"drop-newest", COIR_OVERFLOW_DROP_NEWEST},
    {"keep-latest", COIR_OVERFLOW_KEEP_LATEST},
    {"disconnect", COIR_OVERFLOW_CLOSE},
};
enum { POLICIES = sizeof policies / sizeof *policies };

coir_ws_message *slow_state(const struct room *room)
{
    const struct slow *slow = room->slow;
    struct json json;
    coir_ws_message *message;
    json_begin(&json, "slow");
    json_add(&json, "on", slow && !slow->off ? "true" : "false");
    if (slow) {
        bool closed = coir_channel_is_closed(slow->channel);
        json_add_string(&json, "policy", slow->policy);
        json_add(&json, "closed", closed && !slow->off ? "true" : "false");
        json_add(&json, "queued", "%zu", coir_channel_count(slow->channel));
        json_add(&json, "capacity", "%d", SLOW_QUEUE);
        json_add(&json, "lost", "%llu", (unsigned long long)coir_channel_lost(slow->channel));
        json_add(&json, "read", "%llu", (unsigned long long)slow->read);
    }
    return json_end(&json, &message) == 0 ? message : NULL;
}

static void tell(struct chat *chat, struct room *room)
{
    coir_ws_message *message = slow_state(room);
    if (message)
        room_tell(chat, room, message);
}

void slow_tell(struct chat *chat, struct room *room)
{
    if (room->slow)
        tell(chat, room);
}

/* Whether it is to read on. */
static bool note_read(struct slow *slow)
{
    pthread_mutex_lock(&slow->chat->lock);
    bool on = !slow->off;
    slow->read += on;
    if (on)
        tell(slow->chat, slow->room);
    pthread_mutex_unlock(&slow->chat->lock);
    return on;
}

static void read_slowly(struct slow *slow)
{
    coir_ws_message *message;
    bool on = true;
    COIR_DEADLINE(coir_in(SLOW_MOST));
    while (on && coir_channel_recv(slow->channel, &message) == 0) {
        coir_ws_message_unref(message);
        on = note_read(slow) && coir_sleep_for(SLOW_READ) == 0;
    }
}

static int slow_task(void *arg)
{
    struct slow *slow = arg;
    struct chat *chat = slow->chat;
    read_slowly(slow);
    pthread_mutex_lock(&chat->lock);
    slow->off = true;
    tell(chat, slow->room);
    slow->room->slow = NULL;
    pthread_mutex_unlock(&chat->lock);
    coir_channel_free(slow->channel); /* it leaves the room by that */
    free(slow);
    return 0;
}

/* Joins and starts. The room counts it as a user until it has left. */
static int start(struct slow *slow, enum coir_overflow overflow)
{
    struct chat *chat = slow->chat;
    struct member *member = member_new(chat, slow->room, "Slow reader");
    if (!member)
        return -ENOMEM;
    int rc = coir_topic_tree_join(chat->tree, slow->room->messages, member->id, SLOW_QUEUE,
                                  overflow, &slow->channel);
    if (rc < 0) {
        member_free(chat, member);
        return rc;
    }
    slow->room->users++;
    slow->room->slow = slow;
    rc = coir_go(chat->scope, slow_task, slow);
    if (rc < 0) {
        slow->room->slow = NULL;
        coir_channel_free(slow->channel);
    }
    return rc;
}

static int switch_on(struct chat *chat, struct room *room, int policy)
{
    struct slow *slow = room->slow ? NULL : calloc(1, sizeof *slow);
    if (!slow)
        return room->slow ? 0 : -ENOMEM;
    *slow = (struct slow){.chat = chat, .room = room, .policy = policies[policy].name};
    int rc = start(slow, policies[policy].overflow);
    if (rc < 0)
        free(slow);
    else
        tell(chat, room);
    return rc;
}

int slow_switch(struct chat *chat, struct room *room, const char *policy)
{
    int rc = 0;
    pthread_mutex_lock(&chat->lock);
    for (int i = 0; i < POLICIES; i++)
        if (strcmp(policy, policies[i].name) == 0)
            rc = switch_on(chat, room, i);
    if (strcmp(policy, "off") == 0 && room->slow) {
        room->slow->off = true;
        coir_channel_close(room->slow->channel);
        tell(chat, room);
    }
    pthread_mutex_unlock(&chat->lock);
    return rc;
}

/* The chat's topic tree, and who is present. */
#include "chat.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "json.h"

static void ref(void *message, void *arg)
{
    (void)arg;
    coir_ws_message_ref(*(coir_ws_message **)message);
}

static void unref(void *message, void *arg)
{
    (void)arg;
    coir_ws_message_unref(*(coir_ws_message **)message);
}

int chat_open(struct chat *chat)
{
    coir_topic_tree_options options = COIR_TOPIC_TREE_OPTIONS;
    struct timespec now;
    options.item_size = sizeof(coir_ws_message *);
    options.ref = ref;
    options.unref = unref;
    clock_gettime(CLOCK_REALTIME, &now);
    chat->epoch = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    pthread_mutex_init(&chat->lock, NULL);
    int rc = coir_topic_tree_new_with(&options, &chat->tree);
    return rc < 0 ? rc
                  : coir_topic_tree_watch(chat->tree, "rooms/*/messages", COIR_UNLIMITED,
                                          COIR_OVERFLOW_DROP_OLDEST, &chat->presence);
}

void chat_close(struct chat *chat)
{
    if (!chat->tree)
        return;
    coir_channel_free(chat->presence);
    coir_topic_tree_free(chat->tree);
    while (chat->members)
        member_free(chat, chat->members);
    for (int i = 0; i < ROOMS_MAX; i++)
        for (int j = 0; j < HISTORY; j++)
            coir_ws_message_unref(chat->rooms[i].history[j]);
    pthread_mutex_destroy(&chat->lock);
}

static void tell_presence(struct chat *chat, const struct member *member, bool joined)
{
    struct json json;
    coir_ws_message *message;
    json_begin(&json, joined ? "joined" : "left");
    json_add(&json, "id", "%llu", (unsigned long long)member->id);
    json_add_string(&json, "name", member->name);
    if (json_end(&json, &message) == 0)
        room_tell(chat, member->room, message);
}

/* The list changes and the room is told in one step, so that what a client was given as the list
 * goes with what it is told then. */
static void note(struct chat *chat, const coir_presence *presence)
{
    pthread_mutex_lock(&chat->lock);
    struct member *member = chat->members;
    while (member && member->id != presence->member)
        member = member->next;
    if (member) {
        member->present = presence->joined;
        tell_presence(chat, member, presence->joined);
        if (!presence->joined) {
            room_leave(member->room);
            member_free(chat, member);
        }
    }
    pthread_mutex_unlock(&chat->lock);
}

int chat_keep_presence(void *arg)
{
    struct chat *chat = arg;
    coir_presence presence;
    int rc;
    while ((rc = coir_channel_recv(chat->presence, &presence)) == 0)
        note(chat, &presence);
    return rc == -EPIPE ? 0 : rc;
}

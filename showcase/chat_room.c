/* Rooms, their members and their history. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "chat.h"
#include "json.h"

static void forget_history(struct room *room)
{
    for (int i = 0; i < HISTORY; i++) {
        coir_ws_message_unref(room->history[i]);
        room->history[i] = NULL;
    }
}

/* The room of that name; else one without a name; else the one that was left the longest ago. */
static struct room *choose(struct chat *chat, const char *name)
{
    struct room *chosen = NULL;
    for (int i = 0; i < ROOMS_MAX; i++) {
        struct room *room = &chat->rooms[i];
        if (strcmp(room->name, name) == 0)
            return room;
        if (room->users == 0 && (!chosen || room->used < chosen->used))
            chosen = room;
    }
    return chosen;
}

struct room *room_enter(struct chat *chat, const char *name)
{
    struct room *room = choose(chat, name);
    if (!room)
        return NULL;
    if (strcmp(room->name, name) != 0) {
        forget_history(room);
        *room = (struct room){.users = 0};
        snprintf(room->name, sizeof room->name, "%s", name);
        snprintf(room->messages, sizeof room->messages, "rooms/%s/messages", name);
        snprintf(room->live, sizeof room->live, "rooms/%s/live", name);
    }
    room->users++;
    room->used = coir_now();
    return room;
}

void room_leave(struct room *room)
{
    room->users--;
    room->used = coir_now();
}

struct member *member_new(struct chat *chat, struct room *room, const char *name)
{
    struct member *member = calloc(1, sizeof *member);
    if (!member)
        return NULL;
    member->id = ++chat->next_id;
    member->room = room;
    member->next = chat->members;
    snprintf(member->name, sizeof member->name, "%s", name);
    chat->members = member;
    return member;
}

void member_free(struct chat *chat, struct member *member)
{
    struct member **at = &chat->members;
    while (*at != member)
        at = &(*at)->next;
    *at = member->next;
    free(member);
}

void room_tell(struct chat *chat, struct room *room, coir_ws_message *message)
{
    coir_topic_tree_publish(chat->tree, room->live, &message);
    coir_ws_message_unref(message);
}

static int say(struct chat *chat, struct room *room, const struct member *from, const char *tag,
               const char *text)
{
    struct json json;
    struct timespec now;
    coir_ws_message *message;
    clock_gettime(CLOCK_REALTIME, &now);
    json_begin(&json, "said");
    json_add(&json, "sequence", "%llu", (unsigned long long)room->sequence + 1);
    json_add(&json, "id", "%llu", (unsigned long long)from->id);
    json_add(&json, "at", "%lld", (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000);
    json_add_string(&json, "name", from->name);
    json_add_string(&json, "tag", tag);
    json_add_string(&json, "text", text);
    int rc = json_end(&json, &message);
    if (rc < 0)
        return rc;
    coir_ws_message **kept = &room->history[++room->sequence % HISTORY];
    coir_ws_message_unref(*kept);
    *kept = message;
    rc = coir_topic_tree_publish(chat->tree, room->messages, &message);
    slow_tell(chat, room);
    return rc < 0 ? rc : 0;
}

int room_say(struct chat *chat, struct room *room, const struct member *from, const char *tag,
             const char *text)
{
    pthread_mutex_lock(&chat->lock);
    int rc = say(chat, room, from, tag, text);
    pthread_mutex_unlock(&chat->lock);
    return rc;
}

int room_history(const struct room *room, uint64_t since, coir_ws_message **ret_messages)
{
    uint64_t first = room->sequence > HISTORY ? room->sequence - HISTORY + 1 : 1;
    int count = 0;
    for (uint64_t i = since + 1 > first ? since + 1 : first; i <= room->sequence; i++)
        ret_messages[count++] = coir_ws_message_ref(room->history[i % HISTORY]);
    return count;
}

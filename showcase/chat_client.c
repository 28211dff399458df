/* A client of the chat: what it may ask for, and how often. Its fiber waits for its connection and
 * for both of its queues at once. A client that reads slowly holds up this fiber only: its queues
 * drop the oldest then.
 *
 * It sends texts, of a command and what belongs to it: "say TAG TEXT", "typing", "since NUMBER",
 * "slow POLICY" or "slow off", "burst". It gets JSON (json.h). */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "chat.h"
#include "json.h"

enum { TAG_MAX = 24, COMMAND_MAX = TEXT_MAX_BYTES + TAG_MAX + 16 };

struct client {
    struct chat *chat;
    struct room *room;
    struct member *member;
    coir_ws *ws;
    coir_channel *messages, *live;
    double allowance;  /* commands that it may send now */
    coir_time counted; /* when that was computed */
    int refused;       /* in a row */
};

/* ---- what it sends ---- */

static int send_and_unref(struct client *client, coir_ws_message *message)
{
    int rc = coir_ws_send(client->ws, message);
    coir_ws_message_unref(message);
    return rc;
}

static int send_notice(struct client *client, const char *text)
{
    struct json json;
    coir_ws_message *message;
    json_begin(&json, "notice");
    json_add_string(&json, "text", text);
    int rc = json_end(&json, &message);
    return rc < 0 ? rc : send_and_unref(client, message);
}

static bool may_send(struct client *client)
{
    coir_time now = coir_now();
    client->allowance += (double)(now - client->counted) / COIR_S * RATE_PER_S;
    if (client->allowance > RATE_BURST)
        client->allowance = RATE_BURST;
    client->counted = now;
    if (client->allowance < 1)
        return false;
    client->allowance -= 1;
    return true;
}

static uint64_t number(const char *text)
{
    return text && isdigit((unsigned char)*text) ? strtoull(text, NULL, 10) : 0;
}

/* Everything behind `since` that the room still has. */
static int send_history(struct client *client, uint64_t since)
{
    coir_ws_message *messages[HISTORY];
    pthread_mutex_lock(&client->chat->lock);
    int count = room_history(client->room, since, messages), rc = 0;
    pthread_mutex_unlock(&client->chat->lock);
    for (int i = 0; i < count; i++) {
        if (rc >= 0)
            rc = coir_ws_send(client->ws, messages[i]);
        coir_ws_message_unref(messages[i]);
    }
    return rc;
}

static int say(struct client *client, char *rest)
{
    char *text = strchr(rest, ' ');
    if (!text)
        return 0;
    *text++ = '\0';
    return strlen(rest) > TAG_MAX || text[strspn(text, " \t\r\n")] == '\0'
               ? 0
               : room_say(client->chat, client->room, client->member, rest, text);
}

static int say_burst(struct client *client)
{
    char text[32];
    int rc = 0;
    for (int i = 1; i <= BURST && rc == 0; i++) {
        snprintf(text, sizeof text, "burst %d of %d", i, BURST);
        rc = room_say(client->chat, client->room, client->member, "", text);
    }
    client->allowance = 0;
    return rc;
}

static int tell_typing(struct client *client)
{
    struct json json;
    coir_ws_message *message;
    json_begin(&json, "typing");
    json_add(&json, "id", "%llu", (unsigned long long)client->member->id);
    int rc = json_end(&json, &message);
    if (rc == 0)
        room_tell(client->chat, client->room, message);
    return rc;
}

static int obey(struct client *client, char *command)
{
    char *rest = strchr(command, ' ');
    if (rest)
        *rest++ = '\0';
    if (strcmp(command, "say") == 0 && rest)
        return say(client, rest);
    if (strcmp(command, "typing") == 0)
        return tell_typing(client);
    if (strcmp(command, "since") == 0)
        return send_history(client, number(rest));
    if (strcmp(command, "slow") == 0 && rest)
        return slow_switch(client->chat, client->room, rest);
    if (strcmp(command, "burst") == 0)
        return say_burst(client);
    return send_notice(client, "There is no such command.");
}

/* Takes the reference. A client that does not heed the notice is closed. */
static int on_message(struct client *client, coir_ws_message *message)
{
    char command[COMMAND_MAX + 1];
    size_t len = coir_ws_message_len(message);
    int rc;
    if (!may_send(client)) {
        rc = client->refused++ == 0    ? send_notice(client, "Slow down: that was not sent.")
             : client->refused <= 1000 ? 0
                                       : coir_ws_close(client->ws, 1008, "too many messages");
    } else if (len > COMMAND_MAX || coir_ws_message_type(message) != COIR_WS_TEXT) {
        rc = send_notice(client, "That message is too long.");
    } else {
        client->refused = 0;
        memcpy(command, coir_ws_message_data(message), len);
        command[len] = '\0';
        rc = obey(client, command);
    }
    coir_ws_message_unref(message);
    return rc;
}

/* ---- coming and going ---- */

/* The members, as the room was told of them. */
static coir_ws_message *hello(const struct client *client)
{
    struct json json;
    coir_ws_message *message;
    const char *separator = "";
    json_begin(&json, "hello");
    json_add(&json, "you", "%llu", (unsigned long long)client->member->id);
    json_add(&json, "epoch", "%llu", (unsigned long long)client->chat->epoch);
    json_add(&json, "sequence", "%llu", (unsigned long long)client->room->sequence);
    json_add(&json, "members", "[");
    for (const struct member *member = client->chat->members; member && json.file;
         member = member->next) {
        if (member->room != client->room || !member->present)
            continue;
        fprintf(json.file, "%s{\"id\":%llu,\"name\":", separator, (unsigned long long)member->id);
        json_string(&json, member->name);
        fputc('}', json.file);
        separator = ",";
    }
    if (json.file)
        fputc(']', json.file);
    return json_end(&json, &message) == 0 ? message : NULL;
}

/* What the client missed between its last number and this moment comes first; what is said from now
 * on is in its queues. */
static int greet(struct client *client, uint64_t since)
{
    coir_ws_message *first[HISTORY + 2];
    pthread_mutex_lock(&client->chat->lock);
    int rc = coir_topic_tree_subscribe(client->chat->tree, client->room->live, LIVE_QUEUE,
                                       COIR_OVERFLOW_DROP_OLDEST, &client->live);
    if (rc == 0)
        rc = coir_topic_tree_join(client->chat->tree, client->room->messages, client->member->id,
                                  MESSAGES_QUEUE, COIR_OVERFLOW_DROP_OLDEST, &client->messages);
    int count = 0;
    if (rc == 0) {
        first[count++] = hello(client);
        count += room_history(client->room, since, first + count);
        first[count++] = slow_state(client->room);
    }
    pthread_mutex_unlock(&client->chat->lock);
    for (int i = 0; i < count; i++) {
        if (rc >= 0)
            rc = first[i] ? coir_ws_send(client->ws, first[i]) : -ENOMEM;
        coir_ws_message_unref(first[i]);
    }
    return rc;
}

static int serve(struct client *client)
{
    coir_ws_message *message;
    int rc = 0;
    while (rc >= 0) {
        coir_case waits[] = {coir_case_ws_recv(client->ws, &message),
                             coir_case_recv(client->messages, &message),
                             coir_case_recv(client->live, &message)};
        int which = coir_select(waits, 3);
        if (which < 0)
            return which;
        if (which == 0 && waits[0].result <= 0) /* 0: it has closed */
            return (int)waits[0].result;
        rc = which == 0                ? on_message(client, message)
             : waits[which].result < 0 ? (int)waits[which].result
                                       : send_and_unref(client, message);
    }
    return rc;
}

static int enter(struct client *client, const char *room, const char *name)
{
    struct chat *chat = client->chat;
    pthread_mutex_lock(&chat->lock);
    client->room = chat->clients < CLIENTS_MAX ? room_enter(chat, room) : NULL;
    client->member = client->room ? member_new(chat, client->room, name) : NULL;
    if (client->room && !client->member)
        room_leave(client->room);
    chat->clients += client->member != NULL;
    pthread_mutex_unlock(&chat->lock);
    return client->member ? 0 : -EBUSY;
}

/* One who has joined leaves the room when the tree tells that. */
static void leave(struct client *client)
{
    struct chat *chat = client->chat;
    pthread_mutex_lock(&chat->lock);
    chat->clients--;
    if (!client->messages) {
        room_leave(client->room);
        member_free(chat, client->member);
    }
    pthread_mutex_unlock(&chat->lock);
    coir_channel_free(client->messages);
    coir_channel_free(client->live);
}

static int stay(struct client *client, coir_request *req, coir_response *res)
{
    coir_ws_options options = COIR_WS_OPTIONS;
    options.message_max = COMMAND_MAX;
    options.compression = COIR_WS_COMPRESS_MESSAGES;
    options.items_max = 64; /* what is more waits in the client's own queues */
    int rc = coir_ws_accept_with(req, res, &options, &client->ws);
    if (rc < 0)
        return rc;
    bool is_same = number(coir_request_query_value(req, "epoch")) == client->chat->epoch;
    client->allowance = RATE_BURST;
    client->counted = coir_now();
    rc = greet(client, is_same ? number(coir_request_query_value(req, "since")) : 0);
    return rc < 0 ? rc : serve(client);
}

/* ---- the request ---- */

static bool is_room_name(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");
    return len > 0 && len <= ROOM_NAME_MAX && !name[len];
}

static bool is_text(const char *text)
{
    coir_ws_message *message;
    if (coir_ws_message_new(COIR_WS_TEXT, text, strlen(text), &message) < 0)
        return false; /* it is not UTF-8 */
    coir_ws_message_unref(message);
    return true;
}

static bool is_member_name(const char *name)
{
    if (strlen(name) > NAME_MAX_BYTES || name[strspn(name, " ")] == '\0')
        return false;
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return false;
    return is_text(name);
}

/* Pages of other sites may not talk to the chat in the name of their visitors. Programs that are no
 * browsers send no Origin. */
static bool is_same_origin(const coir_request *req)
{
    const char *origin = coir_request_header(req, "origin");
    const char *host = origin ? strstr(origin, "://") : NULL;
    return !origin || (host && strcasecmp(host + 3, coir_request_host(req)) == 0);
}

int chat_connect(coir_request *req, coir_response *res, void *arg)
{
    struct client client = {.chat = arg};
    const char *room = coir_request_param(req, "room"),
               *name = coir_request_query_value(req, "name");
    if (!is_same_origin(req))
        return coir_respond_text(res, 403, "This chat is for its own pages\n");
    if (!room || !is_room_name(room))
        return coir_respond_text(res, 400, "A room's name is up to %d of a-z, 0-9 and -\n",
                                 ROOM_NAME_MAX);
    if (!name || !is_member_name(name))
        return coir_respond_text(res, 400, "name= must be 1 to %d bytes\n", NAME_MAX_BYTES);
    if (enter(&client, room, name) < 0) {
        coir_response_add_header(res, "Retry-After", "10");
        return coir_respond_text(res, 503, "There are too many clients or rooms\n");
    }
    int rc = stay(&client, req, res);
    leave(&client);
    /* how a client leaves is no fault of the handler's */
    return rc == -COIR_EEND || rc == -EPIPE || rc == -ECONNRESET || rc == -ETIMEDOUT ||
                   rc == -COIR_ETOOLARGE || rc == -COIR_EPROTOCOL
               ? 0
               : rc;
}

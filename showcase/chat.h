/* The chat: rooms over one topic tree.
 *
 * A room "lobby" has two names in the tree. What is said is published to "rooms/lobby/messages",
 * where members join; what is only of the moment (who types, who comes and goes, how the slow
 * reader is doing) to "rooms/lobby/live". Each client has a subscription to both, with a queue for
 * each. Messages have numbers, and the last ones are kept, so that a client which was away, or too
 * slow, asks for what it has missed. */
#ifndef SHOWCASE_CHAT_H
#define SHOWCASE_CHAT_H

#include <coir.h>
#include <coir/ws.h>
#include <pthread.h>

enum {
    ROOMS_MAX = 64,
    CLIENTS_MAX = 2000,
    ROOM_NAME_MAX = 24,    /* bytes: a-z, 0-9 and "-" */
    NAME_MAX_BYTES = 48,   /* of a member */
    TEXT_MAX_BYTES = 2000, /* of a message */
    HISTORY = 200,         /* messages that a room keeps */
    MESSAGES_QUEUE = 256,  /* of each client; then it misses the oldest, and asks again */
    LIVE_QUEUE = 32,
    SLOW_QUEUE = 16, /* of the slow reader */
    RATE_BURST = 12, /* commands of a client at once, and then a second */
    RATE_PER_S = 6,
    BURST = 60 /* messages of the command "burst" */
};

struct room {
    char name[ROOM_NAME_MAX + 1];
    char messages[ROOM_NAME_MAX + 24], live[ROOM_NAME_MAX + 24]; /* in the tree */
    size_t users;                                                /* clients, and the slow reader */
    uint64_t sequence;                                           /* of the last message */
    coir_ws_message *history[HISTORY];                           /* by sequence % HISTORY */
    coir_time used;                                              /* when it was used last */
    struct slow *slow;                                           /* NULL: there is none */
};

struct member {
    struct member *next;
    uint64_t id;
    struct room *room;
    bool present; /* the tree has told that it joined */
    char name[NAME_MAX_BYTES + 1];
};

struct chat {
    coir_topic_tree *tree; /* of coir_ws_message pointers */
    coir_channel *presence;
    coir_scope *scope; /* of tasks that outlive a client */
    uint64_t epoch;    /* numbers of messages are those of this run */

    /* Never held across a wait. */
    pthread_mutex_t lock;
    struct room rooms[ROOMS_MAX];
    size_t clients;
    uint64_t next_id;
    struct member *members;
};

/* 0 or a negative error. */
int chat_open(struct chat *chat);
/* When no task uses it any more. Takes one that was not opened. */
void chat_close(struct chat *chat);

/* Keeps the list of members by what the tree tells; until cancelled. */
int chat_keep_presence(void *chat);

/* GET /chat/ws/{room}?name=...&since=...&epoch=... */
int chat_connect(coir_request *req, coir_response *res, void *chat);

/* ---- rooms: under the lock, but for those that say otherwise ---- */

/* Finds a room, or makes it in place of one that nobody uses; counts a user. NULL: there are too
 * many. */
struct room *room_enter(struct chat *chat, const char *name);
void room_leave(struct room *room);

/* Registers a member, who is then to join. NULL: out of memory. */
struct member *member_new(struct chat *chat, struct room *room, const char *name);
/* One who has not joined. */
void member_free(struct chat *chat, struct member *member);

/* Says something in a room: numbers it, keeps it, and sends it to everyone. `tag` is the client's
 * own, which it knows it by. Not under the lock. */
int room_say(struct chat *chat, struct room *room, const struct member *from, const char *tag,
             const char *text);

/* Publishes to a room's "live". Takes the reference. */
void room_tell(struct chat *chat, struct room *room, coir_ws_message *message);

/* References to what was said behind `since`, oldest first, and their count. */
int room_history(const struct room *room, uint64_t since, coir_ws_message **ret_messages);

/* ---- the slow reader of a room: not under the lock ---- */

/* Starts one, whose queue has the policy of that name; or ends it ("off"). */
int slow_switch(struct chat *chat, struct room *room, const char *policy);
/* Under the lock: tells the room how it is doing. */
void slow_tell(struct chat *chat, struct room *room);
/* What slow_tell tells. NULL: there is nothing to tell. */
coir_ws_message *slow_state(const struct room *room);

#endif

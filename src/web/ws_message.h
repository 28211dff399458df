/* Messages of WebSocket: counted and immutable, with room for the head of a frame in front of the
 * payload. So a message is a frame too, as a server sends it: what was received is sent on, and
 * shared by any number of connections, without a copy.
 *
 *    | struct | unused | head | payload | unused |
 *             CI_WS_HEAD_ROOM           room
 *
 * Blocks have sizes of powers of two. Each worker keeps those that were freed (ci_ws_memory), so
 * that messages cost no allocation in steady state; a block goes back to the worker that took it,
 * from whatever thread.
 *
 * 1. A message changes only until ci_ws_message_finish.
 * 2. A worker's memory keeps at most KEPT_MAX bytes (ws_message.c).
 */
#ifndef CI_WEB_WS_MESSAGE_H
#define CI_WEB_WS_MESSAGE_H

#include "base/pool.h"
#include "coir/ws.h"
#include "io/buffer.h"
#include "proto/websocket.h"
#include "sys/lock.h"

enum { CI_WS_HEAD_ROOM = 16, CI_WS_CLASSES = 14 };
_Static_assert(CI_WS_HEAD_ROOM >= (int)CI_WS_HEAD_MAX, "a head fits");

/* A worker's freed blocks, by their sizes. */
struct ci_ws_memory {
    struct ci_lock lock;
    coir_allocator allocator;
    coir_allocator blocks; /* the memory as an allocator, for any thread: also for what is no
                            * message, but comes and goes as they do */
    struct ci_ws_block *free[CI_WS_CLASSES];
    size_t kept;   /* bytes in them */
    size_t live;   /* blocks of this worker that are in use */
    bool used;     /* since the last trim */
    bool reserved; /* a trim gives nothing back */
    bool *grown;   /* set when there may be something to trim */
};

struct coir_ws_message {
    coir_buffer frame;         /* a server's frame; its references are the message's */
    struct ci_ws_memory *home; /* NULL: made on a plain thread */
    coir_ws_message *deflated; /* its compressed form, made when it is first needed; or NULL */
    size_t size;               /* of the block */
    size_t len;                /* of the payload */
    uint8_t opcode;
};

void ci_ws_memory_init(struct ci_ws_memory *memory, const coir_allocator *allocator, bool *grown);
void ci_ws_memory_done(struct ci_ws_memory *memory);
enum ci_trim ci_ws_memory_trim(struct ci_ws_memory *memory);

/* A message with room for a payload of `room` bytes at least; NULL: out of memory. `memory` NULL:
 * on a plain thread. */
coir_ws_message *ci_ws_message_take(struct ci_ws_memory *memory, size_t room);

static inline char *ci_ws_message_payload(coir_ws_message *message)
{
    return (char *)(message + 1) + CI_WS_HEAD_ROOM;
}

static inline size_t ci_ws_message_room(const coir_ws_message *message)
{
    return message->size - sizeof *message - CI_WS_HEAD_ROOM;
}

/* Makes sure that there is room for `want` bytes, of which `used` are kept. False: out of memory;
 * nothing has changed. *message may be NULL. */
bool ci_ws_message_grow(struct ci_ws_memory *memory, coir_ws_message **message, size_t used,
                        size_t want);

/* Writes the head in front of a payload of `head->len` bytes. */
void ci_ws_message_finish(coir_ws_message *message, const struct ci_ws_head *head);

/* A message as a client sends it: a copy that is masked with `key`. NULL: out of memory. */
coir_ws_message *ci_ws_message_mask(struct ci_ws_memory *memory, const coir_ws_message *message,
                                    const uint8_t key[CI_WS_KEY]);

#endif

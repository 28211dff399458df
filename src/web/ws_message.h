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
 * In fixed memory, messages have blocks of two sizes of their own, so that every one that is not
 * longer than the longest finds a block, in whatever order they come
 * (ci_ws_memory_reserve_messages).
 *
 * 1. A message changes only until ci_ws_message_finish.
 * 2. A worker's memory keeps at most KEPT_MAX bytes (ws_message.c), and what was reserved.
 */
#ifndef CI_WEB_WS_MESSAGE_H
#define CI_WEB_WS_MESSAGE_H

#include "base/pool.h"
#include "coir/ws.h"
#include "io/buffer.h"
#include "proto/websocket.h"
#include "sys/lock.h"

enum { CI_WS_HEAD_ROOM = 16, CI_WS_CLASSES = 14 };

/* Lists of free blocks: one for each class, and two of reserved blocks for messages. */
enum { CI_WS_SHORT = CI_WS_CLASSES, CI_WS_WHOLE, CI_WS_LISTS };
_Static_assert(CI_WS_HEAD_ROOM >= (int)CI_WS_HEAD_MAX, "a head fits");

/* A worker's freed blocks, by their sizes. */
struct ci_ws_memory {
    struct ci_lock lock;
    coir_allocator allocator;
    coir_allocator blocks; /* the memory as an allocator, for any thread: also for what is no
                            * message, but comes and goes as they do */
    struct ci_ws_block *free[CI_WS_LISTS];
    size_t whole;    /* size of the blocks in CI_WS_WHOLE; 0: none are reserved */
    size_t kept;     /* bytes in all lists */
    size_t kept_max; /* of them */
    size_t live;     /* blocks of this worker that are in use */
    bool used;       /* since the last trim */
    bool reserved;   /* a trim gives nothing back */
    bool *grown;     /* set when there may be something to trim */
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

/* Has a block of each of `sizes`, `count` times, for what is no message, beside what is in use,
 * with all of their pages. False: out of memory, or one is too large to be kept. */
bool ci_ws_memory_reserve(struct ci_ws_memory *memory, const size_t sizes[], size_t size_count,
                          size_t count);

/* The same for messages: `count` of up to `room` bytes, and as many short ones: where those are in
 * use, a short message takes a longer block. To be called before ci_ws_memory_reserve. */
bool ci_ws_memory_reserve_messages(struct ci_ws_memory *memory, size_t room, size_t count);

/* The bytes of payload that a reserved block has room for; 0: none is reserved. */
size_t ci_ws_memory_room(const struct ci_ws_memory *memory);

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

/* See ws_message.h. */
#include "web/ws_message.h"

#include <errno.h>
#include <string.h>

#include "sys/fork.h"
#include "sys/misuse.h"

enum { SMALLEST = 256, KEPT_MAX = 4 * 1024 * 1024 };

struct ci_ws_block {
    struct ci_ws_block *next;
};

/* ---- blocks ---- */

/* The class of a block that has `size` bytes at least, and its real size; CI_WS_CLASSES: it is too
 * large to be kept. */
static unsigned class_of(size_t size, size_t *ret_size)
{
    unsigned class = 0;
    while (class < CI_WS_CLASSES && (size_t)SMALLEST << class < size)
        class ++;
    *ret_size = class < CI_WS_CLASSES ? (size_t)SMALLEST << class : size;
    return class;
}

/* Frees every block that is kept. */
static void free_kept(struct ci_ws_memory *memory)
{
    struct ci_ws_block *lists[CI_WS_CLASSES];
    ci_lock_take(&memory->lock);
    memcpy(lists, memory->free, sizeof lists);
    memset(memory->free, 0, sizeof memory->free);
    memory->kept = 0;
    ci_lock_give(&memory->lock);
    for (unsigned class = 0; class < CI_WS_CLASSES; class ++)
        for (struct ci_ws_block *block = lists[class], *next; block; block = next) {
            next = block->next;
            ci_pool_unpoison(block, (size_t)SMALLEST << class);
            ci_free(&memory->allocator, block, (size_t)SMALLEST << class);
        }
}

void ci_ws_memory_done(struct ci_ws_memory *memory)
{
    free_kept(memory);
}

enum ci_trim ci_ws_memory_trim(struct ci_ws_memory *memory)
{
    bool used = memory->used;
    if (memory->reserved)
        return CI_TRIM_DONE;
    memory->used = false;
    if (!used)
        free_kept(memory);
    ci_lock_take(&memory->lock);
    size_t live = memory->live; /* other threads drop messages */
    ci_lock_give(&memory->lock);
    return used ? CI_TRIM_SOON : live ? CI_TRIM_LATER : CI_TRIM_DONE;
}

static struct ci_ws_block *take_kept(struct ci_ws_memory *memory, unsigned class)
{
    ci_lock_take(&memory->lock);
    struct ci_ws_block *block = class < CI_WS_CLASSES ? memory->free[class] : NULL;
    if (block) {
        memory->free[class] = block->next;
        memory->kept -= (size_t)SMALLEST << class;
        ci_pool_unpoison(block, (size_t)SMALLEST << class);
    }
    memory->live++;
    ci_lock_give(&memory->lock);
    return block;
}

static void count_out(struct ci_ws_memory *memory)
{
    ci_lock_take(&memory->lock);
    memory->live--;
    ci_lock_give(&memory->lock);
}

/* A block of `size` bytes at least, which is its real size afterwards. */
static void *take(struct ci_ws_memory *memory, size_t *size)
{
    unsigned class = class_of(*size, size);
    void *block = take_kept(memory, class);
    if (!block && !(block = ci_alloc(&memory->allocator, *size)))
        count_out(memory);
    return block;
}

/* Gives back a block of a real size. */
static void give(struct ci_ws_memory *memory, void *given, size_t size)
{
    size_t real;
    unsigned class = class_of(size, &real);
    ci_lock_take(&memory->lock);
    bool keep = class < CI_WS_CLASSES && memory->kept + size <= KEPT_MAX;
    memory->live--;
    if (keep) {
        struct ci_ws_block *block = given;
        block->next = memory->free[class];
        memory->free[class] = block;
        memory->kept += size;
        ci_pool_poison(block + 1, size - sizeof *block);
    }
    ci_check(memory->kept <= KEPT_MAX, "ws_message.h 2");
    ci_lock_give(&memory->lock);
    if (!keep)
        ci_free(&memory->allocator, given, size);
}

static void *alloc_block(size_t size, void *memory)
{
    return take(memory, &size);
}

static void free_block(void *block, size_t size, void *memory)
{
    class_of(size, &size);
    give(memory, block, size);
}

void ci_ws_memory_init(struct ci_ws_memory *memory, const coir_allocator *allocator, bool *grown)
{
    *memory = (struct ci_ws_memory){
        .allocator = *allocator,
        .blocks = COIR_ALLOCATOR(alloc_block, free_block, memory),
        .grown = grown,
    };
}

/* ---- messages ---- */

/* Called by the last unref, on any thread. */
static void free_message(void *data, void *arg)
{
    coir_ws_message *message = arg, *deflated = message->deflated;
    (void)data;
    if (message->home)
        give(message->home, message, message->size);
    else
        ci_free(&ci_system_allocator, message, message->size);
    coir_ws_message_unref(deflated);
}

coir_ws_message *ci_ws_message_take(struct ci_ws_memory *memory, size_t room)
{
    size_t size = sizeof(coir_ws_message) + CI_WS_HEAD_ROOM;
    if (room > SIZE_MAX / 2)
        return NULL;
    size += room;
    if (!memory)
        class_of(size, &size);
    coir_ws_message *message = memory ? take(memory, &size) : ci_alloc(&ci_system_allocator, size);
    if (!message)
        return NULL;
    ci_buffer_init(&message->frame, free_message, message);
    message->home = memory;
    message->deflated = NULL;
    message->size = size;
    message->len = 0;
    if (memory)
        memory->used = *memory->grown = true;
    return message;
}

bool ci_ws_message_grow(struct ci_ws_memory *memory, coir_ws_message **message, size_t used,
                        size_t want)
{
    if (*message && ci_ws_message_room(*message) >= want)
        return true;
    coir_ws_message *wider = ci_ws_message_take(memory, want);
    if (!wider)
        return false;
    if (used)
        memcpy(ci_ws_message_payload(wider), ci_ws_message_payload(*message), used);
    coir_ws_message_unref(*message);
    *message = wider;
    return true;
}

static void set_frame(coir_ws_message *message, const struct ci_ws_head *head, bool masked)
{
    char *payload = ci_ws_message_payload(message);
    size_t len = ci_ws_head_len(head->len, masked);
    message->frame.data = payload - len;
    message->frame.len = len + (size_t)head->len;
    message->len = (size_t)head->len;
    message->opcode = head->opcode;
    ci_ws_write_head((uint8_t *)payload - len, head, masked);
}

void ci_ws_message_finish(coir_ws_message *message, const struct ci_ws_head *head)
{
    ci_debug_check(ci_load_relaxed(&message->frame.refs) == 1, "ws_message.h 1");
    set_frame(message, head, false);
}

coir_ws_message *ci_ws_message_mask(struct ci_ws_memory *memory, const coir_ws_message *message,
                                    const uint8_t key[CI_WS_KEY])
{
    uint8_t first = (uint8_t)message->frame.data[0];
    struct ci_ws_head head = {
        .len = message->len, .opcode = first & 15, .fin = first & 128, .deflated = first & 64};
    coir_ws_message *masked = ci_ws_message_take(memory, message->len);
    if (!masked)
        return NULL;
    memcpy(head.key, key, CI_WS_KEY);
    set_frame(masked, &head, true);
    ci_ws_mask(ci_ws_message_payload(masked),
               message->frame.data + message->frame.len - message->len, message->len, key, 0);
    return masked;
}

/* ---- the public calls ---- */

coir_ws_message *coir_ws_message_ref(coir_ws_message *message)
{
    if (CI_REFUSED(!message, "message is NULL"))
        return NULL;
    coir_buffer_ref(&message->frame);
    return message;
}

void coir_ws_message_unref(coir_ws_message *message)
{
    if (message)
        coir_buffer_unref(&message->frame);
}

enum coir_ws_type coir_ws_message_type(const coir_ws_message *message)
{
    return CI_REFUSED(!message, "message is NULL") ? COIR_WS_TEXT
                                                   : (enum coir_ws_type)message->opcode;
}

const char *coir_ws_message_data(const coir_ws_message *message)
{
    if (CI_REFUSED(!message, "message is NULL"))
        return "";
    return ci_ws_message_payload((coir_ws_message *)(uintptr_t)message);
}

size_t coir_ws_message_len(const coir_ws_message *message)
{
    return CI_REFUSED(!message, "message is NULL") ? 0 : message->len;
}

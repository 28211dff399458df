/* See ws_message.h. */
#include "web/ws_message.h"

#include <errno.h>
#include <string.h>

#include "sys/fork.h"
#include "sys/misuse.h"

enum { SMALLEST = 256, KEPT_MAX = 4 * 1024 * 1024 };

/* The size of a reserved block for a short message: control frames fit. Like that of the longer
 * ones it is no class's, so that the size of a block tells which list it belongs to. */
enum { SHORT = 320 };

struct ci_ws_block {
    struct ci_ws_block *next;
};

/* ---- blocks ---- */

/* The class of a block that has `size` bytes at least, and its real size; CI_WS_LISTS: it is too
 * large to be kept. */
static unsigned class_of(size_t size, size_t *ret_size)
{
    unsigned class = 0;
    while (class < CI_WS_CLASSES && (size_t)SMALLEST << class < size)
        class ++;
    *ret_size = class < CI_WS_CLASSES ? (size_t)SMALLEST << class : size;
    return class < CI_WS_CLASSES ? class : CI_WS_LISTS;
}

/* The list for blocks of a real size; CI_WS_LISTS: they are not kept. */
static unsigned list_of(const struct ci_ws_memory *memory, size_t size)
{
    size_t real;
    if (ci_unlikely(memory->whole) && (size == SHORT || size == memory->whole))
        return size == SHORT ? CI_WS_SHORT : CI_WS_WHOLE;
    unsigned class = class_of(size, &real);
    return size == real ? class : CI_WS_LISTS;
}

static size_t size_in(unsigned list, size_t whole)
{
    return list < CI_WS_CLASSES ? (size_t)SMALLEST << list : list == CI_WS_SHORT ? SHORT : whole;
}

/* Frees every block that is kept. From now on the reserved ones for messages have `next_whole`
 * bytes. */
static void free_kept(struct ci_ws_memory *memory, size_t next_whole)
{
    struct ci_ws_block *lists[CI_WS_LISTS];
    ci_lock_take(&memory->lock);
    size_t whole = memory->whole;
    memory->whole = next_whole;
    memcpy(lists, memory->free, sizeof lists);
    memset(memory->free, 0, sizeof memory->free);
    memory->kept = 0;
    ci_lock_give(&memory->lock);
    for (unsigned list = 0; list < CI_WS_LISTS; list++)
        for (struct ci_ws_block *block = lists[list], *next; block; block = next) {
            next = block->next;
            ci_pool_unpoison(block, size_in(list, whole));
            ci_free(&memory->allocator, block, size_in(list, whole));
        }
}

void ci_ws_memory_done(struct ci_ws_memory *memory)
{
    free_kept(memory, memory->whole);
}

enum ci_trim ci_ws_memory_trim(struct ci_ws_memory *memory)
{
    bool used = memory->used;
    if (memory->reserved)
        return CI_TRIM_DONE;
    memory->used = false;
    if (!used)
        free_kept(memory, memory->whole);
    ci_lock_take(&memory->lock);
    size_t live = memory->live; /* other threads drop messages */
    ci_lock_give(&memory->lock);
    return used ? CI_TRIM_SOON : live ? CI_TRIM_LATER : CI_TRIM_DONE;
}

/* A block of a list. Where no short one is left, it is a longer one, and *size that one's size. */
static struct ci_ws_block *take_kept(struct ci_ws_memory *memory, unsigned list, size_t *size)
{
    ci_lock_take(&memory->lock);
    if (ci_unlikely(list == CI_WS_SHORT) && !memory->free[list] && memory->free[CI_WS_WHOLE]) {
        list = CI_WS_WHOLE;
        *size = memory->whole;
    }
    struct ci_ws_block *block = list < CI_WS_LISTS ? memory->free[list] : NULL;
    if (block) {
        memory->free[list] = block->next;
        memory->kept -= *size;
        ci_pool_unpoison(block, *size);
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

/* A block of *size bytes, the real size of `list`; or a longer one, whose size that is afterwards.
 */
static void *take(struct ci_ws_memory *memory, unsigned list, size_t *size)
{
    void *block = take_kept(memory, list, size);
    if (!block && !(block = ci_alloc(&memory->allocator, *size)))
        count_out(memory);
    return block;
}

/* Gives back a block of a real size. */
static void give(struct ci_ws_memory *memory, void *given, size_t size)
{
    ci_lock_take(&memory->lock);
    unsigned list = list_of(memory, size); /* another server may begin */
    bool keep = list < CI_WS_LISTS && memory->kept + size <= memory->kept_max;
    memory->live--;
    if (keep) {
        struct ci_ws_block *block = given;
        block->next = memory->free[list];
        memory->free[list] = block;
        memory->kept += size;
        ci_pool_poison(block + 1, size - sizeof *block);
    }
    ci_check(memory->kept <= memory->kept_max, "ws_message.h 2");
    ci_lock_give(&memory->lock);
    if (!keep)
        ci_free(&memory->allocator, given, size);
}

static void *alloc_block(size_t size, void *memory)
{
    unsigned class = class_of(size, &size);
    return take(memory, class, &size);
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
        .kept_max = KEPT_MAX,
        .grown = grown,
    };
}

/* ---- reserving ---- */

static size_t count_kept(struct ci_ws_memory *memory, unsigned list)
{
    size_t count = 0;
    ci_lock_take(&memory->lock);
    for (const struct ci_ws_block *block = memory->free[list]; block; block = block->next)
        count++;
    ci_lock_give(&memory->lock);
    return count;
}

/* Has `count` free blocks of a real size, with all of their pages. */
static bool reserve(struct ci_ws_memory *memory, size_t size, size_t count)
{
    memory->reserved = true;
    for (size_t have = count_kept(memory, list_of(memory, size)); have < count; have++) {
        void *block = ci_alloc_zero(&memory->allocator, size);
        if (!block)
            return false;
        ci_lock_take(&memory->lock);
        memory->kept_max += size;
        memory->live++;
        ci_lock_give(&memory->lock);
        give(memory, block, size);
    }
    return true;
}

bool ci_ws_memory_reserve(struct ci_ws_memory *memory, const size_t sizes[], size_t size_count,
                          size_t count)
{
    size_t of_class[CI_WS_LISTS + 1] = {0}, real;
    for (size_t i = 0; i < size_count; i++)
        of_class[class_of(sizes[i], &real)]++;
    bool there = of_class[CI_WS_LISTS] == 0;
    for (unsigned class = 0; there && class < CI_WS_CLASSES; class ++)
        there = reserve(memory, size_in(class, 0), of_class[class] * count);
    return there;
}

static size_t whole_size(size_t room)
{
    size_t size = sizeof(coir_ws_message) + CI_WS_HEAD_ROOM + room;
    size = size > (size_t)2 * SHORT ? (size + 15) & ~(size_t)15 : (size_t)2 * SHORT;
    bool is_class = (size & (size - 1)) == 0;
    return is_class ? size + 16 : size;
}

/* Blocks of another size, of a server before, are freed as they come back. */
static void set_whole(struct ci_ws_memory *memory, size_t size)
{
    if (memory->whole < size)
        free_kept(memory, size);
}

bool ci_ws_memory_reserve_messages(struct ci_ws_memory *memory, size_t room, size_t count)
{
    if (room > SIZE_MAX / 4)
        return false;
    set_whole(memory, whole_size(room));
    return reserve(memory, SHORT, count) && reserve(memory, memory->whole, count);
}

size_t ci_ws_memory_room(const struct ci_ws_memory *memory)
{
    return memory->whole ? memory->whole - sizeof(coir_ws_message) - CI_WS_HEAD_ROOM : 0;
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

static unsigned reserved_for(const struct ci_ws_memory *memory, size_t *size)
{
    bool is_short = *size <= SHORT;
    *size = is_short ? SHORT : memory->whole;
    return is_short ? CI_WS_SHORT : CI_WS_WHOLE;
}

coir_ws_message *ci_ws_message_take(struct ci_ws_memory *memory, size_t room)
{
    size_t size = sizeof(coir_ws_message) + CI_WS_HEAD_ROOM;
    if (room > SIZE_MAX / 2)
        return NULL;
    size += room;
    unsigned list =
        memory && size <= memory->whole ? reserved_for(memory, &size) : class_of(size, &size);
    coir_ws_message *message =
        memory ? take(memory, list, &size) : ci_alloc(&ci_system_allocator, size);
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

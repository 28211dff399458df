/* A file that several tasks write at offsets and read back: each block holds what its owner wrote
 * last, and no byte that was not written. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program.h"

enum { BLOCKS_MOST = 64, BLOCK_MOST = 9000, VERSIONS_MOST = 200 };

struct block {
    unsigned begun;   /* the newest version of which writing has begun; 0: none */
    unsigned written; /* the newest that is written */
};

struct book {
    coir_file *file;
    unsigned each, blocks, size; /* block i is actor i % actor_count's; it lies at i * size */
    char path[96];
    struct block states[BLOCKS_MOST];
};

static int draw_book(struct act *act, struct ci_random *random)
{
    struct book *book = act->own = calloc(1, sizeof *book);
    unsigned actors = (unsigned)act->actor_count;
    book->each = 1 + draw(random, 1u << draw(random, 8));
    book->blocks = draw_from(random, actors, BLOCKS_MOST);
    book->size = 1 + draw(random, 1u << draw_from(random, 1, 13));
    return 0;
}

static void print_book(const struct act *act, FILE *file)
{
    const struct book *book = act->own;
    fprintf(file, ", %u blocks of %u bytes, %u steps each", book->blocks, book->size, book->each);
}

static int begin_book(struct act *act)
{
    struct book *book = act->own;
    act_name(act, 0, book->path, sizeof book->path);
    return coir_file_open(book->path, O_RDWR | O_CREAT | O_TRUNC, 0600, &book->file);
}

/* Versions begin at 1, and are fewer than a byte has values: so a byte tells its version. */
static unsigned char byte_of(unsigned block, unsigned at, unsigned version)
{
    return (unsigned char)(version + block * 31 + at * 7 + (at >> 8));
}

static unsigned version_of(unsigned block, unsigned at, char byte)
{
    return (unsigned char)((unsigned char)byte - byte_of(block, at, 0));
}

/* ---- the operations ---- */

static int call_write(struct wait *wait)
{
    return (int)coir_file_write(wait->object, wait->data, *(size_t *)wait->more, wait->number);
}

static coir_future *write_op(struct wait *wait, void *place)
{
    return coir_file_write_op(place, wait->object, wait->data, *(size_t *)wait->more, wait->number);
}

static int call_read(struct wait *wait)
{
    return (int)coir_file_read(wait->object, wait->data, *(size_t *)wait->more, wait->number);
}

static coir_future *read_op(struct wait *wait, void *place)
{
    return coir_file_read_op(place, wait->object, wait->data, *(size_t *)wait->more, wait->number);
}

static int call_sync(struct wait *wait)
{
    return coir_file_sync(wait->object);
}

static coir_future *sync_op(struct wait *wait, void *place)
{
    return coir_file_sync_op(place, wait->object);
}

/* All of the block: its length; less at the end of the file; or interrupted. Who is interrupted may
 * have written some of it. */
static int transfer(struct actor *actor, bool writes, unsigned block, char *bytes)
{
    const struct book *book = actor->act->own;
    size_t done = 0, left;
    while ((left = book->size - done) > 0) {
        struct wait wait = {
            .object = book->file, .data = bytes + done, .more = &left, .keeps = true};
        wait.call = writes ? call_write : call_read;
        wait.op = writes ? write_op : read_op;
        wait.number = (int64_t)block * book->size + (int64_t)done;
        int rc = actor_wait(actor, &wait);
        if (rc == 0 && !writes)
            break;
        if (rc <= 0 && rc != LOST)
            return rc ? rc : -EIO;
        ACT_CHECK(actor->act, rc == LOST || (size_t)rc <= left);
        done += rc == LOST ? 0 : (size_t)rc;
    }
    return (int)done;
}

/* ---- steps ---- */

static int write_block(struct actor *actor, unsigned block, char *bytes)
{
    struct book *book = actor->act->own;
    struct block *state = &book->states[block];
    if (state->begun == VERSIONS_MOST)
        return 0;
    unsigned version = __atomic_add_fetch(&state->begun, 1, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < book->size; i++)
        bytes[i] = (char)byte_of(block, i, version);
    int rc = transfer(actor, true, block, bytes);
    if (rc >= 0)
        __atomic_store_n(&state->written, version, __ATOMIC_RELEASE);
    return rc;
}

/* Every byte is of a version between what had been written before and what had been begun after;
 * what was never written is 0 or absent. */
static void check_bytes(struct act *act, unsigned block, const char *bytes, unsigned count,
                        unsigned least)
{
    const struct book *book = act->own;
    unsigned most = __atomic_load_n(&book->states[block].begun, __ATOMIC_ACQUIRE);
    ACT_CHECK(act, least == 0 || count == book->size);
    for (unsigned i = 0; i < count; i++) {
        unsigned version = version_of(block, i, bytes[i]);
        bool right =
            (version >= least && version >= 1 && version <= most) || (least == 0 && bytes[i] == 0);
        if (!right)
            program_fail(act, "byte %u of block %u is of version %u, not of %u to %u", i, block,
                         version, least, most);
    }
}

static int read_block(struct actor *actor, unsigned block, char *bytes)
{
    const struct book *book = actor->act->own;
    unsigned least = __atomic_load_n(&book->states[block].written, __ATOMIC_ACQUIRE);
    memset(bytes, 0x55, book->size);
    int rc = transfer(actor, false, block, bytes);
    if (rc >= 0)
        check_bytes(actor->act, block, bytes, (unsigned)rc, least);
    return rc;
}

static int step(struct actor *actor, char *bytes)
{
    const struct book *book = actor->act->own;
    unsigned actors = (unsigned)actor->act->actor_count, number = (unsigned)actor->number;
    unsigned own = number + actors * draw(&actor->random, (book->blocks - number - 1) / actors + 1);
    struct wait sync = {call_sync, sync_op, .keeps = true, .object = book->file};
    int rc;
    switch (draw(&actor->random, 9)) {
    case 0: rc = actor_wait(actor, &sync); break;
    case 1:
    case 2:
    case 3: rc = read_block(actor, draw(&actor->random, book->blocks), bytes); break;
    case 4: rc = read_block(actor, own, bytes); break;
    default: rc = write_block(actor, own, bytes); break;
    }
    return rc == LOST ? 0 : rc;
}

static int play_book(struct actor *actor)
{
    const struct book *book = actor->act->own;
    char *bytes = malloc(BLOCK_MOST);
    int rc = 0;
    for (unsigned i = 0; i < book->each && rc >= 0; i++)
        rc = step(actor, bytes);
    free(bytes);
    return rc < 0 ? actor_interrupted(actor, rc) : 0;
}

/* ---- the reckoning, while there is a runtime to read with ---- */

static void check_block(struct act *act, unsigned block, char *bytes)
{
    const struct book *book = act->own;
    unsigned done = 0;
    ssize_t rc = 1;
    for (; done < book->size && rc > 0; done += (unsigned)rc)
        if ((rc = coir_file_read(book->file, bytes + done, book->size - done,
                                 (int64_t)block * book->size + done)) < 0)
            program_fail(act, "coir_file_read: %s", coir_strerror((int)rc));
    check_bytes(act, block, bytes, done, book->states[block].written);
}

static void end_book(struct act *act)
{
    struct book *book = act->own;
    char *bytes = malloc(BLOCK_MOST);
    if (act->began) {
        int64_t size, most = 0;
        for (unsigned i = 0; i < book->blocks; i++) {
            check_block(act, i, bytes);
            if (book->states[i].begun)
                most = ((int64_t)i + 1) * book->size;
        }
        ACT_CHECK_EQ(act, coir_file_size(book->file, &size), 0);
        ACT_CHECK(act, size <= most && (size == most || !act_complete(act)));
    }
    coir_file_close(book->file);
    free(bytes);
}

static void free_book(struct act *act)
{
    struct book *book = act->own;
    if (*book->path)
        unlink(book->path);
    free(book);
}

const struct act_kind act_file = {
    .name = "file",
    .weight = 2,
    .actors_least = 1,
    .actors_most = 6,
    .draw = draw_book,
    .print = print_book,
    .begin = begin_book,
    .play = play_book,
    .end = end_book,
    .free = free_book,
};

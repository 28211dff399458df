/* Buffered readers: pieces of a stream or file up to a delimiter.
 *
 * 1. data[start..end) has been read but not handed out yet.
 * 2. While a call waits, for a read into `data` or for its turn, the reader is busy, and `data`
 * neither moves nor is freed.
 *
 * A call that fails, or loses a select, takes nothing from the reader.
 */
#include "coir/reader.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "io/file.h"
#include "io/io.h"
#include "task/completed.h"

enum {
    PIECE_DEFAULT = 8192,
    ROOM_FIRST = 512,
    ROOM_OF_FILE = 64 * 1024 /* a read of a file costs a hand-over to a thread */
};

struct coir_reader {
    coir_stream *stream; /* NULL: a file's */
    coir_file *file;     /* a reference */
    int64_t offset;      /* of its next read; COIR_POSITION */
    const coir_allocator *allocator;
    char *data;
    size_t start, end, room;
    size_t scanned; /* bytes from `start` on in which no delimiter begins */
    size_t piece_max, room_max;
    bool busy;
    struct ci_hold hold;    /* of the call that waits */
    coir_file_op file_op[]; /* one, of a read of the file in flight: too large for a case */
};

/* The delimiter of a line, known by its address: a carriage return before it is taken off too. */
static const char line_feed[] = "\n";

struct reader_op {
    coir_future future;
    union {
        struct ci_io_op io;
        coir_future turn;
    };
    coir_reader *reader;
    const char *delimiter;
    char **ret_text;
    size_t *ret_len;
};
CI_LEAVES_SPARE_WORDS(struct reader_op, coir_reader_op);
_Static_assert(sizeof(struct reader_op) <= CI_FIBER_OP_WORDS * sizeof(uint64_t),
               "a line is a case");

static size_t size_of(const coir_file *file)
{
    return sizeof(coir_reader) + (file ? sizeof(coir_file_op) : 0);
}

static int make(coir_stream *stream, coir_file *file, int64_t offset, size_t piece_max,
                coir_reader **ret_reader)
{
    const coir_allocator *allocator = &ci_worker_current->runtime->allocator;
    coir_reader *reader = ci_alloc_zero(allocator, size_of(file));
    if (!reader)
        return -ENOMEM;
    reader->stream = stream;
    reader->file = file;
    reader->offset = offset;
    reader->allocator = allocator;
    reader->piece_max = reader->room_max = piece_max ? piece_max : PIECE_DEFAULT;
    if (file && reader->room_max < ROOM_OF_FILE)
        reader->room_max = ROOM_OF_FILE;
    ci_file_ref(file);
    *ret_reader = reader;
    return 0;
}

int coir_reader_new(coir_stream *stream, size_t piece_max, coir_reader **ret_reader)
{
    if (!ci_worker_current)
        return ci_no_fiber();
    if (!stream || !ret_reader)
        return CI_MISUSE(-EINVAL, "stream or ret_reader is NULL");
    return make(stream, NULL, 0, piece_max, ret_reader);
}

int coir_reader_new_file(coir_file *file, int64_t offset, size_t piece_max,
                         coir_reader **ret_reader)
{
    if (!ci_worker_current)
        return ci_no_fiber();
    if (!file || !ret_reader)
        return CI_MISUSE(-EINVAL, "file or ret_reader is NULL");
    if (offset < 0 && offset != COIR_POSITION)
        return -EINVAL;
    return make(NULL, file, offset, piece_max, ret_reader);
}

void coir_reader_free(coir_reader *reader)
{
    if (!reader || ci_forked())
        return;
    if (reader->busy) { /* the read in flight would write to what is freed */
        (void)CI_MISUSE(-EBUSY, "a read is in flight; cancel it first");
        return;
    }
    ci_file_unref(reader->file);
    ci_free(reader->allocator, reader->data, reader->room);
    ci_free(reader->allocator, reader, size_of(reader->file));
}

static size_t bytes_of(const coir_reader *reader)
{
    ci_check(reader->start <= reader->end && reader->end <= reader->room, "reader.c 1");
    return reader->end - reader->start;
}

/* Whether there is a whole piece, and its length without the delimiter. */
static bool find_piece(coir_reader *reader, const char *delimiter, size_t *ret_len)
{
    size_t len = strlen(delimiter), has = bytes_of(reader);
    if (has == 0)
        return false;
    const char *from = reader->data + reader->start;
    const char *found = memmem(from + reader->scanned, has - reader->scanned, delimiter, len);
    reader->scanned = has < len ? 0 : has - len + 1;
    if (!found)
        return false;
    *ret_len = (size_t)(found - from);
    return true;
}

static void take_piece(struct reader_op *op, const char *delimiter, size_t len)
{
    coir_reader *reader = op->reader;
    char *text = reader->data + reader->start;
    reader->start += len + strlen(delimiter);
    reader->scanned = 0;
    if (op->delimiter == line_feed && len && text[len - 1] == '\r')
        len--;
    text[len] = '\0';
    *op->ret_text = text;
    if (op->ret_len)
        *op->ret_len = len;
}

/* Makes room behind `end`: 0, -COIR_ETOOLARGE or -ENOMEM. */
static int make_room(coir_reader *reader)
{
    ci_check(!reader->busy, "reader.c 2");
    if (reader->start) {
        memmove(reader->data, reader->data + reader->start, reader->end - reader->start);
        reader->end -= reader->start;
        reader->start = 0;
    }
    if (reader->end >= reader->piece_max)
        return -COIR_ETOOLARGE;
    if (reader->end < reader->room)
        return 0;
    size_t wanted = reader->room ? 2 * reader->room : reader->file ? ROOM_OF_FILE : ROOM_FIRST;
    if (wanted > reader->room_max)
        wanted = reader->room_max;
    char *data = ci_alloc(reader->allocator, wanted);
    if (!data)
        return -ENOMEM;
    if (reader->end)
        memcpy(data, reader->data, reader->end);
    ci_free(reader->allocator, reader->data, reader->room);
    reader->data = data;
    reader->room = wanted;
    return 0;
}

static int hold(struct reader_op *op)
{
    coir_reader *reader = op->reader;
    return reader->file
               ? 0
               : ci_hold_take(&reader->hold, reader->stream, &reader->stream->reader, &op->io);
}

/* False: the stream was closed meanwhile. */
static bool release(coir_reader *reader)
{
    return reader->file || ci_hold_leave(&reader->hold);
}

static coir_future *read_more(struct reader_op *op)
{
    coir_reader *reader = op->reader;
    ci_check(!reader->busy, "reader.c 2");
    reader->busy = true;
    if (reader->file)
        return coir_file_read_op(reader->file_op, reader->file, reader->data + reader->end,
                                 reader->room - reader->end, reader->offset);
    struct ci_op io = {
        .fd = reader->stream->fd,
        .kind = CI_OP_READ,
        .buf = reader->data + reader->end,
        .len = reader->room - reader->end,
        .exact = reader->stream->is_unix,
        .ancillary = reader->stream->is_unix,
    };
    return ci_io_init(&op->io, reader->stream, &io);
}

/* What a read of a file has moved its offset by; of a stream it has none. */
static void advance(coir_reader *reader, int64_t count)
{
    if (count > 0 && reader->offset != COIR_POSITION)
        reader->offset += count;
}

/* The result of read_more. */
static int64_t end_read(struct reader_op *op)
{
    coir_reader *reader = op->reader;
    int64_t rc = reader->file ? reader->file_op->future.result : op->io.future.result;
    reader->busy = false;
    advance(reader, rc);
    if (rc > 0)
        reader->end += (size_t)rc;
    return rc;
}

/* Ends a call that another one keeps from beginning. A loop that ignores it lets the other run. */
static coir_future *refuse(coir_future *future, int64_t error)
{
    future->state = 0;
    future->result = error;
    return ci_leaf_complete(ci_worker_current, future);
}

/* Of thousands of lines in a buffer, each counts against the budget: before it is taken, because
 * another task's read would overwrite a line that was taken and kept for a turn. True: the reader
 * is busy and holds its stream until the turn comes. Where the stream cannot be held the lines of
 * the buffer are taken, and the next read of the stream fails. */
static bool must_let_others_run(struct reader_op *op)
{
    struct ci_worker *worker = ci_worker_current;
    bool spent = ci_budget_is_spent(worker);
    ci_budget_spend(worker);
    if (ci_likely(!spent) || hold(op) < 0)
        return false;
    return op->reader->busy = true;
}

static coir_future *piece_poll(coir_future *future)
{
    struct reader_op *self = ci_container_of(future, struct reader_op, future);
    coir_reader *reader = self->reader;
    const char *delimiter = self->delimiter;
    size_t len;
    int64_t rc;
    bool closed = false;
    COIR_BEGIN(future);
    if (!reader || !self->ret_text || !delimiter || !delimiter[0])
        COIR_RETURN(future, -EINVAL);
    if (reader->busy)
        return refuse(future, -EBUSY);
    if (must_let_others_run(self)) {
        COIR_AWAIT(future, coir_yield_op(&self->turn));
        reader->busy = false;
        closed = !release(reader);
        ci_budget_spend(ci_worker_current);
    }
    if ((rc = ci_worker_current->runnable->interrupt) < 0)
        COIR_RETURN(future, rc);
    reader->scanned = 0; /* the last call may have looked for another delimiter */
    while (!find_piece(reader, delimiter, &len)) {
        if (closed)
            COIR_RETURN(future, -ECANCELED);
        if ((rc = make_room(reader)) < 0)
            COIR_RETURN(future, rc);
        if ((rc = hold(self)) < 0)
            return refuse(future, rc);
        COIR_AWAIT(future, read_more(self));
        closed = !release(reader);
        if ((rc = end_read(self)) < 0)
            COIR_RETURN(future, rc);
        if (rc == 0)
            COIR_RETURN(future, reader->end > reader->start ? -COIR_EEND : 0);
    }
    if (len + strlen(delimiter) > reader->piece_max) /* the room for a file may be larger */
        COIR_RETURN(future, -COIR_ETOOLARGE);
    if (!ci_claim(ci_worker_current->runnable, future)) /* another case has won the select */
        COIR_RETURN(future, -ECANCELED);
    take_piece(self, delimiter, len);
    COIR_RETURN(future, 1);
}

static const coir_future_kind piece_kind = COIR_FUTURE_KIND("a line", piece_poll, NULL);

static coir_future *init(coir_reader_op *opaque, coir_reader *reader, const char *delimiter,
                         char **ret_text, size_t *ret_len)
{
    struct reader_op *op = (struct reader_op *)(void *)opaque;
    op->reader = reader;
    op->delimiter = delimiter;
    op->ret_text = ret_text;
    op->ret_len = ret_len;
    return coir_future_init(&op->future, &piece_kind);
}

coir_future *coir_reader_read_until_op(coir_reader_op *opaque, coir_reader *reader,
                                       const char *delimiter, char **ret_text, size_t *ret_len)
{
    if (!opaque || !reader || !delimiter || !ret_text)
        return ci_completed_op(opaque,
                               CI_MISUSE(-EINVAL, "op, reader, delimiter or ret_text is NULL"));
    return init(opaque, reader, delimiter, ret_text, ret_len);
}

coir_future *coir_reader_read_line_op(coir_reader_op *opaque, coir_reader *reader, char **ret_text,
                                      size_t *ret_len)
{
    if (!opaque || !reader || !ret_text)
        return ci_completed_op(opaque, CI_MISUSE(-EINVAL, "op, reader or ret_text is NULL"));
    return init(opaque, reader, line_feed, ret_text, ret_len);
}

int coir_reader_read_line(coir_reader *reader, char **ret_text, size_t *ret_len)
{
    coir_reader_op op;
    if (!reader || !ret_text)
        return CI_MISUSE(-EINVAL, "reader or ret_text is NULL");
    return (int)ci_await_in_fiber(coir_reader_read_line_op(&op, reader, ret_text, ret_len));
}

int coir_reader_read_until(coir_reader *reader, const char *delimiter, char **ret_text,
                           size_t *ret_len)
{
    coir_reader_op op;
    if (!reader || !ret_text || !delimiter)
        return CI_MISUSE(-EINVAL, "reader, ret_text or delimiter is NULL");
    return (int)ci_await_in_fiber(
        coir_reader_read_until_op(&op, reader, delimiter, ret_text, ret_len));
}

static coir_future *make_line(const coir_case *self, void *node)
{
    return coir_reader_read_line_op(node, self->object, self->data,
                                    (size_t *)(uintptr_t)self->opaque[0]);
}

coir_case coir_case_line(coir_reader *reader, char **ret_text, size_t *ret_len)
{
    if (!reader || !ret_text)
        return ci_completed_case(CI_MISUSE(-EINVAL, "reader or ret_text is NULL"));
    return (coir_case){
        .make = make_line, .object = reader, .data = ret_text, .opaque = {(uintptr_t)ret_len}};
}

/* Around what lies in the reader, which is nothing. */
static ssize_t read_directly(coir_reader *reader, void *buf, size_t len)
{
    if (!reader->file)
        return coir_read(reader->stream, buf, len);
    reader->busy = true;
    ssize_t n = coir_file_read(reader->file, buf, len, reader->offset);
    reader->busy = false;
    advance(reader, n);
    return n;
}

ssize_t coir_reader_read(coir_reader *reader, void *buf, size_t len)
{
    int rc = 0;
    if (!reader || (!buf && len))
        return CI_MISUSE(-EINVAL, "reader or buf is NULL");
    if (!ci_fiber_enter(&rc))
        return rc;
    size_t has = bytes_of(reader);
    if (reader->busy)
        return -EBUSY;
    if (has == 0 || len == 0)
        return read_directly(reader, buf, len);
    if (len > has)
        len = has;
    memcpy(buf, reader->data + reader->start, len);
    reader->start += len;
    ci_spend(ci_worker_current);
    return (ssize_t)len;
}

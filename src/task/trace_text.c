/* The events of a trace as text: JSON in the trace event format, which Perfetto and Chrome read.
 *
 * An operation that waits is a pair of asynchronous events ("b", "e"); one whose begin is lost is
 * left out. A turn of a task is a complete event ("X"); who woke it is an arrow, from the slice of
 * the waker
 * ("s") to its own ("f"), where the waker is a task of the same worker. What a task waited for
 * before says what the loop woke it for. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/character.h"
#include "base/time.h"
#include "driver/driver.h"
#include "sys/write_all.h"
#include "task/trace.h"

enum { BUFFER = 1 << 14, QUOTED_MOST = 100 };

struct text {
    coir_fd fd;
    int error;
    size_t len;
    bool begun;
    uint64_t arrows;
    struct ci_trace_time time;
    char buffer[BUFFER];
};

/* ---- characters: without snprintf, because a signal handler may write a trace ---- */

static void flush(struct text *text)
{
    if (!text->error)
        text->error = ci_write_all(text->fd, text->buffer, text->len);
    text->len = 0;
}

static void put_char(struct text *text, char c)
{
    if (text->len == BUFFER)
        flush(text);
    text->buffer[text->len++] = c;
}

static void put_word(struct text *text, const char *word)
{
    while (*word)
        put_char(text, *word++);
}

/* With leading zeros up to `width`. */
static void put_number(struct text *text, uint64_t number, unsigned base, int width)
{
    char digits[24];
    int len = 0;
    do
        digits[len++] = "0123456789abcdef"[number % base];
    while ((number /= base) != 0);
    for (; width > len; width--)
        put_char(text, '0');
    while (len > 0)
        put_char(text, digits[--len]);
}

static void put_signed(struct text *text, int64_t number)
{
    if (number < 0)
        put_char(text, '-');
    put_number(text, number < 0 ? 0 - (uint64_t)number : (uint64_t)number, 10, 0);
}

/* Nanoseconds as microseconds. */
static void put_time(struct text *text, int64_t time)
{
    uint64_t ns = time < 0 ? 0 : (uint64_t)time;
    put_number(text, ns / 1000, 10, 0);
    put_char(text, '.');
    put_number(text, ns % 1000, 10, 3);
}

/* The inside of a string of JSON, cut at QUOTED_MOST bytes. */
static void put_quoted(struct text *text, const char *word)
{
    const char *end = word + ci_character_cut(word, QUOTED_MOST);
    while (word < end) {
        char spelled[CI_CHARACTER_JSON];
        size_t len = ci_character_to_json(&word, spelled);
        for (size_t i = 0; i < len; i++)
            put_char(text, spelled[i]);
    }
}

/* %s and %q: a string, as it is and quoted; %d: an int; %u: a uint64_t; %p: an address; %t: a time
 * in nanoseconds. */
static void put(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    for (; *format; format++) {
        if (*format != '%') {
            put_char(text, *format);
            continue;
        }
        switch (*++format) {
        case 's': put_word(text, va_arg(args, const char *)); break;
        case 'q': put_quoted(text, va_arg(args, const char *)); break;
        case 'd': put_signed(text, va_arg(args, int)); break;
        case 'u': put_number(text, va_arg(args, uint64_t), 10, 0); break;
        case 'p':
            put_word(text, "0x");
            put_number(text, (uintptr_t)va_arg(args, const void *), 16, 0);
            break;
        case 't': put_time(text, va_arg(args, int64_t)); break;
        }
    }
    va_end(args);
}

/* Begins an event; the caller appends the rest, from a comma or a brace on. */
static void put_event(struct text *text, const char *phase, int worker, int64_t at)
{
    put(text, "%s\n{\"ph\":\"%s\",\"pid\":1,\"tid\":%d,\"ts\":%t", text->begun ? "," : "", phase,
        worker, at);
    text->begun = true;
}

static int64_t time_in(const struct text *text, uint64_t ticks)
{
    double ns = (double)(int64_t)ticks / text->time.ticks_per_us * 1e3;
    return (int64_t)(ns < 0 ? ns - 0.5 : ns + 0.5);
}

static int64_t time_of(const struct text *text, uint64_t ticks)
{
    return ci_time_after(text->time.now, ticks ? time_in(text, ticks - text->time.ticks) : 0);
}

/* What is known of a task while the events go by. */
struct seen {
    const void *task;
    const char *awaited;               /* at the end of its last turn; NULL: not known */
    const char *name;                  /* NULL: it has none */
    const struct ci_trace_event *wake; /* since then; NULL: none */
    uint64_t waker_began;              /* the turn in which that was; 0: not known */
    const struct ci_trace_event *open; /* the begin of its wait for an object, or of the operation
                                          that this is; NULL: it has ended */
};

/* ---- who woke whom ---- */

static struct seen *find(struct seen *table, size_t mask, const void *task)
{
    size_t i = (size_t)((uintptr_t)task / 64 * 0x9e3779b97f4a7c15u) & mask;
    while (table[i].task && table[i].task != task)
        i = (i + 1) & mask;
    table[i].task = task;
    return &table[i];
}

/* ---- operations ---- */

static const char *io_name(uint32_t kind)
{
    switch ((enum ci_op_kind)kind) {
    case CI_OP_READ:
    case CI_OP_READV: return "read";
    case CI_OP_WRITE:
    case CI_OP_WRITEV: return "write";
    case CI_OP_RECEIVE:
    case CI_OP_RECEIVE_MANY: return "receive";
    case CI_OP_SEND:
    case CI_OP_SEND_MANY: return "send";
    case CI_OP_ACCEPT: return "accept";
    case CI_OP_CONNECT: return "connect";
    case CI_OP_POLL:
    case CI_OP_FOREIGN:
    case CI_OP_WATCH: return "poll";
    case CI_OP_FILE: return "file";
    }
    return "unknown";
}

static bool is_io(const struct ci_trace_event *event)
{
    return event->kind == CI_TRACE_IO_BEGAN || event->kind == CI_TRACE_IO_ENDED;
}

/* Up to the first of its arguments, which the caller ends. */
static void put_operation_head(struct text *text, const char *phase, int worker, uint64_t at,
                               const struct ci_trace_event *event)
{
    put_event(text, phase, worker, time_of(text, at));
    put(text, ",\"cat\":\"%s\",\"id\":\"%p\",\"name\":\"%s\",\"args\":{\"task\":\"%p\"",
        is_io(event) ? "io" : "offload", event->op,
        is_io(event) ? io_name(event->detail.kind) : "offloaded call", event->task);
}

static void put_operation(struct text *text, int worker, const struct ci_trace_event *event,
                          bool begins)
{
    put_operation_head(text, begins ? "b" : "e", worker, event->at, event);
    if (is_io(event))
        put(text, ",\"%s\":%d}}", begins ? "fd" : "result", event->detail.value);
    else
        put(text, ",\"function\":\"%p\"}}", (const void *)(uintptr_t)event->detail.fn);
}

/* The wait for an object. */
static void put_wait(struct text *text, int worker, uint64_t at, const struct ci_trace_event *waits,
                     bool begins)
{
    put_event(text, begins ? "b" : "e", worker, time_of(text, at));
    put(text,
        ",\"cat\":\"object\",\"id\":\"%p\",\"name\":\"%q\",\"args\":{\"task\":\"%p\","
        "\"object\":\"%p\"}}",
        waits->task, waits->detail.what, waits->task, waits->op);
}

/* What an operation is called in the table: no task has that address. */
static const void *key_of(const struct ci_trace_event *event)
{
    return (const void *)((uintptr_t)event->op | 1);
}

/* What is open when its record is used again has ended, but the trace does not have its end. */
static void put_lost_end(struct text *text, int worker, uint64_t at, const struct seen *seen)
{
    const struct ci_trace_event *open = seen->open;
    if (!open)
        return;
    if (open->kind == CI_TRACE_WAITS) {
        put_wait(text, worker, at, open, false);
        return;
    }
    put_operation_head(text, "e", worker, at, open);
    put(text, "}}");
}

static void put_begin(struct text *text, int worker, const struct ci_trace_event *event,
                      struct seen *operation)
{
    put_lost_end(text, worker, event->at, operation);
    operation->open = event;
    put_operation(text, worker, event, true);
}

static void put_end(struct text *text, int worker, const struct ci_trace_event *event,
                    struct seen *operation)
{
    if (operation->open)
        put_operation(text, worker, event, false);
    operation->open = NULL;
}

/* ---- turns ---- */

static void put_arrow(struct text *text, int worker, int64_t from, int64_t to)
{
    uint64_t id = ++text->arrows;
    put_event(text, "s", worker, from);
    put(text, ",\"cat\":\"wake\",\"name\":\"wakes\",\"id\":%u}", id);
    put_event(text, "f", worker, to);
    put(text, ",\"bp\":\"e\",\"cat\":\"wake\",\"name\":\"wakes\",\"id\":%u}", id);
}

/* The cause of a turn, as a member of its arguments. */
static void put_cause(struct text *text, const struct seen *seen)
{
    const struct ci_trace_event *wake = seen->wake;
    if (!wake)
        return;
    if (wake->kind == CI_TRACE_SPAWNED)
        put(text, ",\"cause\":\"spawned\"");
    else
        put(text, ",\"cause\":\"%q\"", seen->awaited ? seen->awaited : "unknown");
    if (wake->by)
        put(text, ",\"by\":\"%p\"", wake->by);
    else
        put(text, ",\"by\":\"the loop\"");
}

/* `begin`: ticks. */
static void put_turn(struct text *text, int worker, uint64_t begin,
                     const struct ci_trace_event *ran, struct seen *seen)
{
    int64_t at = time_of(text, begin);
    put_event(text, "X", worker, at);
    put(text, ",\"dur\":%t", time_in(text, ran->at - begin));
    if (ran->kind == CI_TRACE_RAN_NAMED)
        put(text, ",\"name\":\"%q\"", ran->root);
    else if (seen->name)
        put(text, ",\"name\":\"%q\"", seen->name);
    else if (ran->kind == CI_TRACE_RAN_FUTURE)
        put(text, ",\"name\":\"%q\"", ran->root);
    else
        put(text, ",\"name\":\"%p\"", ran->root);
    put(text, ",\"args\":{\"task\":\"%p\",\"then\":\"%s%q\"", ran->task,
        ran->awaits ? "waits for " : "ends", ran->awaits ? ran->awaits : "");
    put_cause(text, seen);
    put(text, "}}");
    if (seen->wake && seen->wake->by && seen->waker_began)
        put_arrow(text, worker, time_of(text, seen->waker_began), at);
    seen->awaited = ran->awaits;
    seen->wake = NULL;
}

static void put_taken(struct text *text, int worker, const struct ci_trace_event *event)
{
    put_event(text, "i", worker, time_of(text, event->at));
    put(text, ",\"s\":\"t\",\"name\":\"takes a shared task\",\"args\":{\"task\":\"%p\"}}",
        event->task);
}

/* ---- all of it ---- */

struct ci_trace_space {
    struct text text;
    size_t table_size; /* a power of two */
    struct seen table[];
};

static size_t table_size(size_t events)
{
    size_t size = 16;
    while (size < 3 * events) /* an event has at most two entries */
        size *= 2;
    return size;
}

size_t ci_trace_space_size(size_t events)
{
    return sizeof(struct ci_trace_space) + table_size(events) * sizeof(struct seen);
}

void ci_trace_text_begin(struct ci_trace_space *space, size_t events, coir_fd fd,
                         struct ci_trace_time time)
{
    space->table_size = table_size(events);
    space->text.fd = fd;
    space->text.time = time;
    space->text.error = 0;
    space->text.len = 0;
    space->text.begun = false;
    space->text.arrows = 0;
    put(&space->text, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
}

void ci_trace_text_note(struct ci_trace_space *space, int worker, const char *what,
                        const char *task)
{
    struct text *text = &space->text;
    put_event(text, "i", worker, text->time.now);
    put(text, ",\"s\":\"g\",\"name\":\"%q\",\"args\":{\"task\":\"%q\"}}", what, task ? task : "");
}

int ci_trace_text_worker(struct ci_trace_space *space, const struct ci_trace_copy *copy)
{
    struct text *text = &space->text;
    struct seen *table = space->table;
    size_t mask = space->table_size - 1;
    memset(table, 0, space->table_size * sizeof *table);
    put_event(text, "M", copy->worker, 0);
    put(text, ",\"name\":\"thread_name\",\"args\":{\"name\":\"worker %d\"}}", copy->worker);
    /* of the next turn, and of the last one; 0: not known, as what is older is gone */
    uint64_t begin = 0, began = 0;
    for (size_t i = 0; i < copy->count && !text->error; i++) {
        const struct ci_trace_event *event = &copy->events[i];
        struct seen *seen = event->task ? find(table, mask, event->task) : NULL;
        struct seen *operation =
            event->kind >= CI_TRACE_IO_BEGAN ? find(table, mask, key_of(event)) : NULL;
        switch ((enum ci_trace_kind)event->kind) {
        case CI_TRACE_GOES_ON: begin = event->at; break;
        case CI_TRACE_NAMED: seen->name = event->name; break;
        case CI_TRACE_SPAWNED:
            seen->name = seen->awaited = NULL; /* another task, in the same record */
            /* fall through */
        case CI_TRACE_WOKE:
            if (seen->open)
                put_wait(text, copy->worker, event->at, seen->open, false);
            seen->open = NULL;
            seen->wake = event;
            seen->waker_began = began;
            break;
        case CI_TRACE_RAN:
        case CI_TRACE_RAN_FUTURE:
        case CI_TRACE_RAN_NAMED:
            if (begin)
                put_turn(text, copy->worker, begin, event, seen);
            began = begin;
            begin = event->at;
            break;
        case CI_TRACE_TAKEN: put_taken(text, copy->worker, event); break;
        case CI_TRACE_WAITS:
            put_lost_end(text, copy->worker, event->at, seen);
            seen->open = event;
            put_wait(text, copy->worker, event->at, event, true);
            break;
        case CI_TRACE_IO_BEGAN:
        case CI_TRACE_OFFLOAD_BEGAN: put_begin(text, copy->worker, event, operation); break;
        case CI_TRACE_IO_ENDED:
        case CI_TRACE_OFFLOAD_ENDED: put_end(text, copy->worker, event, operation); break;
        }
    }
    return text->error;
}

int ci_trace_text_end(struct ci_trace_space *space)
{
    put(&space->text, "\n]}\n");
    flush(&space->text);
    return space->text.error;
}

int ci_trace_text(coir_fd fd, const struct ci_trace_copy *copies, size_t count,
                  struct ci_trace_time time)
{
    size_t most = 0;
    for (size_t i = 0; i < count; i++)
        if (copies[i].count > most)
            most = copies[i].count;
    struct ci_trace_space *space = malloc(ci_trace_space_size(most));
    if (!space)
        return -ENOMEM;
    ci_trace_text_begin(space, most, fd, time);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = ci_trace_text_worker(space, &copies[i]);
    if (rc == 0)
        rc = ci_trace_text_end(space);
    free(space);
    return rc;
}

/* The events of a trace as text: JSON in the trace event format, which Perfetto and Chrome read.
 *
 * An operation that waits is a pair of asynchronous events ("b", "e"); one whose begin is lost is
 * left out. A turn of a task is a complete event ("X"); who woke it is an arrow, from the slice of
 * the waker
 * ("s") to its own ("f"), where the waker is a task of the same worker. What a task waited for
 * before says what the loop woke it for. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver/driver.h"
#include "sys/call.h"
#include "task/trace.h"

enum { BUFFER = 1 << 16, LINE = 1 << 10 };

struct text {
    coir_fd fd;
    int error;
    size_t len;
    bool begun;
    uint64_t arrows;
    struct ci_trace_time time;
    char buffer[BUFFER];
};

/* What is known of a task while the events go by. */
struct seen {
    const void *task;
    const char *awaited;                /* at the end of its last turn; NULL: not known */
    const char *name;                   /* NULL: it has none */
    const struct ci_trace_event *wake;  /* since then; NULL: none */
    uint64_t waker_began;               /* the turn in which that was; 0: not known */
    const struct ci_trace_event *waits; /* for an object; NULL: it does not */
    bool open;                          /* an operation: it has begun */
};

static void flush(struct text *text)
{
    size_t at = 0;
    while (at < text->len && !text->error) {
        ssize_t n = ci_sys_write(text->fd, text->buffer + at, text->len - at);
        if (n >= 0)
            at += (size_t)n;
        else if (n != -EINTR)
            text->error = (int)n;
    }
    text->len = 0;
}

/* Appends a line of less than LINE bytes. */
static COIR_PRINTF(2, 3) void put(struct text *text, const char *format, ...)
{
    if (BUFFER - text->len < LINE)
        flush(text);
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text->buffer + text->len, LINE, format, args);
    va_end(args);
    text->len += len < LINE ? (size_t)len : LINE - 1;
}

/* Begins an event; the caller appends the rest, from a comma or a brace on. */
static void put_event(struct text *text, const char *phase, int worker, double at)
{
    put(text, "%s\n{\"ph\":\"%s\",\"pid\":1,\"tid\":%d,\"ts\":%.3f", text->begun ? "," : "", phase,
        worker, at);
    text->begun = true;
}

/* A string of JSON, cut at 100 bytes. */
struct quoted {
    char text[620];
};
static const char *quote(struct quoted *quoted, const char *word)
{
    size_t len = 0;
    for (size_t i = 0; word[i] && i < 100; i++) {
        unsigned char c = (unsigned char)word[i];
        bool plain = c >= ' ' && c != '"' && c != '\\' && c < 0x7f;
        len += (size_t)snprintf(quoted->text + len, sizeof quoted->text - len,
                                plain ? "%c" : "\\u%04x", c);
    }
    quoted->text[len] = '\0';
    return quoted->text;
}

static double time_of(const struct text *text, uint64_t ticks)
{
    double ago = ticks ? (double)(int64_t)(text->time.ticks - ticks) / text->time.ticks_per_us : 0;
    return (double)text->time.now / 1e3 - ago;
}

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

static void put_operation(struct text *text, int worker, const struct ci_trace_event *event,
                          bool begins)
{
    bool is_io = event->kind == CI_TRACE_IO_BEGAN || event->kind == CI_TRACE_IO_ENDED;
    put_event(text, begins ? "b" : "e", worker, time_of(text, event->at));
    put(text, ",\"cat\":\"%s\",\"id\":\"%p\",\"name\":\"%s\",\"args\":{\"task\":\"%p\"",
        is_io ? "io" : "offload", event->op, is_io ? io_name(event->detail.kind) : "offloaded call",
        event->task);
    if (is_io)
        put(text, ",\"%s\":%d}}", begins ? "fd" : "result", event->detail.value);
    else
        put(text, ",\"function\":\"%p\"}}", (const void *)(uintptr_t)event->detail.fn);
}

/* The wait for an object. */
static void put_wait(struct text *text, int worker, uint64_t at, const struct ci_trace_event *waits,
                     bool begins)
{
    struct quoted quoted;
    put_event(text, begins ? "b" : "e", worker, time_of(text, at));
    put(text,
        ",\"cat\":\"object\",\"id\":\"%p\",\"name\":\"%s\",\"args\":{\"task\":\"%p\","
        "\"object\":\"%p\"}}",
        waits->task, quote(&quoted, waits->detail.what), waits->task, waits->op);
}

/* What an operation is called in the table: no task has that address. */
static const void *key_of(const struct ci_trace_event *event)
{
    return (const void *)(((uintptr_t)event->task ^ (uintptr_t)event->op << 1) | 1);
}

static void put_begin(struct text *text, int worker, const struct ci_trace_event *event,
                      struct seen *operation)
{
    operation->open = true;
    put_operation(text, worker, event, true);
}

static void put_end(struct text *text, int worker, const struct ci_trace_event *event,
                    struct seen *operation)
{
    if (operation->open)
        put_operation(text, worker, event, false);
    operation->open = false;
}

/* ---- turns ---- */

static void put_arrow(struct text *text, int worker, double from, double to)
{
    uint64_t id = ++text->arrows;
    put_event(text, "s", worker, from);
    put(text, ",\"cat\":\"wake\",\"name\":\"wakes\",\"id\":%llu}", (unsigned long long)id);
    put_event(text, "f", worker, to);
    put(text, ",\"bp\":\"e\",\"cat\":\"wake\",\"name\":\"wakes\",\"id\":%llu}",
        (unsigned long long)id);
}

/* The cause of a turn, as a member of its arguments. */
static void put_cause(struct text *text, const struct seen *seen)
{
    const struct ci_trace_event *wake = seen->wake;
    struct quoted quoted;
    if (!wake)
        return;
    if (wake->kind == CI_TRACE_SPAWNED)
        put(text, ",\"cause\":\"spawned\"");
    else
        put(text, ",\"cause\":\"%s\"", quote(&quoted, seen->awaited ? seen->awaited : "unknown"));
    if (wake->by)
        put(text, ",\"by\":\"%p\"", wake->by);
    else
        put(text, ",\"by\":\"the loop\"");
}

/* `begin`: ticks. */
static void put_turn(struct text *text, int worker, uint64_t begin,
                     const struct ci_trace_event *ran, struct seen *seen)
{
    struct quoted quoted;
    double at = time_of(text, begin);
    put_event(text, "X", worker, at);
    put(text, ",\"dur\":%.3f", (double)(ran->at - begin) / text->time.ticks_per_us);
    if (seen->name)
        put(text, ",\"name\":\"%s\"", quote(&quoted, seen->name));
    else if (ran->kind == CI_TRACE_RAN_FUTURE)
        put(text, ",\"name\":\"%s\"", quote(&quoted, ran->root));
    else
        put(text, ",\"name\":\"%p\"", ran->root);
    put(text, ",\"args\":{\"task\":\"%p\",\"then\":\"%s%s\"", ran->task,
        ran->awaits ? "waits for " : "ends", ran->awaits ? quote(&quoted, ran->awaits) : "");
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

static int put_worker(struct text *text, const struct ci_trace_copy *copy)
{
    size_t size = 16;
    while (size < 3 * copy->count) /* an event has at most two entries */
        size *= 2;
    struct seen *table = calloc(size, sizeof *table);
    if (!table)
        return -ENOMEM;
    put_event(text, "M", copy->worker, 0);
    put(text, ",\"name\":\"thread_name\",\"args\":{\"name\":\"worker %d\"}}", copy->worker);
    /* of the next turn, and of the last one; 0: not known, as what is older is gone */
    uint64_t begin = 0, began = 0;
    for (size_t i = 0; i < copy->count && !text->error; i++) {
        const struct ci_trace_event *event = &copy->events[i];
        struct seen *seen = event->task ? find(table, size - 1, event->task) : NULL;
        struct seen *operation =
            event->kind >= CI_TRACE_IO_BEGAN ? find(table, size - 1, key_of(event)) : NULL;
        switch ((enum ci_trace_kind)event->kind) {
        case CI_TRACE_GOES_ON: begin = event->at; break;
        case CI_TRACE_NAMED: seen->name = event->name; break;
        case CI_TRACE_SPAWNED:
            seen->name = seen->awaited = NULL; /* another task, in the same record */
            /* fall through */
        case CI_TRACE_WOKE:
            if (seen->waits)
                put_wait(text, copy->worker, event->at, seen->waits, false);
            seen->waits = NULL;
            seen->wake = event;
            seen->waker_began = began;
            break;
        case CI_TRACE_RAN:
        case CI_TRACE_RAN_FUTURE:
            if (begin)
                put_turn(text, copy->worker, begin, event, seen);
            began = begin;
            begin = event->at;
            break;
        case CI_TRACE_TAKEN: put_taken(text, copy->worker, event); break;
        case CI_TRACE_WAITS:
            seen->waits = event;
            put_wait(text, copy->worker, event->at, event, true);
            break;
        case CI_TRACE_IO_BEGAN:
        case CI_TRACE_OFFLOAD_BEGAN: put_begin(text, copy->worker, event, operation); break;
        case CI_TRACE_IO_ENDED:
        case CI_TRACE_OFFLOAD_ENDED: put_end(text, copy->worker, event, operation); break;
        }
    }
    free(table);
    return text->error;
}

int ci_trace_text(coir_fd fd, const struct ci_trace_copy *copies, size_t count,
                  struct ci_trace_time time)
{
    struct text *text = calloc(1, sizeof *text);
    if (!text)
        return -ENOMEM;
    text->fd = fd;
    text->time = time;
    put(text, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = put_worker(text, &copies[i]);
    put(text, "\n]}\n");
    if (rc == 0) {
        flush(text);
        rc = text->error;
    }
    free(text);
    return rc;
}

#include "task/snapshot_write.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coir/version.h"
#include "sys/call.h"
#include "sys/symbol.h"

enum { SCHEMA = 1, BUFFER = 1 << 16, PIECE = 1 << 11, SYMBOL = 1 << 12, FIRST_FRAMES = 8 };

#define VERSION "%d.%d.%d"
#define VERSION_NUMBERS COIR_VERSION_MAJOR, COIR_VERSION_MINOR, COIR_VERSION_PATCH

struct symbol {
    const void *address;
    bool exact;
    char *lines; /* a function a line, innermost first where some were inlined */
};

struct out {
    const struct ci_snapshot *snapshot;
    coir_fd fd;
    int error;
    size_t len;
    char buffer[BUFFER];
    struct symbol *symbols; /* a hash table of `symbol_count`, a power of two */
    size_t symbol_count;
};

/* ---- text ---- */

static void flush(struct out *out)
{
    size_t at = 0;
    while (at < out->len && !out->error) {
        ssize_t n = ci_sys_write(out->fd, out->buffer + at, out->len - at);
        if (n >= 0)
            at += (size_t)n;
        else if (n != -EINTR)
            out->error = (int)n;
    }
    out->len = 0;
}

/* Less than PIECE bytes. */
static void put(struct out *out, const char *format, ...) COIR_PRINTF(2, 3);
static void put(struct out *out, const char *format, ...)
{
    if (BUFFER - out->len < PIECE)
        flush(out);
    va_list args;
    va_start(args, format);
    int len = vsnprintf(out->buffer + out->len, PIECE, format, args);
    va_end(args);
    out->len += len < PIECE ? (size_t)len : PIECE - 1;
}

static void put_character(struct out *out, char c)
{
    if (out->len == BUFFER)
        flush(out);
    out->buffer[out->len++] = c;
}

/* Text of the program, on one line. */
static void put_plain(struct out *out, const char *text)
{
    for (; *text; text++)
        put_character(out, (unsigned char)*text < ' ' ? '?' : *text);
}

/* A string of JSON. */
static void put_string(struct out *out, const char *text)
{
    put(out, "\"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = c >= ' ' && c != '"' && c != '\\' && c < 0x7f;
        if (plain)
            put_character(out, *text);
        else
            put(out, "\\u%04x", c);
    }
    put(out, "\"");
}

static double seconds(coir_time duration)
{
    return (double)duration / (double)COIR_S;
}

/* ---- symbols ---- */

/* ci_symbol_write puts a number before each line. */
static char *lines_of(const void *address, bool exact)
{
    struct ci_traced traced = {.count = 1, .exact = exact, .frames = {(void *)(uintptr_t)address}};
    static const char number[] = "    #0 ";
    char text[SYMBOL];
    ci_symbol_write(&traced, text, sizeof text);
    char *lines = malloc(strlen(text) + 1), *to = lines;
    if (!lines)
        return NULL;
    *to = '\0';
    for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        const char *from =
            strncmp(line, number, sizeof number - 1) == 0 ? line + sizeof number - 1 : line;
        memcpy(to, from, (size_t)(end + 1 - from));
        to += end + 1 - from;
        *to = '\0';
    }
    return lines;
}

/* The lines of an address. */
static const char *symbol_of(struct out *out, const void *address, bool exact)
{
    size_t i = (size_t)((uintptr_t)address * 0x9e3779b97f4a7c15u >> 20) & (out->symbol_count - 1);
    struct symbol *symbol = &out->symbols[i];
    while (symbol->lines && (symbol->address != address || symbol->exact != exact)) {
        i = (i + 1) & (out->symbol_count - 1);
        symbol = &out->symbols[i];
    }
    if (!symbol->lines)
        *symbol = (struct symbol){address, exact, lines_of(address, exact)};
    if (!symbol->lines)
        out->error = -ENOMEM;
    return symbol->lines ? symbol->lines : "";
}

static int make_symbols(struct out *out)
{
    const struct ci_snapshot *snapshot = out->snapshot;
    size_t most = snapshot->lines.count + snapshot->tasks.count +
                  snapshot->workers.count * CI_THREAD_TRACE_FRAMES;
    for (out->symbol_count = 64; out->symbol_count < 2 * most;)
        out->symbol_count *= 2;
    out->symbols = calloc(out->symbol_count, sizeof *out->symbols);
    return out->symbols ? 0 : -ENOMEM;
}

static void free_symbols(struct out *out)
{
    for (size_t i = 0; i < out->symbol_count; i++)
        free(out->symbols[i].lines);
    free(out->symbols);
}

/* ---- what is worth showing ---- */

static bool begins(const char *line, const char *with)
{
    return strncmp(line, with, strlen(with)) == 0;
}

/* The functions at the root of a stack. */
static bool is_root(const char *line)
{
    return begins(line, "ci_context_entry ") || begins(line, "fiber_main ") ||
           begins(line, "generator_main ");
}

/* A stack begins with how the fiber was parked. Where a public function did that, shows it from
 * there on. */
struct shown {
    const struct ci_snapshot_line *line, *end;
    const char *symbol; /* the next line of its text */
    bool parked;        /* what parks was passed */
};

/* Whether one of the first frames of a stack has a public function. */
static bool has_public(struct out *out, const struct ci_snapshot_line *line,
                       const struct ci_snapshot_line *end)
{
    for (int i = 0;
         i < FIRST_FRAMES && line < end && line->kind == CI_LINE_FRAME && (i == 0 || !line->exact);
         i++, line++)
        for (const char *at = symbol_of(out, line->address, line->exact); *at;
             at = strchr(at, '\n') + 1)
            if (begins(at, "coir_"))
                return true;
    return false;
}

/* The lines of a frame that are shown are passed to `fn`. `skips`: until a public function. */
typedef void put_function(struct out *out, const char *line, int len, void *arg);
static void each_function(struct out *out, const struct ci_snapshot_line *line, bool *skips,
                          put_function *fn, void *arg)
{
    for (const char *at = symbol_of(out, line->address, line->exact), *end;
         (end = strchr(at, '\n')); at = end + 1) {
        *skips = *skips && !begins(at, "coir_");
        if (!*skips && !is_root(at))
            fn(out, at, (int)(end - at), arg);
    }
}

/* Calls `fn` for each function that is shown, of the frames that begin at `line`; returns the line
 * behind them. */
static const struct ci_snapshot_line *each_frame(struct out *out,
                                                 const struct ci_snapshot_line *line,
                                                 const struct ci_snapshot_line *end,
                                                 put_function *fn, void *arg)
{
    bool skips = has_public(out, line, end);
    for (bool first = true; line < end && line->kind == CI_LINE_FRAME && (first || !line->exact);
         first = false, line++)
        each_function(out, line, &skips, fn, arg);
    return line;
}

static const char *const state_words[] = {
    [CI_TASK_RUNS] = "runs",
    [CI_TASK_READY] = "is ready to run",
    [CI_TASK_NOT_BEGUN] = "has not begun",
    [CI_TASK_WAITS] = "waits for",
    [CI_TASK_TRAVELS] = "is a message between two workers",
    [CI_TASK_UNKNOWN] = "runs on a worker that does not answer",
};

/* ---- as text ---- */

struct place {
    int indent, number;
};

static void put_text_function(struct out *out, const char *line, int len, void *arg)
{
    struct place *place = arg;
    put(out, "%*s#%-3d%.*s\n", place->indent, "", place->number++, len, line);
}

static void put_text_future(struct out *out, const struct ci_snapshot_line *line,
                            struct place *place)
{
    const char *poll = symbol_of(out, line->address, true);
    put(out, "%*s#%-3d", place->indent + 4 * line->depth, "", place->number++);
    put_plain(out, line->name ? line->name : "?");
    put(out, ", a future of %.*s\n", (int)strcspn(poll, "\n"), poll);
}

static void put_text_stack(struct out *out, const struct ci_snapshot_task *task, int indent)
{
    const struct ci_snapshot_line *line = ci_snapshot_line(out->snapshot, task->first_line);
    const struct ci_snapshot_line *end = line + task->line_count, *first = line;
    struct place place = {indent, 0};
    while (line < end) {
        struct place here = {indent + 4 * line->depth, place.number};
        switch ((enum ci_line_kind)line->kind) {
        case CI_LINE_FRAME:
            line = each_frame(out, line, end, put_text_function, &here);
            place.number = here.number;
            continue;
        case CI_LINE_FUTURE:
            /* the wait of a fiber is in its task's own line */
            if (line > first || line + 1 == end || line[1].kind != CI_LINE_FRAME)
                put_text_future(out, line, &place);
            break;
        case CI_LINE_MEMBER: put(out, "%*s- a member:\n", indent + 4 * line->depth, ""); break;
        }
        line++;
    }
}

static void put_text_name(struct out *out, const struct ci_snapshot_task *task)
{
    const char *symbol = task->fn && !task->root ? symbol_of(out, task->fn, true) : "?";
    if (*task->name)
        put_plain(out, task->name);
    else if (task->root)
        put_plain(out, task->root);
    else
        put(out, "%.*s", (int)strcspn(symbol, " \n"), symbol);
}

static void put_text_wait(struct out *out, const struct ci_snapshot_task *task)
{
    put(out, " ");
    put_plain(out, task->waits_for ? task->waits_for : "?");
    if (task->note.object)
        put(out, " %p", task->note.object);
    if (task->note.task)
        put(out, " %p", task->note.task);
    if (task->note.text[0]) {
        put(out, " (");
        put_plain(out, task->note.text);
        put(out, ")");
    }
    if (task->has_time)
        put(out, " for %.3f s", seconds(task->left));
}

/* `count`: how many tasks it stands for. */
static void put_text_task(struct out *out, const struct ci_snapshot_task *task, size_t count)
{
    int indent = 2 + 2 * task->depth;
    put(out, "%*s", indent, "");
    put_text_name(out, task);
    put(out, " %p", task->id);
    if (count > 1)
        put(out, " and %zu more: each", count - 1);
    put(out, " %s", state_words[task->state]);
    if (task->state == CI_TASK_WAITS)
        put_text_wait(out, task);
    if (task->runner >= 0 &&
        task->runner != ci_snapshot_worker(out->snapshot, (size_t)task->worker)->index)
        put(out, ", on worker %d", task->runner);
    if (task->deadline != COIR_NEVER)
        put(out, ", deadline in %.3f s", seconds(task->deadline));
    if (task->cancelled)
        put(out, ", cancelled (%s)", task->cancelled == -ETIME ? "ETIME" : "ECANCELED");
    put(out, "\n");
    put_text_stack(out, task, indent + 4);
}

/* ---- folding ---- */

/* A function may park in more than one place: its caller tells what it was called for. */
static bool counts_not(const struct ci_snapshot_line *line)
{
    return line->kind == CI_LINE_FRAME && line->exact;
}

static bool is_same_line(const struct ci_snapshot_line *a, const struct ci_snapshot_line *b)
{
    return a->kind == b->kind && a->depth == b->depth &&
           (a->address == b->address || counts_not(a)) && a->exact == b->exact &&
           a->name == b->name;
}

static bool is_same(const struct ci_snapshot *snapshot, const struct ci_snapshot_task *a,
                    const struct ci_snapshot_task *b)
{
    if (a->scope != b->scope || a->state != b->state || a->fn != b->fn || a->root != b->root ||
        strcmp(a->name, b->name) != 0 || a->waits_for != b->waits_for ||
        a->note.object != b->note.object || a->note.task != b->note.task ||
        strcmp(a->note.text, b->note.text) != 0 || a->cancelled != b->cancelled ||
        a->runner != b->runner || (a->deadline == COIR_NEVER) != (b->deadline == COIR_NEVER) ||
        a->line_count != b->line_count)
        return false;
    for (size_t i = 0; i < a->line_count; i++)
        if (!is_same_line(ci_snapshot_line(snapshot, a->first_line + i),
                          ci_snapshot_line(snapshot, b->first_line + i)))
            return false;
    return true;
}

static void mix(size_t *hash, uintptr_t value)
{
    *hash = (*hash ^ (size_t)value) * 0x9e3779b97f4a7c15u;
    *hash ^= *hash >> 29;
}

static size_t hash_of(const struct ci_snapshot *snapshot, const struct ci_snapshot_task *task)
{
    size_t hash = task->state;
    mix(&hash, (uintptr_t)task->scope);
    mix(&hash, (uintptr_t)task->waits_for);
    mix(&hash, (uintptr_t)task->note.object);
    for (const char *name = task->name; *name; name++)
        mix(&hash, (uintptr_t)*name);
    for (size_t i = 0; i < task->line_count; i++)
        if (!counts_not(ci_snapshot_line(snapshot, task->first_line + i)))
            mix(&hash, (uintptr_t)ci_snapshot_line(snapshot, task->first_line + i)->address);
    return hash;
}

/* counts[i]: how many tasks task i stands for; 0: another one stands for it. */
static int fold(const struct ci_snapshot *snapshot, size_t *counts)
{
    size_t size = 64;
    while (size < 2 * snapshot->tasks.count)
        size *= 2;
    size_t *table = calloc(size, sizeof *table); /* indices + 1 */
    if (!table)
        return -ENOMEM;
    for (size_t i = 0; i < snapshot->tasks.count; i++) {
        const struct ci_snapshot_task *task = ci_snapshot_task(snapshot, i);
        counts[i] = 1;
        if (task->has_children)
            continue;
        size_t at = hash_of(snapshot, task) & (size - 1);
        while (table[at] && !is_same(snapshot, ci_snapshot_task(snapshot, table[at] - 1), task))
            at = (at + 1) & (size - 1);
        if (table[at]) {
            counts[table[at] - 1]++;
            counts[i] = 0;
        } else {
            table[at] = i + 1;
        }
    }
    free(table);
    return 0;
}

static void put_text_worker(struct out *out, const struct ci_snapshot_worker *worker)
{
    struct place place = {6, 0};
    put(out, "runtime %d, worker %d", worker->runtime, worker->index);
    if (!worker->answered && worker->trace_error)
        put(out, " does not answer, and its stack is not known");
    else if (!worker->answered)
        put(out, " does not answer; it runs");
    put(out, "\n");
    bool skips = false;
    for (int i = 0; !worker->answered && !worker->trace_error && i < worker->traced.count; i++) {
        struct ci_snapshot_line line = {.address = worker->traced.frames[i],
                                        .exact = i == 0 && worker->traced.exact};
        each_function(out, &line, &skips, put_text_function, &place);
    }
}

static int put_text(struct out *out)
{
    const struct ci_snapshot *snapshot = out->snapshot;
    size_t *counts = calloc(snapshot->tasks.count + 1, sizeof *counts), task = 0;
    int rc = counts ? fold(snapshot, counts) : -ENOMEM;
    if (rc == 0)
        put(out, "coir " VERSION ", process %d: %zu tasks\n", VERSION_NUMBERS, (int)getpid(),
            snapshot->tasks.count);
    for (size_t i = 0; rc == 0 && i < snapshot->workers.count; i++) {
        put_text_worker(out, ci_snapshot_worker(snapshot, i));
        for (; task < snapshot->tasks.count && ci_snapshot_task(snapshot, task)->worker == (int)i;
             task++)
            if (counts[task])
                put_text_task(out, ci_snapshot_task(snapshot, task), counts[task]);
    }
    free(counts);
    return rc;
}

/* ---- as JSON ---- */

static void put_json_function(struct out *out, const char *line, int len, void *arg)
{
    bool *begun = arg;
    char text[SYMBOL];
    snprintf(text, sizeof text, "%.*s", len, line);
    put(out, *begun ? "," : "");
    put_string(out, text);
    *begun = true;
}

static void put_json_frame(struct out *out, const struct ci_snapshot_line *line)
{
    bool begun = false, skips = false;
    put(out, "{\"depth\":%d,\"address\":\"%p\",\"functions\":[", line->depth, line->address);
    each_function(out, line, &skips, put_json_function, &begun);
    put(out, "]}");
}

static void put_json_line(struct out *out, const struct ci_snapshot_line *line)
{
    switch ((enum ci_line_kind)line->kind) {
    case CI_LINE_FRAME: put_json_frame(out, line); break;
    case CI_LINE_FUTURE:
        put(out, "{\"depth\":%d,\"future\":\"%p\",\"kind\":", line->depth, line->future);
        put_string(out, line->name ? line->name : "?");
        put(out, "}");
        break;
    case CI_LINE_MEMBER:
        put(out, "{\"depth\":%d,\"member\":\"%p\"}", line->depth, line->future);
        break;
    }
}

static void put_json_wait(struct out *out, const struct ci_snapshot_task *task)
{
    put(out, ",\"waitsFor\":{\"kind\":");
    put_string(out, task->waits_for ? task->waits_for : "?");
    if (task->note.object)
        put(out, ",\"object\":\"%p\"", task->note.object);
    if (task->note.task)
        put(out, ",\"task\":\"%p\"", task->note.task);
    if (task->note.text[0]) {
        put(out, ",\"detail\":");
        put_string(out, task->note.text);
    }
    if (task->has_time)
        put(out, ",\"seconds\":%.6f", seconds(task->left));
    put(out, "}");
}

static void put_json_task(struct out *out, const struct ci_snapshot_task *task)
{
    static const char *const states[] = {"running", "ready",      "new",
                                         "waiting", "travelling", "unknown"};
    put(out, "{\"tid\":\"%p\",\"name\":", task->id);
    put_string(out, task->name);
    put(out, ",\"state\":\"%s\",\"worker\":%d", states[task->state], task->runner);
    if (task->fn) {
        const char *symbol = symbol_of(out, task->fn, true);
        char text[SYMBOL];
        snprintf(text, sizeof text, "%.*s", (int)strcspn(symbol, "\n"), symbol);
        put(out, ",\"runs\":");
        put_string(out, text);
    }
    if (task->state == CI_TASK_WAITS)
        put_json_wait(out, task);
    if (task->deadline != COIR_NEVER)
        put(out, ",\"deadlineSeconds\":%.6f", seconds(task->deadline));
    if (task->cancelled)
        put(out, ",\"cancelled\":\"%s\"", task->cancelled == -ETIME ? "ETIME" : "ECANCELED");
    put(out, ",\"stack\":[");
    for (size_t i = 0; i < task->line_count; i++) {
        put(out, i ? ",\n" : "");
        put_json_line(out, ci_snapshot_line(out->snapshot, task->first_line + i));
    }
    put(out, "]}");
}

/* The scopes in the order of their first tasks. A scope's tasks follow each other, but for what
 * their own scopes hold. */
static void put_json_container(struct out *out, size_t first)
{
    const struct ci_snapshot *snapshot = out->snapshot;
    const struct ci_snapshot_task *task = ci_snapshot_task(snapshot, first);
    const struct ci_snapshot_worker *worker = ci_snapshot_worker(snapshot, (size_t)task->worker);
    const struct ci_snapshot_task *owner =
        task->parent < 0 ? NULL : ci_snapshot_task(snapshot, (size_t)task->parent);
    put(out, "{\"container\":\"%p\",\"runtime\":%d,\"worker\":%d", task->scope, worker->runtime,
        worker->index);
    if (owner)
        put(out, ",\"parent\":\"%p\",\"owner\":\"%p\"", owner->scope, owner->id);
    else
        put(out, ",\"parent\":null,\"owner\":null");
    put(out, ",\"threads\":[");
    int depth = task->depth;
    for (size_t i = first; i < snapshot->tasks.count; i++) {
        const struct ci_snapshot_task *other = ci_snapshot_task(snapshot, i);
        if (other->depth < depth || other->worker != task->worker)
            break;
        if (other->scope != task->scope)
            continue;
        put(out, i == first ? "\n" : ",\n");
        put_json_task(out, other);
    }
    put(out, "]}");
}

/* Whether the task is the first of its scope. */
static bool begins_scope(const struct ci_snapshot *snapshot, size_t index)
{
    const struct ci_snapshot_task *task = ci_snapshot_task(snapshot, index);
    while (index-- > 0) {
        const struct ci_snapshot_task *before = ci_snapshot_task(snapshot, index);
        if (before->worker != task->worker || before->depth < task->depth)
            return true;
        if (before->depth == task->depth)
            return before->scope != task->scope;
    }
    return true;
}

static void put_json_worker(struct out *out, const struct ci_snapshot_worker *worker)
{
    put(out, "{\"runtime\":%d,\"index\":%d,\"answered\":%s", worker->runtime, worker->index,
        worker->answered ? "true" : "false");
    if (!worker->answered && !worker->trace_error) {
        put(out, ",\"stack\":[");
        for (int i = 0; i < worker->traced.count; i++) {
            put(out, i ? "," : "");
            put_json_frame(out,
                           &(struct ci_snapshot_line){.address = worker->traced.frames[i],
                                                      .exact = i == 0 && worker->traced.exact});
        }
        put(out, "]");
    }
    put(out, "}");
}

static int put_json(struct out *out)
{
    const struct ci_snapshot *snapshot = out->snapshot;
    put(out,
        "{\"threadDump\":{\"schema\":%d,\"runtimeVersion\":\"coir " VERSION "\",\"processId\":%d,",
        SCHEMA, VERSION_NUMBERS, (int)getpid());
    put(out, "\n\"workers\":[");
    for (size_t i = 0; i < snapshot->workers.count; i++) {
        put(out, i ? ",\n" : "\n");
        put_json_worker(out, ci_snapshot_worker(snapshot, i));
    }
    put(out, "],\n\"threadContainers\":[");
    for (size_t i = 0, count = 0; i < snapshot->tasks.count; i++)
        if (begins_scope(snapshot, i)) {
            put(out, count++ ? ",\n" : "\n");
            put_json_container(out, i);
        }
    put(out, "]}}\n");
    return 0;
}

int ci_snapshot_write(const struct ci_snapshot *snapshot, coir_fd fd, enum coir_dump_format format)
{
    struct out *out = calloc(1, sizeof *out);
    if (!out)
        return -ENOMEM;
    out->snapshot = snapshot;
    out->fd = fd;
    int rc = make_symbols(out);
    if (rc == 0)
        rc = format == COIR_DUMP_JSON ? put_json(out) : put_text(out);
    if (rc == 0) {
        flush(out);
        rc = out->error;
    }
    free_symbols(out);
    free(out);
    return rc;
}

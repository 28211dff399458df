#include "task/snapshot_write.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coir/version.h"
#include "sys/call.h"
#include "sys/locale.h"
#include "task/dump_out.h"
#include "task/findings.h"
#include "task/place.h"

enum { SCHEMA = 1, FIRST_FRAMES = 8, INDENT_MOST = 200 };
static const coir_time shown_wait = 5 * COIR_MS; /* less is 0.00 s */

#define VERSION "%d.%d.%d"
#define VERSION_NUMBERS COIR_VERSION_MAJOR, COIR_VERSION_MINOR, COIR_VERSION_PATCH

/* ---- what is worth showing ---- */

static double seconds(coir_time duration)
{
    return (double)duration / (double)COIR_S;
}

/* How many functions of a stack are not shown at its begin. */
static int hidden_functions(struct ci_dump_out *out, const struct ci_snapshot_line *line,
                            const struct ci_snapshot_line *end)
{
    struct ci_place_search search = {.found = -1};
    for (int i = 0;
         i < FIRST_FRAMES && line < end && line->kind == CI_LINE_FRAME && (i == 0 || !line->exact);
         i++, line++)
        for (const char *at = ci_symbol_of(out, line->address, line->exact); *at && !search.over;
             at = strchr(at, '\n') + 1)
            ci_place_search(&search, at);
    return search.found < 0 ? 0 : search.found;
}

/* The lines of a frame that are shown are passed to `fn`, but for the first `*hidden`. */
typedef void put_function(struct ci_dump_out *out, const char *line, int len, void *arg);
static void each_function(struct ci_dump_out *out, const struct ci_snapshot_line *line, int *hidden,
                          put_function *fn, void *arg)
{
    for (const char *at = ci_symbol_of(out, line->address, line->exact), *end;
         (end = strchr(at, '\n')); at = end + 1)
        if (*hidden > 0)
            --*hidden;
        else if (!ci_place_is_root(at))
            fn(out, at, (int)(end - at), arg);
}

/* Calls `fn` for each function that is shown, of the frames that begin at `line`; returns the line
 * behind them. */
static const struct ci_snapshot_line *each_frame(struct ci_dump_out *out,
                                                 const struct ci_snapshot_line *line,
                                                 const struct ci_snapshot_line *end,
                                                 put_function *fn, void *arg)
{
    int hidden = hidden_functions(out, line, end);
    for (bool first = true; line < end && line->kind == CI_LINE_FRAME && (first || !line->exact);
         first = false, line++)
        each_function(out, line, &hidden, fn, arg);
    return line;
}

static const char *const state_words[] = {
    [CI_TASK_RUNS] = "runs",
    [CI_TASK_READY] = "is ready to run",
    [CI_TASK_NOT_BEGUN] = "has not begun",
    [CI_TASK_WAITS] = "waits for",
    [CI_TASK_RESTS] = "rest: they wait without a record",
    [CI_TASK_TRAVELS] = "is a message between two workers",
    [CI_TASK_UNKNOWN] = "runs on a worker that does not answer",
};

/* ---- as text ---- */

struct place {
    int indent, number;
};

/* A line is indented by its depth, up to a limit, as a deep tree would be all spaces. */
static void put_indent(struct ci_dump_out *out, int indent)
{
    ci_put(out, "%*s", indent < INDENT_MOST ? indent : INDENT_MOST, "");
}

static void put_text_function(struct ci_dump_out *out, const char *line, int len, void *arg)
{
    struct place *place = arg;
    put_indent(out, place->indent);
    ci_put(out, "#%-3d%.*s\n", place->number++, len, line);
}

static void put_text_future(struct ci_dump_out *out, const struct ci_snapshot_line *line,
                            struct place *place)
{
    const char *poll = ci_symbol_of(out, line->address, true);
    put_indent(out, place->indent + 4 * line->depth);
    ci_put(out, "#%-3d", place->number++);
    ci_put_plain(out, line->name ? line->name : "?");
    ci_put(out, ", a future of %.*s\n", (int)strcspn(poll, "\n"), poll);
}

static void put_text_stack(struct ci_dump_out *out, const struct ci_snapshot_task *task, int indent)
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
        case CI_LINE_MEMBER:
            put_indent(out, indent + 4 * line->depth);
            ci_put(out, "- a member:\n");
            break;
        }
        line++;
    }
}

/* A task's own function, and what follows in its line; or "?". */
static const char *function_of(struct ci_dump_out *out, const struct ci_snapshot_task *task)
{
    return task->fn && !task->root ? ci_symbol_of(out, task->fn, true) : "?";
}

static void put_text_name(struct ci_dump_out *out, const struct ci_snapshot_task *task)
{
    const char *symbol = function_of(out, task);
    if (*task->name)
        ci_put_plain(out, task->name);
    else if (task->root)
        ci_put_plain(out, task->root);
    else
        ci_put(out, "%.*s", (int)strcspn(symbol, " \n"), symbol);
}

static void put_text_holder(struct ci_dump_out *out, const struct ci_snapshot_task *task)
{
    if (!task->note.holder.task)
        return;
    ci_put(out, ", held by ");
    if (task->holder < 0) {
        ci_put(out, out->snapshot->whole && !task->holder_lives ? "a task that has ended"
                                                                : "a task that is not shown");
        return;
    }
    const struct ci_snapshot_task *holder = ci_snapshot_task(out->snapshot, (size_t)task->holder);
    put_text_name(out, holder);
    ci_put(out, " %p", holder->id);
}

/* What the program has named the object, or the variable that it is; "": neither. */
static const char *name_of_object(struct ci_dump_out *out, const struct ci_snapshot_task *task)
{
    return task->note.name ? task->note.name : ci_variable_at(out, task->note.object);
}

/* `waited`: how long it has, or the longest of several tasks. */
static void put_text_wait(struct ci_dump_out *out, const struct ci_snapshot_task *task,
                          coir_time waited)
{
    ci_put(out, " ");
    ci_put_plain(out, task->waits_for ? task->waits_for : "?");
    if (task->note.object) {
        const char *name = name_of_object(out, task);
        ci_put(out, *name ? " %p (" : " %p", task->note.object);
        ci_put_plain(out, name);
        ci_put(out, *name ? ")" : "");
    }
    if (task->note.task)
        ci_put(out, " %p", task->note.task);
    if (task->note.text[0]) {
        ci_put(out, " (");
        ci_put_plain(out, task->note.text);
        ci_put(out, ")");
    }
    if (task->has_time)
        ci_put(out, " for %.3f s", seconds(task->left));
    put_text_holder(out, task);
    if (waited >= shown_wait)
        ci_put(out, ", for %.2f s so far", seconds(waited));
}

static void put_text_spawn(struct ci_dump_out *out, const struct ci_snapshot_task *task, int indent)
{
    if (!task->spawned_at)
        return;
    const char *symbol = ci_symbol_of(out, task->spawned_at, false);
    put_indent(out, indent);
    ci_put(out, "spawned by %.*s\n", (int)strcspn(symbol, "\n"), symbol);
}

/* How many tasks one task stands for, and the longest of their waits. */
struct folded {
    size_t count;
    coir_time waited;
};

static void put_text_task(struct ci_dump_out *out, const struct ci_snapshot_task *task,
                          const struct folded *folded)
{
    int indent = 2 + 2 * task->depth;
    put_indent(out, indent);
    put_text_name(out, task);
    ci_put(out, " %p", task->id);
    if (folded->count > 1)
        ci_put(out, " and %zu more: each", folded->count - 1);
    ci_put(out, " %s", state_words[task->state]);
    if (task->state == CI_TASK_WAITS)
        put_text_wait(out, task, folded->waited);
    if (task->runner >= 0 &&
        task->runner != ci_snapshot_worker(out->snapshot, (size_t)task->worker)->index)
        ci_put(out, ", on worker %d", task->runner);
    if (task->deadline != COIR_NEVER)
        ci_put(out, ", deadline in %.3f s", seconds(task->deadline));
    if (task->cancelled)
        ci_put(out, ", cancelled (%s)", task->cancelled == -ETIME ? "ETIME" : "ECANCELED");
    ci_put(out, "\n");
    put_text_stack(out, task, indent + 4);
    put_text_spawn(out, task, indent + 4);
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
        a->spawned_at != b->spawned_at || a->holder != b->holder ||
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

/* folded[i]: what task i stands for; a count of 0: another one stands for it. */
static int fold(const struct ci_snapshot *snapshot, struct folded *folded)
{
    size_t size = 64;
    while (size < 2 * snapshot->tasks.count)
        size *= 2;
    size_t *table = calloc(size, sizeof *table); /* indices + 1 */
    if (!table)
        return -ENOMEM;
    for (size_t i = 0; i < snapshot->tasks.count; i++) {
        const struct ci_snapshot_task *task = ci_snapshot_task(snapshot, i);
        folded[i] = (struct folded){1, task->waited};
        if (task->has_children)
            continue;
        size_t at = hash_of(snapshot, task) & (size - 1);
        while (table[at] && !is_same(snapshot, ci_snapshot_task(snapshot, table[at] - 1), task))
            at = (at + 1) & (size - 1);
        if (table[at]) {
            struct folded *first = &folded[table[at] - 1];
            first->count++;
            first->waited = task->waited > first->waited ? task->waited : first->waited;
            folded[i].count = 0;
        } else {
            table[at] = i + 1;
        }
    }
    free(table);
    return 0;
}

/* A task by its name, or by its function. */
static void put_text_running(struct ci_dump_out *out, const struct ci_snapshot_worker *worker)
{
    const char *symbol = worker->running_fn ? ci_symbol_of(out, worker->running_fn, true) : "?";
    if (*worker->running_name)
        ci_put_plain(out, worker->running_name);
    else
        ci_put(out, "%.*s", (int)strcspn(symbol, " \n"), symbol);
}

static void put_text_worker(struct ci_dump_out *out, const struct ci_snapshot_worker *worker)
{
    struct place place = {6, 0};
    ci_put(out, "runtime %d, worker %d", worker->runtime, worker->index);
    if (!worker->answered && worker->trace_error)
        ci_put(out, " does not answer, and its stack is not known");
    else if (!worker->answered) {
        ci_put(out, " does not answer; it runs ");
        put_text_running(out, worker);
    }
    if (!worker->answered && !worker->trace_error && !worker->traced.count) /* no backtrace(3) */
        ci_put(out, ", and its stack is not known");
    ci_put(out, "\n");
    int hidden = 0;
    for (int i = 0; !worker->answered && !worker->trace_error && i < worker->traced.count; i++) {
        struct ci_snapshot_line line = {.address = worker->traced.frames[i],
                                        .exact = i == 0 && worker->traced.exact};
        each_function(out, &line, &hidden, put_text_function, &place);
    }
}

/* ---- findings ---- */

static void keep_place(struct ci_dump_out *out, const char *line, int len, void *place)
{
    (void)out;
    ci_place_consider(place, line, len);
}

/* Where a task is: the function of the program that waits. None is on the stack where the wait is
 * the last that the task does, as the compiler leaves its frame for it. */
static struct ci_place place_of_task(struct ci_dump_out *out, const struct ci_snapshot_task *task)
{
    const struct ci_snapshot_line *line = ci_snapshot_line(out->snapshot, task->first_line);
    const struct ci_snapshot_line *end = line + task->line_count;
    struct ci_place place = {NULL, 0, 0};
    while (line < end)
        if (line->kind == CI_LINE_FRAME)
            line = each_frame(out, line, end, keep_place, &place);
        else
            line++;
    if (!place.len) {
        place.line = function_of(out, task);
        place.len = (int)strcspn(place.line, "\n");
    }
    return place;
}

static struct ci_place place_of_address(struct ci_dump_out *out, const void *address)
{
    const char *symbol = address ? ci_symbol_of(out, address, false) : "?";
    return (struct ci_place){symbol, (int)strcspn(symbol, "\n"), 0};
}

/* Where a worker computes. */
static struct ci_place place_of_worker(struct ci_dump_out *out,
                                       const struct ci_snapshot_worker *worker)
{
    struct ci_place place = {"?", 0, 0};
    int hidden = 0;
    for (int i = 0; i < worker->traced.count; i++) {
        struct ci_snapshot_line line = {.address = worker->traced.frames[i],
                                        .exact = i == 0 && worker->traced.exact};
        each_function(out, &line, &hidden, keep_place, &place);
    }
    place.len = place.len ? place.len : 1;
    return place;
}

static const struct ci_snapshot_task *party(struct ci_dump_out *out,
                                            const struct ci_finding *finding, size_t index)
{
    return ci_snapshot_task(out->snapshot, ci_finding_party(out->snapshot, finding, index));
}

static void put_text_party(struct ci_dump_out *out, const struct ci_snapshot_task *task)
{
    struct ci_place place = place_of_task(out, task);
    ci_put(out, "    ");
    put_text_name(out, task);
    ci_put(out, " %p %s", task->id, state_words[task->state]);
    if (task->state == CI_TASK_WAITS)
        put_text_wait(out, task, task->waited);
    if (task->deadline != COIR_NEVER)
        ci_put(out, ", deadline in %.3f s", seconds(task->deadline));
    ci_put(out, ", in %.*s\n", place.len, place.line);
}

static void put_text_head(struct ci_dump_out *out, const struct ci_finding *finding)
{
    const struct ci_snapshot_worker *worker =
        ci_snapshot_worker(out->snapshot, (size_t)finding->worker);
    struct ci_place place;
    switch (finding->kind) {
    case CI_FINDS_CYCLE:
        if (finding->count == 1)
            ci_put(out, "finding: a task waits for a lock that it holds itself:");
        else
            ci_put(
                out,
                "finding: %zu tasks wait for each other, each for a lock that the next one holds:",
                finding->count);
        break;
    case CI_FINDS_ENDED:
        ci_put(out, "finding: a lock was not given back by a task that has ended; %zu wait for it:",
               finding->count);
        break;
    case CI_FINDS_COMPUTING:
        place = place_of_worker(out, worker);
        ci_put(out, "finding: ");
        put_text_running(out, worker);
        ci_put(out, " %p on worker %d computes without a wait, in %.*s",
               (const void *)worker->running.task, worker->index, place.len, place.line);
        if (finding->count)
            ci_put(out, "; it holds a lock that others wait for (%zu):", finding->count);
        break;
    case CI_FINDS_SCOPE_LEFT_OPEN:
        place = place_of_address(out, finding->place);
        ci_put(out,
               "finding: a scope was left open by a function that has returned; opened by %.*s:",
               place.len, place.line);
        break;
    }
    ci_put(out, "\n");
}

/* Of its parties so many at most. */
static void put_text_finding(struct ci_dump_out *out, const struct ci_finding *finding, size_t most)
{
    put_text_head(out, finding);
    for (size_t i = 0; i < finding->count && i < most; i++)
        put_text_party(out, party(out, finding, i));
    if (finding->count > most)
        ci_put(out, "    and %zu more\n", finding->count - most);
}

static void put_text_missing(struct ci_dump_out *out, const struct ci_snapshot *snapshot)
{
    if (snapshot->runtimes_left_out)
        ci_put(out, "missing: %d more runtimes\n", snapshot->runtimes_left_out);
}

static int put_text(struct ci_dump_out *out)
{
    const struct ci_snapshot *snapshot = out->snapshot;
    struct folded *folded = calloc(snapshot->tasks.count + 1, sizeof *folded);
    size_t task = 0;
    int rc = folded ? fold(snapshot, folded) : -ENOMEM;
    if (rc == 0) {
        ci_put(out, "coir " VERSION ", process %d: %zu tasks; build id %s\n", VERSION_NUMBERS,
               ci_sys_process_id(), snapshot->tasks.count,
               *ci_program_id(out) ? ci_program_id(out) : "unknown");
    }
    if (rc == 0)
        put_text_missing(out, snapshot);
    for (size_t i = 0; rc == 0 && i < snapshot->workers.count; i++) {
        put_text_worker(out, ci_snapshot_worker(snapshot, i));
        for (; task < snapshot->tasks.count && ci_snapshot_task(snapshot, task)->worker == (int)i;
             task++)
            if (folded[task].count)
                put_text_task(out, ci_snapshot_task(snapshot, task), &folded[task]);
    }
    for (size_t i = 0; rc == 0 && i < snapshot->findings.count; i++)
        put_text_finding(out, ci_finding_at(snapshot, i), SIZE_MAX);
    free(folded);
    return rc;
}

/* ---- as JSON ---- */

static void put_string_of(struct ci_dump_out *out, const char *text, int len)
{
    char copy[CI_DUMP_SYMBOL];
    snprintf(copy, sizeof copy, "%.*s", len, text);
    ci_put_string(out, copy);
}

static void put_json_function(struct ci_dump_out *out, const char *line, int len, void *arg)
{
    bool *begun = arg;
    ci_put(out, *begun ? "," : "");
    put_string_of(out, line, len);
    *begun = true;
}

static void put_json_frame(struct ci_dump_out *out, const struct ci_snapshot_line *line)
{
    bool begun = false;
    int hidden = 0;
    ci_put(out, "{\"depth\":%d,\"address\":\"%p\",\"functions\":[", line->depth, line->address);
    each_function(out, line, &hidden, put_json_function, &begun);
    ci_put(out, "]}");
}

static void put_json_line(struct ci_dump_out *out, const struct ci_snapshot_line *line)
{
    switch ((enum ci_line_kind)line->kind) {
    case CI_LINE_FRAME: put_json_frame(out, line); break;
    case CI_LINE_FUTURE:
        ci_put(out, "{\"depth\":%d,\"future\":\"%p\",\"kind\":", line->depth, line->future);
        ci_put_string(out, line->name ? line->name : "?");
        ci_put(out, "}");
        break;
    case CI_LINE_MEMBER:
        ci_put(out, "{\"depth\":%d,\"member\":\"%p\"}", line->depth, line->future);
        break;
    }
}

static void put_json_wait(struct ci_dump_out *out, const struct ci_snapshot_task *task)
{
    ci_put(out, ",\"waitsFor\":{\"kind\":");
    ci_put_string(out, task->waits_for ? task->waits_for : "?");
    if (task->note.object)
        ci_put(out, ",\"object\":\"%p\"", task->note.object);
    if (task->note.task)
        ci_put(out, ",\"task\":\"%p\"", task->note.task);
    if (task->note.text[0]) {
        ci_put(out, ",\"detail\":");
        ci_put_string(out, task->note.text);
    }
    const char *name = name_of_object(out, task);
    if (*name) {
        ci_put(out, ",\"name\":");
        ci_put_string(out, name);
    }
    if (task->holder >= 0)
        ci_put(out, ",\"heldBy\":\"%p\"",
               ci_snapshot_task(out->snapshot, (size_t)task->holder)->id);
    if (task->has_time)
        ci_put(out, ",\"seconds\":%.6f", seconds(task->left));
    ci_put(out, ",\"waited\":%.3f}", seconds(task->waited));
}

static void put_json_task(struct ci_dump_out *out, const struct ci_snapshot_task *task)
{
    static const char *const states[] = {
        [CI_TASK_RUNS] = "running",    [CI_TASK_READY] = "ready",
        [CI_TASK_NOT_BEGUN] = "new",   [CI_TASK_WAITS] = "waiting",
        [CI_TASK_RESTS] = "resting",   [CI_TASK_TRAVELS] = "travelling",
        [CI_TASK_UNKNOWN] = "unknown",
    };
    ci_put(out, "{\"tid\":\"%p\",\"name\":", task->id);
    ci_put_string(out, task->name);
    ci_put(out, ",\"state\":\"%s\",\"worker\":%d", states[task->state], task->runner);
    if (task->fn) {
        const char *symbol = ci_symbol_of(out, task->fn, true);
        ci_put(out, ",\"runs\":");
        put_string_of(out, symbol, (int)strcspn(symbol, "\n"));
    }
    if (task->spawned_at) {
        struct ci_place place = place_of_address(out, task->spawned_at);
        ci_put(out, ",\"spawnedBy\":");
        put_string_of(out, place.line, place.len);
    }
    if (task->state == CI_TASK_WAITS)
        put_json_wait(out, task);
    if (task->deadline != COIR_NEVER)
        ci_put(out, ",\"deadlineSeconds\":%.6f", seconds(task->deadline));
    if (task->cancelled)
        ci_put(out, ",\"cancelled\":\"%s\"", task->cancelled == -ETIME ? "ETIME" : "ECANCELED");
    ci_put(out, ",\"stack\":[");
    for (size_t i = 0; i < task->line_count; i++) {
        ci_put(out, i ? ",\n" : "");
        put_json_line(out, ci_snapshot_line(out->snapshot, task->first_line + i));
    }
    ci_put(out, "]}");
}

/* The scopes in the order of their first tasks. A scope's tasks follow each other, but for what
 * their own scopes hold. */
static void put_json_container(struct ci_dump_out *out, size_t first)
{
    const struct ci_snapshot *snapshot = out->snapshot;
    const struct ci_snapshot_task *task = ci_snapshot_task(snapshot, first);
    const struct ci_snapshot_worker *worker = ci_snapshot_worker(snapshot, (size_t)task->worker);
    const struct ci_snapshot_task *owner =
        task->parent < 0 ? NULL : ci_snapshot_task(snapshot, (size_t)task->parent);
    ci_put(out, "{\"container\":\"%p\",\"runtime\":%d,\"worker\":%d", task->scope, worker->runtime,
           worker->index);
    if (owner)
        ci_put(out, ",\"parent\":\"%p\",\"owner\":\"%p\"", owner->scope, owner->id);
    else
        ci_put(out, ",\"parent\":null,\"owner\":null");
    ci_put(out, ",\"threads\":[");
    int depth = task->depth;
    for (size_t i = first; i < snapshot->tasks.count; i++) {
        const struct ci_snapshot_task *other = ci_snapshot_task(snapshot, i);
        if (other->depth < depth || other->worker != task->worker)
            break;
        if (other->scope != task->scope)
            continue;
        ci_put(out, i == first ? "\n" : ",\n");
        put_json_task(out, other);
    }
    ci_put(out, "]}");
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

static void put_json_worker(struct ci_dump_out *out, const struct ci_snapshot_worker *worker)
{
    ci_put(out, "{\"runtime\":%d,\"index\":%d,\"answered\":%s", worker->runtime, worker->index,
           worker->answered ? "true" : "false");
    if (!worker->answered && !worker->trace_error) {
        ci_put(out, ",\"stack\":[");
        for (int i = 0; i < worker->traced.count; i++) {
            ci_put(out, i ? "," : "");
            put_json_frame(out,
                           &(struct ci_snapshot_line){.address = worker->traced.frames[i],
                                                      .exact = i == 0 && worker->traced.exact});
        }
        ci_put(out, "]");
    }
    ci_put(out, "}");
}

static void put_json_finding(struct ci_dump_out *out, const struct ci_finding *finding)
{
    static const char *const kinds[] = {
        [CI_FINDS_CYCLE] = "cycle",
        [CI_FINDS_ENDED] = "holderEnded",
        [CI_FINDS_COMPUTING] = "computing",
        [CI_FINDS_SCOPE_LEFT_OPEN] = "scopeLeftOpen",
    };
    const struct ci_snapshot_worker *worker =
        ci_snapshot_worker(out->snapshot, (size_t)finding->worker);
    struct ci_place place = place_of_address(out, finding->place);
    ci_put(out, "{\"kind\":\"%s\"", kinds[finding->kind]);
    if (finding->kind == CI_FINDS_COMPUTING) {
        ci_put(out, ",\"task\":\"%p\",\"worker\":%d", (const void *)worker->running.task,
               worker->index);
        place = place_of_worker(out, worker);
    }
    if (finding->kind == CI_FINDS_COMPUTING || finding->kind == CI_FINDS_SCOPE_LEFT_OPEN) {
        ci_put(out, ",\"place\":");
        put_string_of(out, place.line, place.len);
    }
    ci_put(out, ",\"tasks\":[");
    for (size_t i = 0; i < finding->count; i++) {
        const struct ci_snapshot_task *task = party(out, finding, i);
        place = place_of_task(out, task);
        ci_put(out, "%s{\"tid\":\"%p\",\"place\":", i ? "," : "", task->id);
        put_string_of(out, place.line, place.len);
        ci_put(out, "}");
    }
    ci_put(out, "]}");
}

static int put_json(struct ci_dump_out *out)
{
    const struct ci_snapshot *snapshot = out->snapshot;
    ci_put(out,
           "{\"threadDump\":{\"schema\":%d,\"runtimeVersion\":\"coir " VERSION
           "\",\"processId\":%d,",
           SCHEMA, VERSION_NUMBERS, ci_sys_process_id());
    if (*ci_program_id(out))
        ci_put(out, "\"buildId\":\"%s\",", ci_program_id(out));
    if (snapshot->runtimes_left_out)
        ci_put(out, "\"runtimesLeftOut\":%d,", snapshot->runtimes_left_out);
    ci_put(out, "\n\"workers\":[");
    for (size_t i = 0; i < snapshot->workers.count; i++) {
        ci_put(out, i ? ",\n" : "\n");
        put_json_worker(out, ci_snapshot_worker(snapshot, i));
    }
    ci_put(out, "],\n\"threadContainers\":[");
    for (size_t i = 0, count = 0; i < snapshot->tasks.count; i++)
        if (begins_scope(snapshot, i)) {
            ci_put(out, count++ ? ",\n" : "\n");
            put_json_container(out, i);
        }
    ci_put(out, "],\n\"findings\":[");
    for (size_t i = 0; i < snapshot->findings.count; i++) {
        ci_put(out, i ? ",\n" : "\n");
        put_json_finding(out, ci_finding_at(snapshot, i));
    }
    ci_put(out, "]}}\n");
    return 0;
}

int ci_snapshot_write(const struct ci_snapshot *snapshot, coir_fd fd, enum coir_dump_format format)
{
    struct ci_dump_out *out = calloc(1, sizeof *out);
    if (!out)
        return -ENOMEM;
    out->snapshot = snapshot;
    out->fd = fd;
    struct ci_locale locale = ci_locale_enter();
    int rc = ci_dump_out_init(out);
    if (rc == 0)
        rc = format == COIR_DUMP_JSON ? put_json(out) : put_text(out);
    if (rc == 0) {
        ci_dump_out_flush(out);
        rc = out->error;
    }
    ci_locale_leave(locale);
    ci_dump_out_done(out);
    free(out);
    return rc;
}

int ci_snapshot_write_finding(const struct ci_snapshot *snapshot, size_t index, char *text,
                              size_t size)
{
    struct ci_dump_out *out = calloc(1, sizeof *out);
    if (!out)
        return -ENOMEM;
    out->snapshot = snapshot;
    out->fd = -1;
    struct ci_locale locale = ci_locale_enter();
    int rc = ci_dump_out_init(out);
    if (rc == 0) {
        put_text_finding(out, ci_finding_at(snapshot, index), CI_FINDING_PARTIES);
        snprintf(text, size, "%.*s", (int)out->len, out->buffer);
    }
    ci_locale_leave(locale);
    ci_dump_out_done(out);
    free(out);
    return rc;
}

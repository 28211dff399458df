/* Reads dumps: every line of the text must be one of the dump_kinds that there are, and the JSON
 * must be JSON. */
#include <stdlib.h>
#include <string.h>

#include "sim/dumps.h"
#include "sim/must.h"

static void copy_text(char *to, size_t size, const char *from, size_t len)
{
    MUST(len < size);
    memcpy(to, from, len);
    to[len] = '\0';
}

static struct seen *add(struct dump *dump)
{
    MUST(dump->count < TASKS_MOST);
    struct seen *seen = &dump->seen[dump->count++];
    *seen = (struct seen){.parent = -1, .worker = -1, .left = -1, .deadline = -1, .waited = -1};
    return seen;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* ---- JSON ---- */

static const char *skip_space(const char *at)
{
    return at + strspn(at, " \n");
}

/* The position behind a string, which is at `at`. */
static const char *skip_string(const char *at)
{
    MUST(*at == '"');
    for (at++; *at != '"'; at++) {
        MUST((unsigned char)*at >= ' ' && (unsigned char)*at < 0x7f);
        if (*at == '\\')
            MUST(*++at && strchr("\"\\/bfnrtu", *at));
    }
    return at + 1;
}

static const char *skip_value(const char *at);

/* What follows a value in an object or array: the next one, or NULL at `end`, which is passed. */
static const char *next_of(const char **at, char end)
{
    *at = skip_space(*at);
    if (**at == ',')
        return *at = skip_space(*at + 1);
    MUST(**at == end);
    ++*at;
    return NULL;
}

/* The value of the member at `*at`; behind that the caller goes on. */
static const char *value_of(const char *at)
{
    at = skip_space(skip_string(at));
    MUST(*at == ':');
    return skip_space(at + 1);
}

static const char *skip_many(const char *at, char end)
{
    const char *item = skip_space(at + 1);
    if (*item == end)
        return item + 1;
    do
        at = skip_value(end == '}' ? value_of(item) : item);
    while ((item = next_of(&at, end)));
    return at;
}

static const char *skip_value(const char *at)
{
    static const char *const words[] = {"true", "false", "null"};
    if (*at == '{' || *at == '[')
        return skip_many(at, *at == '{' ? '}' : ']');
    if (*at == '"')
        return skip_string(at);
    for (size_t i = 0; i < 3; i++)
        if (begins(at, words[i]))
            return at + strlen(words[i]);
    size_t len = strspn(at, "-.0123456789");
    MUST(len);
    return at + len;
}

/* The value of a name in an object; NULL: it has none. */
static const char *find(const char *object, const char *name)
{
    const char *at = object, *item = skip_space(object + 1);
    MUST(*object == '{');
    if (*item == '}')
        return NULL;
    do {
        const char *value = value_of(item);
        if (begins(item + 1, name) && item[1 + strlen(name)] == '"')
            return value;
        at = skip_value(value);
    } while ((item = next_of(&at, '}')));
    return NULL;
}

static const char *need(const char *object, const char *name)
{
    const char *value = find(object, name);
    MUST(value);
    return value;
}

/* The items of an array: the first, and the one after `item`; NULL: there is none. */
static const char *first_of(const char *array)
{
    MUST(*array == '[');
    const char *item = skip_space(array + 1);
    return *item == ']' ? NULL : item;
}

static const char *after(const char *item)
{
    const char *at = skip_value(item);
    return next_of(&at, ']');
}

static void copy_string(char *to, size_t size, const char *value)
{
    copy_text(to, size, value + 1, (size_t)(skip_string(value) - value) - 2);
}

static uint64_t address_in(const char *object, const char *name)
{
    const char *value = find(object, name);
    if (!value || *value != '"')
        return 0;
    return strtoull(value + 1, NULL, 16);
}

static double number_in(const char *object, const char *name)
{
    const char *value = find(object, name);
    return value ? strtod(value, NULL) : -1;
}

/* `kind`: what it waits for, NULL: nothing any more. */
static void add_member(struct seen *seen, const char *kind, size_t len)
{
    MUST(seen->member_count < MEMBERS_MOST);
    copy_text(seen->members[seen->member_count++], KIND_SIZE, kind ? kind : "", kind ? len : 0);
}

/* Innermost first; what a member waits for is behind it. */
static void read_stack(struct seen *seen, const char *stack)
{
    bool member = false;
    for (const char *line = first_of(stack); line; line = after(line)) {
        const char *kind = find(line, "kind");
        if (member)
            add_member(seen, kind ? kind + 1 : NULL,
                       kind ? (size_t)(skip_string(kind) - kind) - 2 : 0);
        seen->has_frame_kind |= kind && begins(kind, "\"a task without a stack\"");
        member = find(line, "member");
    }
    if (member)
        add_member(seen, NULL, 0);
}

static void read_task(struct seen *seen, const char *task)
{
    static const char *const states[STATES] = {"\"ready\"", "\"new\"", "\"waiting\"", "\"running\"",
                                               "\"travelling\""};
    const char *state = need(task, "state"), *wait = find(task, "waitsFor");
    copy_string(seen->name, NAME_SIZE, need(task, "name"));
    seen->id = address_in(task, "tid");
    while (seen->state < STATES && !begins(state, states[seen->state]))
        seen->state++;
    MUST(seen->state < STATES);
    MUST_BE(wait != NULL, seen->state == WAITING);
    seen->worker = (int)strtol(need(task, "worker"), NULL, 10);
    seen->deadline = number_in(task, "deadlineSeconds");
    read_stack(seen, need(task, "stack"));
    if (!wait)
        return;
    copy_string(seen->kind, KIND_SIZE, need(wait, "kind"));
    seen->object = address_in(wait, find(wait, "object") ? "object" : "task");
    seen->holder = address_in(wait, "heldBy");
    seen->left = number_in(wait, "seconds");
    seen->waited = number_in(wait, "waited");
}

static int index_of(const struct dump *dump, uint64_t id)
{
    for (int i = 0; i < dump->count; i++)
        if (dump->seen[i].id == id)
            return i;
    must_have_held(__FILE__, __LINE__, "the owner of a scope comes before it", 0);
}

static void read_container(struct dump *dump, const char *container)
{
    uint64_t owner = address_in(container, "owner");
    int parent = owner ? index_of(dump, owner) : -1;
    for (const char *task = first_of(need(container, "threads")); task; task = after(task)) {
        struct seen *seen = add(dump);
        read_task(seen, task);
        seen->parent = parent;
        seen->scope = address_in(container, "container");
    }
    if (owner)
        MUST(address_in(container, "parent") == dump->seen[parent].scope);
}

static void read_finding(struct dump *dump, const char *finding)
{
    int count = 0;
    MUST(begins(need(finding, "kind"), "\"cycle\""));
    MUST(dump->cycle_count < TASKS_MOST);
    for (const char *task = first_of(need(finding, "tasks")); task; task = after(task)) {
        MUST(count < TASKS_MOST - 1);
        dump->cycles[dump->cycle_count][count++] = address_in(task, "tid");
    }
    dump->cycle_count++;
}

static void read_json(struct dump *dump, const char *text)
{
    MUST(strcmp(skip_value(text), "\n") == 0);
    const char *all = need(text, "threadDump");
    for (const char *worker = first_of(need(all, "workers")); worker; worker = after(worker))
        MUST(begins(need(worker, "answered"), "true"));
    for (const char *at = first_of(need(all, "threadContainers")); at; at = after(at))
        read_container(dump, at);
    for (const char *at = first_of(need(all, "findings")); at; at = after(at))
        read_finding(dump, at);
}

/* ---- text ---- */

/* A line without its indent, up to its end. */
struct line {
    char text[1024];
    size_t indent;
};

static const char *read_line(struct line *line, const char *at)
{
    size_t len = strcspn(at, "\n");
    MUST(at[len] == '\n');
    line->indent = strspn(at, " ");
    copy_text(line->text, sizeof line->text, at + line->indent, len - line->indent);
    return at + len + 1;
}

static double number_after(const char *text, const char *words)
{
    const char *at = strstr(text, words);
    return at ? strtod(at + strlen(words), NULL) : -1;
}

/* What follows "waits for ". */
static void read_wait(struct seen *seen, const char *text)
{
    const char *held_by = strstr(text, ", held by t"), *object = strstr(text, " 0x");
    size_t len = strcspn(text, ",");
    if (object && object < text + len)
        len = (size_t)(object - text);
    else
        object = NULL;
    if (begins(text, "time for ")) {
        seen->left = strtod(text + strlen("time for "), NULL);
        len = strlen("time");
    }
    copy_text(seen->kind, KIND_SIZE, text, len);
    seen->object = object ? strtoull(object, NULL, 16) : 0;
    seen->holder = held_by ? strtoull(strstr(held_by, " 0x"), NULL, 16) : 0;
}

/* "t3 0x55d0 waits for time, deadline in 0.002 s" */
static void read_task_line(struct seen *seen, const char *text)
{
    static const char *const states[STATES] = {" is ready to run", " has not begun", " waits for ",
                                               " runs", " is a message between two workers"};
    char *rest;
    copy_text(seen->name, NAME_SIZE, text, strcspn(text, " "));
    seen->id = strtoull(strchr(text, ' '), &rest, 16);
    while (seen->state < STATES && !begins(rest, states[seen->state]))
        seen->state++;
    MUST(seen->state < STATES);
    seen->deadline = number_after(rest, ", deadline in ");
    if (seen->state == WAITING)
        read_wait(seen, rest + strlen(states[WAITING]));
}

/* A line of the stack of the task before it. */
static void read_stack_line(struct seen *seen, const char *text, bool *member)
{
    bool is_frame = *text == '#', is_member = begins(text, "- a member:");
    const char *future = is_frame ? strstr(text, ", a future of ") : NULL, *kind = text + 4;
    MUST(is_frame || is_member || begins(text, "spawned by "));
    if (*member)
        add_member(seen, future ? kind : NULL, future ? (size_t)(future - kind) : 0);
    seen->has_frame_kind |= future && begins(kind, "a task without a stack,");
    *member = is_member;
}

/* The task that is one level above `depth`, the last one; depth 0: there is none. */
static int parent_at(const struct dump *dump, const int *depths, int depth)
{
    for (int i = dump->count - 2; depth > 0 && i >= 0; i--)
        if (depths[i] == depth - 1)
            return i;
    MUST_BE(depth, 0);
    return -1;
}

static void read_text(struct dump *dump, const char *text)
{
    struct line line;
    int depths[TASKS_MOST], count;
    bool member = false, finding = false;
    const char *at = read_line(&line, text);
    MUST(sscanf(line.text, "coir %*[0-9.], process %*d: %d tasks; build id ", &count) == 1);
    while (*at) {
        at = read_line(&line, at);
        if (finding || begins(line.text, "finding: ")) {
            finding = true;
        } else if (line.indent == 0) {
            MUST(begins(line.text, "runtime ") && !strstr(line.text, "answer"));
        } else if (line.text[0] == 't' && strstr(line.text, " 0x")) {
            struct seen *seen = add(dump);
            read_task_line(seen, line.text);
            depths[dump->count - 1] = (int)line.indent / 2 - 1;
            seen->parent = parent_at(dump, depths, depths[dump->count - 1]);
        } else {
            MUST(dump->count);
            read_stack_line(&dump->seen[dump->count - 1], line.text, &member);
        }
    }
    MUST_BE(count, dump->count);
}

void dump_read(struct dump *dump, enum coir_dump_format format, const char *text)
{
    memset(dump, 0, sizeof *dump);
    if (format == COIR_DUMP_JSON)
        read_json(dump, text);
    else
        read_text(dump, text);
}

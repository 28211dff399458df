#include "task/place.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "sys/symbol.h"
#include "sys/unwind.h"
#include "task/runtime.h"

enum { FRAMES = 16, FIRST_FRAMES = 8, LINES = 4096 };

static bool begins(const char *line, const char *with)
{
    return strncmp(line, with, strlen(with)) == 0;
}

/* The function in a line "    #3 FUNCTION at FILE:LINE". */
static const char *function_in(const char *line)
{
    const char *number = strchr(line, '#');
    return number ? number + strcspn(number, " ") + 1 : line;
}

/* Whether a file, "../src/io/tcp.c:12", lies beside this one, in a folder that coir has too; or is
 * this one, where all of coir is one file. */
static bool is_own_file(const char *file)
{
    static const char own[] = __FILE__, tail[] = "task/place.c";
    static const char *const folders[] = {"loop/", "task/", "sync/", "io/", "web/", "tls/"};
    char prefix[sizeof own] = __FILE__;
    size_t len = sizeof own - 1, tail_len = sizeof tail - 1;
    bool is_alone = len < tail_len || strcmp(own + len - tail_len, tail) != 0;
    prefix[len = is_alone ? len : len - tail_len] = '\0';
    const char *at = strstr(file, prefix), *end = file + strcspn(file, "\n");
    if (!at || at > end || (at > file && at[-1] != '/')) /* the compiler's folder may come before */
        return false;
    for (size_t i = 0; !is_alone && i < ci_countof(folders); i++)
        if (begins(at + len, folders[i]))
            return true;
    return is_alone && at[len] == ':';
}

/* A static function has no prefix. */
bool ci_place_is_own(const char *function)
{
    static const char at[] = " at ";
    size_t len = strcspn(function, " \n");
    return begins(function, "coir_") || begins(function, "ci_") ||
           (begins(function + len, at) && is_own_file(function + len + sizeof at - 1));
}

bool ci_place_is_root(const char *function)
{
    return begins(function, "ci_context_entry ") || begins(function, "fiber_main ") ||
           begins(function, "generator_main ");
}

static bool has_file(const char *function)
{
    return begins(function + strcspn(function, " \n"), " at ");
}

void ci_place_search(struct ci_place_search *search, const char *function)
{
    bool own = ci_place_is_own(function);
    bool entry = begins(function, "coir_") || (has_file(function) && !own);
    bool certain = search->found >= 0 && search->own_files;
    search->over = certain || entry || ci_place_is_root(function);
    if (search->over && (certain || !entry))
        return;
    search->own_files = search->own_files || (own && has_file(function));
    if (own)
        search->found = -1;
    if (entry || (!own && search->found < 0 && *function != '?'))
        search->found = search->passed;
    search->passed++;
}

void ci_place_consider(struct ci_place *place, const char *function, int len)
{
    bool own = ci_place_is_own(function);
    if (own && place->seen < FIRST_FRAMES)
        place->len = 0;
    else if (!own && !place->len) {
        place->line = function;
        place->len = len;
    }
    place->seen++;
}

/* Leaves the text as it is where no function stands for the stack. */
static CI_NOINLINE void choose(const struct ci_traced *traced, char text[CI_PLACE_TEXT])
{
    char lines[LINES];
    struct ci_place place = {NULL, 0, 0};
    ci_symbol_write(traced, lines, sizeof lines);
    for (const char *line = lines, *end; (end = strchr(line, '\n')); line = end + 1) {
        const char *function = function_in(line);
        if (ci_place_is_root(function))
            break;
        ci_place_consider(&place, function, (int)(end - function));
    }
    if (place.len)
        snprintf(text, CI_PLACE_TEXT, "%.*s", place.len, place.line);
}

void ci_place_of_call(const void *address, char text[CI_PLACE_TEXT])
{
    struct ci_traced traced = {.count = 1, .frames = {(void *)(uintptr_t)address}};
    text[0] = '\0';
    if (address)
        choose(&traced, text);
}

/* The fiber whose wait the innermost future ends; NULL: the task has no stack. */
static const struct ci_fiber *fiber_of(const struct ci_task *task)
{
    const coir_future *future = task->runnable.inner;
    while (future && future != &task->end && future->kind != &ci_fiber_kind)
        future = future->caller;
    return future && future->kind == &ci_fiber_kind
               ? ci_container_of(future, const struct ci_fiber, back)
               : NULL;
}

void ci_place_of_task(const struct ci_task *task, char text[CI_PLACE_TEXT])
{
    const struct ci_fiber *fiber = fiber_of(task);
    const coir_future *root = task->root.fn ? NULL : task->root.arg;
    struct ci_traced traced = {.count = 1, .exact = true};
    text[0] = '\0';
    if (task->runnable.inner == &task->root.future)
        return; /* it has not begun */
    if (fiber) {
        struct ci_frame_tables tables;
        const struct ci_stacks *stacks = &task->worker->stacks;
        const char *bottom = ci_stack_bottom(stacks, fiber->context.sp);
        ci_frame_tables_list(&tables);
        traced.count = ci_unwind(&tables, &fiber->context, fiber->context.sp, bottom + stacks->size,
                                 traced.frames, FRAMES);
        choose(&traced, text);
    }
    if (*text || !(root || task->root.fn))
        return;
    traced.count = 1;
    traced.frames[0] =
        root ? (void *)(uintptr_t)root->kind->poll : (void *)(uintptr_t)task->root.fn;
    choose(&traced, text);
}

#include "task/left_open.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/character.h"
#include "sys/thread.h"
#include "task/place.h"
#include "task/scope.h"
#include "task/task.h"

struct left_open {
    const struct ci_task *task;
    const char *what;
    const void *opened_at; /* NULL: not known */
};

static const char *const words[] = {
    [CI_CANCEL_SCOPE_DEADLINE] = "the block of a deadline",
    [CI_CANCEL_SCOPE_SHIELD] = "the block of a shield",
    [CI_CANCEL_SCOPE_TASKS] = "a task scope",
};

/* On a thread of its own: names take more than a fiber's stack may have. */
static void *tell(void *arg)
{
    const struct left_open *left = arg;
    char spawned[CI_PLACE_TEXT], opened[CI_PLACE_TEXT], text[3 * CI_PLACE_TEXT];
    ci_place_of_call(left->task->spawned_at, spawned);
    ci_place_of_call(left->opened_at, opened);
    if (opened[0] == '0' || opened[0] == '?') /* no code: it was overwritten */
        opened[0] = '\0';
    int len = snprintf(
        text, sizeof text, "coir: task %s%s%s ended inside of %s%s%s: close it first",
        left->task->name ? left->task->name : "(without a name)", *spawned ? ", spawned by " : "",
        spawned, left->what, *opened ? ", opened by " : "", opened);
    ci_character_make_plain(text);
    size_t end = (size_t)len < sizeof text ? (size_t)len : sizeof text - 1;
    text[end] = '\n';
    ssize_t ignored CI_UNUSED = write(STDERR_FILENO, text, end + 1);
    return NULL;
}

/* The function that entered it has returned: it may have been overwritten, and is memory that ASan
 * lets nobody read. */
static CI_UNINSTRUMENTED struct left_open look_at(const struct ci_task *task)
{
    const struct ci_cancel_scope *at = task->runnable.cancel_scopes;
    struct left_open left = {task, "a scope, deadline or shield", NULL};
    if (at->runnable != &task->runnable || at->kind < CI_CANCEL_SCOPE_DEADLINE ||
        at->kind > CI_CANCEL_SCOPE_TASKS)
        return left;
    left.what = words[at->kind];
    if (at->kind == CI_CANCEL_SCOPE_TASKS)
        left.opened_at = ci_container_of(at, const struct ci_scope, cancel_scope)->opened_at;
    return left;
}

void ci_task_left_open(const struct ci_task *task)
{
    struct left_open left = look_at(task);
    struct ci_thread thread;
    if (ci_thread_start(&thread, tell, &left) == 0)
        ci_thread_join(&thread);
    ci_check(!task->runnable.cancel_scopes, "task.h 3");
    abort();
}

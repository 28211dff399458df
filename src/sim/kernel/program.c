/* The programs that simulated children execute. "child" does what its further arguments say, one
 * after another; "locked" must not be executed, "data" is no program, and no other file exists.
 *
 *   write FD N    writes N bytes, each the digit FD      sleep NS
 *   read          its input, to the end                  ignore SIGNAL
 *   count         exits with the bytes read, modulo 256  trap NS: exits so long after SIGTERM
 *   close FD                                             raise SIGNAL, to itself
 *   fork N        a process does the next N arguments,   leave: to a group of its own
 *                 and exits; this one skips them         exit CODE
 *
 * After the last one it exits with 0. Descriptors are as if they block. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/kernel/child.h"

struct ci_kstep {
    bool (*fn)(struct ci_kchild *child, const struct ci_kstep *step); /* false: not done yet */
    int64_t a, b;
};

/* ---- steps ---- */

static bool wake(struct ci_kwaiter *waiter, unsigned key)
{
    struct ci_kchild *child = ci_container_of(waiter, struct ci_kchild, waiter);
    ci_kwaiter_remove(waiter);
    ci_kchild_continue(child);
    (void)key;
    return true;
}

static bool wait_for(struct ci_kchild *child, struct ci_kfile *file)
{
    child->waiter = (struct ci_kwaiter){.wake = wake};
    ci_kwaiter_add(&child->waiter, file);
    return false;
}

static bool write_bytes(struct ci_kchild *child, const struct ci_kstep *step)
{
    char bytes[256];
    struct ci_kfile *file = child->files[step->a];
    ssize_t n = (ssize_t)sizeof bytes;
    memset(bytes, '0' + (int)step->a, sizeof bytes);
    while (file && n > 0 && (int64_t)child->done < step->b) {
        size_t left = (size_t)step->b - child->done,
               most = left < sizeof bytes ? left : sizeof bytes;
        struct iovec part = {bytes, ci_kone_in(16) ? 1 + (size_t)ci_kbelow(most) : most};
        n = file->type->write(file, &part, 1);
        child->done += n > 0 ? (size_t)n : 0;
    }
    if (n == -EAGAIN)
        return wait_for(child, file);
    if (n == -EPIPE)
        ci_kchild_signal(child, SIGPIPE);
    return true;
}

static bool read_bytes(struct ci_kchild *child, const struct ci_kstep *step)
{
    char bytes[256];
    struct ci_kfile *file = child->files[0];
    ssize_t n = 0;
    (void)step;
    while (file && (n = file->type->read(file, &(struct iovec){bytes, sizeof bytes}, 1)) > 0)
        child->bytes_read += (uint64_t)n;
    return n != -EAGAIN || wait_for(child, file);
}

static bool count_bytes(struct ci_kchild *child, const struct ci_kstep *step)
{
    (void)step;
    ci_kchild_end(child, (int)(child->bytes_read % 256));
    return true;
}

static bool close_file(struct ci_kchild *child, const struct ci_kstep *step)
{
    ci_kchild_close(child, (int)step->a);
    return true;
}

static bool fork_child(struct ci_kchild *child, const struct ci_kstep *step)
{
    struct ci_kchild *forked = ci_kchild_fork(child);
    int64_t left = child->end - step - 1, count = step->a < left ? step->a : left;
    forked->at = step + 1;
    forked->end = forked->at + count;
    child->at += count;
    ci_kchild_continue(forked);
    return true;
}

static void end_sleep(void *arg, size_t serial)
{
    struct ci_kchild *child = arg;
    if (child->serial == serial)
        ci_kchild_continue(child);
}

static bool sleep_for(struct ci_kchild *child, const struct ci_kstep *step)
{
    child->at++; /* also if a signal continues it earlier */
    ci_kschedule(ci_time_after(ci_know(), step->a), end_sleep, child, ++child->serial);
    return false;
}

static bool ignore_signal(struct ci_kchild *child, const struct ci_kstep *step)
{
    child->ignored |= (uint64_t)1 << step->a;
    return true;
}

static bool trap_term(struct ci_kchild *child, const struct ci_kstep *step)
{
    child->trap = step->a;
    return true;
}

static bool raise_signal(struct ci_kchild *child, const struct ci_kstep *step)
{
    ci_kchild_signal(child, (int)step->a);
    return true;
}

static bool leave_group(struct ci_kchild *child, const struct ci_kstep *step)
{
    (void)step;
    child->group = child->pid;
    return true;
}

static bool exit_with(struct ci_kchild *child, const struct ci_kstep *step)
{
    ci_kchild_end(child, (int)step->a);
    return true;
}

static const struct {
    const char *name;
    bool (*fn)(struct ci_kchild *child, const struct ci_kstep *step);
    int64_t a_most;
} verbs[] = {
    {"write", write_bytes, 2},     {"read", read_bytes, 0},        {"count", count_bytes, 0},
    {"close", close_file, 2},      {"fork", fork_child, INT_MAX},  {"sleep", sleep_for, INT64_MAX},
    {"ignore", ignore_signal, 63}, {"trap", trap_term, INT64_MAX}, {"raise", raise_signal, 63},
    {"leave", leave_group, 0},     {"exit", exit_with, 255},
};

/* ---- programs ---- */

static void read_step(struct ci_kstep *step, const char *text)
{
    size_t i = 0, len = strcspn(text, " ");
    char *rest;
    while (i < ci_countof(verbs) &&
           (strncmp(verbs[i].name, text, len) != 0 || verbs[i].name[len] != '\0'))
        i++;
    if (i == ci_countof(verbs))
        ci_kunknown(text);
    step->fn = verbs[i].fn;
    step->a = strtoll(text + len, &rest, 10);
    step->b = strtoll(rest, &rest, 10);
    if (*rest || step->a < 0 || step->a > verbs[i].a_most)
        ci_kunknown(text);
}

static void run(struct ci_kchild *child)
{
    while (child->state == CI_KCHILD_RUNS && !child->stopped && child->at < child->end) {
        const struct ci_kstep *step = child->at;
        if (!step->fn(child, step))
            return;
        child->at++;
        child->done = 0;
    }
    child->due = child->stopped;
    if (child->at == child->end && !child->stopped)
        ci_kchild_end(child, 0);
}

int ci_kprogram_read(struct ci_kchild *child, const char *file, const char *const *arguments)
{
    size_t count = 0;
    if (strcmp(file, "child") != 0)
        return strcmp(file, "locked") == 0 ? -EACCES
               : strcmp(file, "data") == 0 ? -ENOEXEC
                                           : -ENOENT;
    while (arguments[count])
        count++;
    child->steps = ci_kalloc(count * sizeof *child->steps);
    for (size_t i = 1; i < count; i++)
        read_step(&child->steps[i - 1], arguments[i]);
    child->run = run;
    child->at = child->steps;
    child->end = child->at + count - 1;
    return 0;
}

#include "frame.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL = 40, NUMBER = 16, TASKS_MOST = 400 };

/* ---- numbers ---- */

static const char *as_count(char *text, double n)
{
    if (n >= 1e6)
        snprintf(text, NUMBER, "%.1fM", n / 1e6);
    else if (n >= 1e4)
        snprintf(text, NUMBER, "%.1fk", n / 1e3);
    else
        snprintf(text, NUMBER, n == floor(n) || n >= 100 ? "%.0f" : "%.1f", n);
    return text;
}

static const char *as_time(char *text, double s)
{
    if (isnan(s))
        snprintf(text, NUMBER, "-");
    else if (s < 1e-6)
        snprintf(text, NUMBER, "%.0fns", s * 1e9);
    else if (s < 1e-3)
        snprintf(text, NUMBER, "%.1fus", s * 1e6);
    else if (s < 1)
        snprintf(text, NUMBER, "%.1fms", s * 1e3);
    else
        snprintf(text, NUMBER, "%.2fs", s);
    return text;
}

static const char *as_bytes(char *text, double bytes)
{
    if (bytes <= 0)
        snprintf(text, NUMBER, "-");
    else
        snprintf(text, NUMBER, "%.1fK", bytes / 1024);
    return text;
}

/* Without control characters: a terminal would obey what a server sends. */
static void write_plain(FILE *out, const char *text, int len)
{
    for (int i = 0; i < len; i++)
        fputc((unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i], out);
}

/* ---- the parts ---- */

static void write_head(FILE *out, const char *where, const struct metrics *before,
                       const struct metrics *now)
{
    char tasks[NUMBER], live[NUMBER], requests[NUMBER], refused[NUMBER];
    fprintf(out, "%s: %s tasks, %s connections, %s requests/s, %s errors/s\n", where,
            as_count(tasks, metrics_sum(now, "coir_tasks_live", NULL, NULL)),
            as_count(live, metrics_sum(now, "coir_http_connections_live", NULL, NULL)),
            as_count(requests, metrics_rate(before, now, "coir_http_requests_total", NULL, NULL)),
            as_count(refused, metrics_rate(before, now, "coir_http_errors_total", NULL, NULL)));
}

static void write_histogram(FILE *out, const char *what, const char *name,
                            const struct metrics *before, const struct metrics *now)
{
    char half[NUMBER], most[NUMBER];
    fprintf(out, "%-34s half below %8s   99%% below %8s\n", what,
            as_time(half, metrics_quantile(before, now, name, 0.5)),
            as_time(most, metrics_quantile(before, now, name, 0.99)));
}

static int write_workers(FILE *out, const struct metrics *before, const struct metrics *now)
{
    static const char *const rates[] = {"coir_resumes_total", "coir_driver_waits_total",
                                        "coir_sleeps_total", "coir_wakeups_total"};
    int lines = 1;
    fprintf(out, "%-8s %8s %8s %8s %9s %9s %9s %9s\n", "WORKER", "TASKS", "STACKS", "IN TURNS",
            "TURNS/s", "POLLS/s", "SLEEPS/s", "WOKEN/s");
    for (size_t i = 0; i < now->count; i++) {
        char worker[LABEL], text[NUMBER];
        const struct sample *sample = &now->samples[i];
        if (strcmp(sample->name, "coir_tasks_live") != 0 ||
            !sample_label(sample, "worker", worker, sizeof worker))
            continue;
        fprintf(out, "%-8s %8s", worker, as_count(text, sample->value));
        fprintf(out, " %8s",
                as_count(text, metrics_sum(now, "coir_stacks_live", "worker", worker)));
        fprintf(out, " %7.1f%%",
                100 * metrics_rate(before, now, "coir_turn_seconds_sum", "worker", worker));
        for (size_t j = 0; j < sizeof rates / sizeof *rates; j++)
            fprintf(out, " %9s",
                    as_count(text, metrics_rate(before, now, rates[j], "worker", worker)));
        fputc('\n', out);
        lines++;
    }
    return lines;
}

/* ---- tasks by name ---- */

struct row {
    char name[LABEL];
    double seconds; /* in turns, in a second */
};

static int by_time(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    int order = (x->seconds < y->seconds) - (x->seconds > y->seconds);
    return order ? order : strcmp(x->name, y->name);
}

static size_t find_rows(struct row *rows, const struct metrics *before, const struct metrics *now)
{
    size_t count = 0;
    for (size_t i = 0; i < now->count && count < TASKS_MOST; i++) {
        struct row *row = &rows[count];
        if (strcmp(now->samples[i].name, "coir_task_turns_total") != 0 ||
            !sample_label(&now->samples[i], "task", row->name, sizeof row->name))
            continue;
        row->seconds = metrics_rate(before, now, "coir_task_seconds_total", "task", row->name);
        count++;
    }
    qsort(rows, count, sizeof *rows, by_time);
    return count;
}

static void write_row(FILE *out, const struct row *row, const struct metrics *before,
                      const struct metrics *now)
{
    char turns[NUMBER], mean[NUMBER], longest[NUMBER], stack[NUMBER];
    double rate = metrics_rate(before, now, "coir_task_turns_total", "task", row->name);
    fprintf(out, "%-31s %9s %8.1f%% %9s %9s %9s\n", row->name, as_count(turns, rate),
            100 * row->seconds, as_time(mean, rate > 0 ? row->seconds / rate : NAN),
            as_time(longest, metrics_sum(now, "coir_task_turn_seconds_max", "task", row->name)),
            as_bytes(stack, metrics_sum(now, "coir_stack_used_bytes_max", "task", row->name)));
}

static void write_tasks(FILE *out, const struct metrics *before, const struct metrics *now,
                        int most)
{
    static struct row rows[TASKS_MOST];
    size_t count = find_rows(rows, before, now);
    fprintf(out, "%-31s %9s %9s %9s %9s %9s\n", "TASK", "TURNS/s", "IN TURNS", "MEAN", "LONGEST",
            "STACK");
    for (size_t i = 0; i < count && (int)i < most; i++)
        write_row(out, &rows[i], before, now);
    if (!count)
        fputs("(turns are measured while the flight recorder runs, or a trace is recorded)\n", out);
}

static void write_stacks(FILE *out, const struct metrics *now)
{
    char size[NUMBER], enough[NUMBER];
    double suggested = metrics_sum(now, "coir_stack_size_suggested_bytes", NULL, NULL);
    if (suggested > 0)
        fprintf(out, "stacks of %s; a stack_size of %s has room for twice what was used\n",
                as_bytes(size, metrics_sum(now, "coir_stack_size_bytes", NULL, NULL)),
                as_bytes(enough, suggested));
}

void frame_write(FILE *out, const char *where, const struct metrics *before,
                 const struct metrics *now, int rows)
{
    enum { OTHER_LINES = 8 };
    write_head(out, where, before, now);
    write_histogram(out, "woken by a task, to the turn:", "coir_scheduling_delay_seconds_bucket",
                    before, now);
    write_histogram(out, "length of turns:", "coir_turn_seconds_bucket", before, now);
    write_stacks(out, now);
    fputc('\n', out);
    int lines = write_workers(out, before, now);
    fputc('\n', out);
    write_tasks(out, before, now, rows - lines - OTHER_LINES);
}

void frame_write_text(FILE *out, const char *text, int rows, int columns)
{
    for (int row = 0; *text && row < rows; row++) {
        int len = (int)strcspn(text, "\n");
        int shown = (int)strcspn(text, "\r\n");
        write_plain(out, text, shown < columns ? shown : columns);
        fputc('\n', out);
        text += len + (text[len] == '\n');
    }
}

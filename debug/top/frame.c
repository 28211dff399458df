#include "frame.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL = 40, NUMBER = 16, TASKS_MOST = 400 };

static const struct span none = {NULL, 0};

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

/* How many bytes the character of UTF-8 at `text` has that a terminal shows; 0: it is a control
 * character, which a terminal would obey, or none. Those of U+0080 to U+009F are such, and as
 * bytes without UTF-8 too (0x9b begins commands). */
static size_t shown_len(const char *text, size_t left)
{
    const unsigned char *at = (const unsigned char *)text;
    if (at[0] < 0x80)
        return at[0] >= ' ' && at[0] != 0x7f;
    size_t len = at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;
    if (!len || left < len || (at[0] == 0xc2 && at[1] < 0xa0))
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

/* Returns how many characters it has written. */
static int write_plain(FILE *out, const char *text, size_t len)
{
    int count = 0;
    for (; len > 0; count++) {
        size_t shown = shown_len(text, len), step = shown ? shown : 1;
        fwrite(shown ? text : "?", 1, step, out);
        text += step, len -= step;
    }
    return count;
}

/* The value of a label, without its escapes, in a column of so many characters. */
static void write_label(FILE *out, struct span value, int width)
{
    char text[LABEL] = "";
    size_t len = 0;
    for (size_t i = 0; i < value.len && len < LABEL - 1; i++) {
        bool escaped = value.at[i] == '\\' && i + 1 < value.len;
        i += escaped;
        text[len++] = escaped && value.at[i] == 'n' ? '\n' : value.at[i];
    }
    int count = write_plain(out, text, len);
    fprintf(out, "%*s", width > count ? width - count : 0, "");
}

/* ---- the parts ---- */

static void write_head(FILE *out, const char *where, const struct metrics *before,
                       const struct metrics *now)
{
    char tasks[NUMBER], live[NUMBER], requests[NUMBER], refused[NUMBER];
    fprintf(out, "%s: %s tasks, %s connections, %s requests/s, %s errors/s\n", where,
            as_count(tasks, metrics_sum(now, "coir_tasks_live", NULL, none)),
            as_count(live, metrics_sum(now, "coir_http_connections_live", NULL, none)),
            as_count(requests, metrics_rate(before, now, "coir_http_requests_total", NULL, none)),
            as_count(refused, metrics_rate(before, now, "coir_http_errors_total", NULL, none)));
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
        char text[NUMBER];
        struct span worker;
        const struct sample *sample = &now->samples[i];
        if (strcmp(sample->name, "coir_tasks_live") != 0 ||
            !sample_label(sample, "worker", &worker))
            continue;
        write_label(out, worker, 8);
        fprintf(out, " %8s", as_count(text, sample->value));
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
    struct span name;
    double seconds; /* in turns, in a second */
};

static int by_time(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    int order = (x->seconds < y->seconds) - (x->seconds > y->seconds);
    size_t len = x->name.len < y->name.len ? x->name.len : y->name.len;
    if (order == 0)
        order = memcmp(x->name.at, y->name.at, len);
    return order ? order : (x->name.len > len) - (y->name.len > len);
}

static size_t find_rows(struct row *rows, const struct metrics *before, const struct metrics *now)
{
    size_t count = 0;
    for (size_t i = 0; i < now->count && count < TASKS_MOST; i++) {
        struct row *row = &rows[count];
        if (strcmp(now->samples[i].name, "coir_task_turns_total") != 0 ||
            !sample_label(&now->samples[i], "task", &row->name))
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
    write_label(out, row->name, 31);
    fprintf(out, " %9s %8.1f%% %9s %9s %9s\n", as_count(turns, rate), 100 * row->seconds,
            as_time(mean, rate > 0 ? row->seconds / rate : NAN),
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
    double suggested = metrics_sum(now, "coir_stack_size_suggested_bytes", NULL, none);
    if (suggested > 0)
        fprintf(out, "stacks of %s; a stack_size of %s has room for twice what was used\n",
                as_bytes(size, metrics_sum(now, "coir_stack_size_bytes", NULL, none)),
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
        size_t len = strcspn(text, "\n"), shown = strcspn(text, "\r\n");
        write_plain(out, text, shown < (size_t)columns ? shown : (size_t)columns);
        fputc('\n', out);
        text += len + (text[len] == '\n');
    }
}

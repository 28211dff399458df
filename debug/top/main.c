/* coir-top: what the tasks of a server do, in a terminal. It reads the routes of coir_route_debug
 * (coir/debug.h), and changes nothing. */
#include <coir.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frame.h"

static const char usage[] = "usage: coir-top [-1] [-t] [-s SECONDS] [-p PREFIX] [ADDRESS]\n"
                            "  ADDRESS     127.0.0.1:8080, or unix:PATH\n"
                            "  -1          prints one frame, and ends\n"
                            "  -t          begins with the tasks and their stacks (key t)\n"
                            "  -s SECONDS  between two frames (1)\n"
                            "  -p PREFIX   where the routes of coir_route_debug are (/debug/)\n"
                            "keys: t tasks and their stacks, or numbers; q the end\n";

enum { ANSWER_MOST = 64 << 20, FIRST_SIZE = 1 << 16, PREFIX_MOST = 200, ANSWER_SHOWN = 200 };
static const coir_time answer_timeout = 5 * COIR_S;

struct top {
    const char *address, *prefix;
    coir_time interval;
    bool once, shows_tasks;
    coir_terminal *terminal; /* NULL: the output is no terminal */
    int rows, columns;
    struct metrics before, now;
};

/* ---- asking ---- */

/* All that comes until the end, as a string: 0, and *ret_text is the caller's. */
static int read_all(coir_stream *stream, char **ret_text)
{
    size_t size = FIRST_SIZE, len = 0;
    ssize_t n = 1;
    char *text = malloc(size);
    while (text && n > 0 && size <= ANSWER_MOST) {
        if ((n = coir_read(stream, text + len, size - 1 - len)) <= 0)
            break;
        len += (size_t)n;
        if (len < size - 1)
            continue;
        char *more = realloc(text, size *= 2);
        if (!more)
            free(text);
        text = more;
    }
    if (!text)
        return -ENOMEM;
    text[len] = '\0';
    *ret_text = text;
    return n < 0 ? (int)n : n > 0 ? -EFBIG : 0;
}

/* The body of an answer with the status 200, in its own memory. */
static int take_body(char **text)
{
    const char *body = strstr(*text, "\r\n\r\n");
    if (!body || strncmp(*text, "HTTP/1.1 200 ", 13) != 0) {
        fputs("coir-top: the server answers: ", stderr);
        frame_write_text(stderr, *text, 1, ANSWER_SHOWN);
        return -EPROTO;
    }
    memmove(*text, body + 4, strlen(body + 4) + 1);
    return 0;
}

static int ask(const struct top *top, const char *what, char **ret_text)
{
    char question[500];
    coir_stream *stream;
    COIR_DEADLINE(coir_in(answer_timeout));
    int len = snprintf(question, sizeof question,
                       "GET %s%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                       top->prefix, what);
    int rc = coir_tcp_connect(top->address, &stream);
    if (rc < 0)
        return rc;
    *ret_text = NULL;
    rc = coir_write_all(stream, question, (size_t)len);
    if (rc == 0)
        rc = read_all(stream, ret_text);
    if (rc == 0)
        rc = take_body(ret_text);
    coir_close(stream);
    if (rc < 0)
        free(*ret_text);
    return rc;
}

static int look(struct top *top)
{
    char *text;
    struct metrics next;
    int rc = ask(top, "metrics", &text);
    if (rc == 0)
        rc = metrics_read(&next, text, coir_now());
    if (rc < 0)
        return rc;
    metrics_done(&top->before);
    top->before = top->now;
    top->now = next;
    return 0;
}

/* ---- showing ---- */

static void show_size(struct top *top)
{
    struct winsize size;
    if (top->terminal && coir_terminal_size(top->terminal, &size) == 0 && size.ws_row > 0) {
        top->rows = size.ws_row - 1;
        top->columns = size.ws_col;
    }
}

static int show_tasks(struct top *top)
{
    char *text;
    int rc = ask(top, "tasks?format=text", &text);
    if (rc < 0)
        return rc;
    frame_write_text(stdout, text, top->rows, top->columns);
    free(text);
    return 0;
}

static int show(struct top *top)
{
    int rc = 0;
    show_size(top);
    if (top->terminal)
        fputs("\033[H\033[2J", stdout);
    if (top->shows_tasks)
        rc = show_tasks(top);
    else
        frame_write(stdout, top->address, &top->before, &top->now, top->rows);
    fflush(stdout);
    return rc;
}

/* Until the next frame is due. 1: it is the end. */
static int wait_for_next(struct top *top)
{
    char key;
    if (!top->terminal)
        return coir_sleep_for(top->interval);
    coir_stream *keys = coir_terminal_stream(top->terminal);
    coir_case waits[] = {coir_case_after(top->interval), coir_case_stream(keys, COIR_READ)};
    int which = coir_select(waits, 2);
    if (which != 1)
        return which;
    ssize_t n = coir_read(keys, &key, 1);
    if (n <= 0 || key == 'q')
        return n < 0 ? (int)n : 1;
    top->shows_tasks ^= key == 't';
    return 0;
}

static int follow(struct top *top)
{
    int rc = look(top);
    if (rc == 0)
        rc = coir_sleep_for(top->once ? top->interval : 0);
    while (rc == 0 && (rc = look(top)) == 0 && (rc = show(top)) == 0 && !top->once)
        rc = wait_for_next(top);
    return rc < 0 ? rc : 0;
}

static int start(void *arg)
{
    struct top *top = arg;
    COIR_TERMINAL(terminal);
    if (!top->once && isatty(STDOUT_FILENO) && coir_terminal_open(terminal, STDIN_FILENO) == 0 &&
        coir_terminal_set_mode(terminal, COIR_TERMINAL_CBREAK) == 0)
        top->terminal = terminal;
    int rc = follow(top);
    metrics_done(&top->before);
    metrics_done(&top->now);
    if (rc < 0 && rc != -ECANCELED)
        fprintf(stderr, "coir-top: %s: %s\n", top->address,
                rc == -EFBIG ? "the server answers more than is read (64 MiB, 262,144 samples)"
                             : coir_strerror(rc));
    return rc;
}

/* ---- options ---- */

static int read_options(struct top *top, int argc, char **argv)
{
    char *end;
    for (int option; (option = getopt(argc, argv, "1ts:p:h")) != -1;)
        switch (option) {
        case '1': top->once = true; break;
        case 't': top->shows_tasks = true; break;
        case 'p':
            top->prefix = optarg;
            if (strlen(optarg) > PREFIX_MOST)
                return -EINVAL;
            break;
        case 's':
            top->interval = (coir_time)(strtod(optarg, &end) * 1e9);
            if (*end || end == optarg || top->interval <= 0)
                return -EINVAL;
            break;
        default: return -EINVAL;
        }
    if (optind < argc)
        top->address = argv[optind++];
    return optind == argc ? 0 : -EINVAL;
}

int main(int argc, char **argv)
{
    struct top top = {.address = "127.0.0.1:8080",
                      .prefix = "/debug/",
                      .interval = 1 * COIR_S,
                      .rows = 1 << 20,
                      .columns = 1 << 20};
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    if (read_options(&top, argc, argv) < 0) {
        fputs(usage, stderr);
        return 2;
    }
    config.workers = 1;
    config.stop_signals = true;
    int rc = coir_runtime_new(&config, &runtime);
    if (rc == 0)
        rc = coir_runtime_run(runtime, start, &top);
    coir_runtime_free(runtime);
    return rc < 0 && rc != -ECANCELED;
}

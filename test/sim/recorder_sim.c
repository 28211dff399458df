/* A program with the flight recorder (coir/recorder.h), on one to three workers: tasks ask for
 * files, keep their workers for long in one turn, answer requests slowly, and raise a fatal signal
 * that the program survives. Meanwhile the disk fails, or is full. Only over the simulated kernel,
 * which has its thread and files.
 *
 * What must hold:
 * 1. Each file that was promised is written, by the end of the recorder, or said to have failed,
 *    which it does only where the disk has; no other file is there.
 * 2. A file is refused only while another one is being written, for `interval_min` after it, or
 *    after files_max of them that did not fail; and no two follow each other sooner.
 * 3. A turn and a request that are much slower than the limit lead to a file, unless it is refused
 *    for the same reasons; none is written for what is quick.
 * 4. A file is a whole trace: the turns of a worker do not overlap, what asked for it is named in
 *    it, and so are the last turns before, where the ring has room.
 * 5. The first fatal signal has a file of its own, which names the task that has raised it.
 * 6. Without a recorder nothing is written, and a recorder and a trace refuse each other. */
#include <coir.h>
#include <coir/dir.h>
#include <coir/file.h>
#include <coir/recorder.h>
#include <coir/sim.h>
#include <coir/trace.h>
#include <coir/web.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum {
    WORKERS_MOST = 8,
    ASKS_MOST = 40,
    FILES_MOST = 60,
    TASKS = 4,
    STEPS_MOST = 6,
    NAME_SIZE = 100,
    REASON_SIZE = 64,
    LARGE_RING = 1 << 12,
    ROUNDS_MOST = 2
};
static const coir_time slack = 5 * COIR_MS; /* of what takes no time by itself */

/* What has asked for a file, at the end of it. */
struct ask {
    char reason[2 * REASON_SIZE], task[16];
    coir_time at;
    int rc; /* 1: nobody was told, as of what is slow */
};

/* What the log says of a file. */
struct logged {
    char name[NAME_SIZE], reason[REASON_SIZE];
    bool failed, read;
    coir_time at;
};

static struct {
    coir_sim *sim;
    coir_recorder_options options;
    bool disk_fails;
    bool crashed, recorded; /* a task raises a signal; there is a file of one */
    char crasher[16];
    struct ask asks[ASKS_MOST];
    struct logged files[FILES_MOST];
    int asked, logged;
    coir_handle serving;
} w;

/* ---- what is logged ---- */

static void copy(char *to, size_t size, const char *from, size_t len)
{
    MUST(len < size);
    memcpy(to, from, len);
    to[len] = '\0';
}

/* "NAME: REASON", or "NAME (REASON): ERROR". */
static void note_file(const char *text, bool failed)
{
    const char *end = strstr(text, failed ? " (" : ": "), *last = strrchr(text, ')');
    MUST(end && w.logged < FILES_MOST);
    MUST(!failed || last);
    struct logged *file = &w.files[w.logged++];
    *file = (struct logged){.failed = failed, .at = coir_now()};
    copy(file->name, NAME_SIZE, text, (size_t)(end - text));
    copy(file->reason, REASON_SIZE, end + 2, failed ? (size_t)(last - end) - 2 : strlen(end + 2));
    MUST(!failed || w.disk_fails); /* 1 */
}

static void hear(enum coir_log_level level, const char *line, void *arg)
{
    static const char written[] = "the flight recorder has written ",
                      failed[] = "the flight recorder cannot write ";
    (void)arg;
    if (level != COIR_LOG_WARNING)
        return;
    if (strncmp(line, written, sizeof written - 1) == 0)
        note_file(line + sizeof written - 1, false);
    else if (strncmp(line, failed, sizeof failed - 1) == 0)
        note_file(line + sizeof failed - 1, true);
}

/* ---- tasks ---- */

static coir_time moment(void)
{
    return (coir_time)below((uint64_t)(20 * COIR_MS) >> below(8));
}

static struct ask *add_ask(const char *reason, int rc)
{
    MUST(w.asked < ASKS_MOST);
    struct ask *ask = &w.asks[w.asked++];
    *ask = (struct ask){.at = coir_now(), .rc = rc};
    snprintf(ask->reason, sizeof ask->reason, "%s", reason);
    return ask;
}

/* Its last turns before are in the file by its name. */
static void ask_for_one(void)
{
    static const char filler[] = "and so on, until it is much longer than what a file keeps of it";
    static char names[ASKS_MOST][16];
    char reason[2 * REASON_SIZE];
    int number = w.asked;
    struct ask *ask = add_ask("", -EINPROGRESS);
    snprintf(ask->task, sizeof ask->task, "asker %d", number);
    memcpy(names[number], ask->task, sizeof ask->task);
    MUST_BE(coir_task_set_name(names[number]), 0);
    MUST_BE(coir_yield(), 0);
    MUST_BE(coir_yield(), 0);
    snprintf(reason, sizeof reason, "reason %d \"%s\"", number, below(2) ? filler : "");
    copy(ask->reason, sizeof ask->reason, reason, strlen(reason));
    ask->at = coir_now();
    ask->rc = coir_recorder_write(reason);
    MUST(ask->rc == 0 || ask->rc == -EAGAIN || ask->rc == -ENOSPC);
}

static int be_an_asker(void *arg)
{
    (void)arg;
    for (uint64_t steps = below(STEPS_MOST); steps; steps--) {
        MUST_BE(coir_sleep_for(moment()), 0);
        ask_for_one();
    }
    return 0;
}

static int be_slow(void *arg)
{
    (void)arg;
    for (uint64_t steps = below(STEPS_MOST / 2); steps; steps--) {
        MUST_BE(coir_sleep_for(moment()), 0);
        usleep((useconds_t)((w.options.slow_turn + slack) / COIR_US));
        coir_time at = coir_now();
        MUST_BE(coir_yield(), 0);
        if (w.options.slow_turn)
            add_ask("a slow turn", 1)->at = at;
    }
    return 0;
}

static int be_quick(void *arg)
{
    (void)arg;
    for (uint64_t steps = 20 * below(STEPS_MOST); steps; steps--)
        MUST_BE(below(8) ? coir_yield() : coir_sleep_for(moment()), 0);
    return 0;
}

static int crash(void *arg)
{
    MUST_BE(coir_sleep_for(moment()), 0);
    if (!w.crashed) {
        w.crashed = w.options.crash;
        if (w.options.crash)
            memcpy(w.crasher, arg, strlen(arg) + 1);
        MUST_BE(raise(SIGFPE), 0);
        w.recorded = w.options.crash;
    } else if (w.recorded) {
        MUST_BE(raise(SIGFPE), 0); /* not the first */
    }
    return 0;
}

/* ---- a server ---- */

static int answer(coir_request *req, coir_response *res, void *arg)
{
    coir_time limit = w.options.slow_request, lasts = below(2) ? limit + slack : moment();
    (void)req, (void)arg;
    int rc = coir_sleep_for(lasts);
    if (limit && lasts > limit)
        add_ask("a slow request", 1);
    return rc < 0 ? rc : coir_respond_text(res, 200, "here");
}

static int serve(void *arg)
{
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    coir_router *router;
    MUST_BE(coir_router_new(&router), 0);
    MUST_BE(coir_route(router, "GET", "/", answer, NULL), 0);
    options.listener = arg;
    int rc = coir_serve_http_with(&options, router);
    MUST(rc == 0 || rc == -ECANCELED);
    coir_router_free(router);
    return 0;
}

static void ask_server(void)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    char text[500];
    coir_stream *stream;
    size_t len = 0;
    ssize_t n;
    MUST_BE(coir_tcp_connect("127.0.0.1:80", &stream), 0);
    MUST_BE(coir_write_all(stream, request, sizeof request - 1), 0);
    while ((n = coir_read(stream, text + len, sizeof text - 1 - len)) > 0)
        len += (size_t)n;
    text[len] = '\0';
    MUST(n == 0 && strncmp(text, "HTTP/1.1 200", 12) == 0);
    coir_close(stream);
}

static int be_a_client(void *arg)
{
    coir_listener *listener;
    coir_go_options options = COIR_GO_OPTIONS;
    MUST_BE(coir_tcp_listen("127.0.0.1:80", &listener), 0);
    {
        COIR_SCOPE(scope);
        options.handle = &w.serving;
        MUST_BE(coir_go_with(scope, &options, serve, listener), 0);
        for (uint64_t steps = 1 + below(STEPS_MOST / 2); steps; steps--)
            ask_server();
        coir_cancel(&w.serving);
        MUST_BE(coir_join(&w.serving), 0);
        MUST_BE(coir_scope_wait(scope), 0);
    }
    coir_listener_close(listener);
    (void)arg;
    return 0;
}

/* ---- when files may be refused ---- */

/* With the one that is being written, whether or not it fails. */
static bool is_full(coir_time at)
{
    size_t written = 0;
    bool writes = false;
    for (int i = 0; i < w.logged; i++) {
        written += !w.files[i].failed && w.files[i].at <= at + slack;
        writes = writes || w.files[i].at >= at - slack;
    }
    return written + writes >= w.options.files_max;
}

/* Another one was being written at a time, or ended shortly before. */
static bool was_busy(coir_time at)
{
    for (int i = 0; i < w.logged; i++)
        if (at <= w.files[i].at + w.options.interval_min + slack && w.files[i].at <= at + slack)
            return true;
    return false;
}

static const struct logged *find_logged(const char *reason, coir_time at)
{
    for (int i = 0; i < w.logged; i++)
        if (strncmp(w.files[i].reason, reason, REASON_SIZE - 1) == 0 && w.files[i].at >= at - slack)
            return &w.files[i];
    return NULL;
}

static void check_asks(void)
{
    size_t promised = 0, written = 0;
    for (int i = 0; i < w.asked; i++) {
        const struct ask *ask = &w.asks[i];
        promised += ask->rc == 0;
        if (ask->rc == 0)
            MUST(find_logged(ask->reason, ask->at)); /* 1 */
        else if (ask->rc == -ENOSPC)
            MUST(is_full(ask->at)); /* 2 */
        else
            MUST(was_busy(ask->at) || (ask->rc == 1 && is_full(ask->at))); /* 2, 3 */
    }
    for (int i = 0; i < w.logged; i++) {
        const char *reason = w.files[i].reason;
        bool slow = strncmp(reason, "a slow ", 7) == 0;
        promised += slow;
        written += !w.files[i].failed;
        MUST(!slow || (strcmp(reason, "a slow turn") == 0 ? w.options.slow_turn
                                                          : w.options.slow_request)); /* 3 */
        MUST(!i || w.files[i].at >= w.files[i - 1].at + w.options.interval_min);      /* 2 */
    }
    MUST_BE(promised, (size_t)w.logged);
    MUST(written <= w.options.files_max);
}

/* ---- what is in a file ---- */

static double number(const char *line, const char *key)
{
    const char *at = strstr(line, key);
    MUST(at);
    return at ? strtod(at + strlen(key), NULL) : 0;
}

/* The longest turn, in nanoseconds. */
static double read_turns(char *text)
{
    double ended[WORKERS_MOST] = {0}, longest = 0;
    char *line = strstr(text, "[\n");
    MUST(strncmp(text, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", 40) == 0 && line);
    for (line += 2; *line == '{';) {
        char *end = strchr(line, '\n');
        MUST(end && (end[-1] == '}' || (end[-1] == ',' && end[-2] == '}')));
        *end = '\0';
        int worker = (int)number(line, "\"tid\":");
        MUST(worker >= 0 && worker < WORKERS_MOST);
        if (strncmp(line, "{\"ph\":\"X\"", 9) == 0) {
            double begins = number(line, "\"ts\":"), lasts = number(line, "\"dur\":");
            MUST(begins >= ended[worker] - 0.01 && lasts >= 0);
            ended[worker] = begins + lasts;
            longest = lasts > longest ? lasts : longest;
        }
        *end = '\n';
        line = end + 1;
    }
    MUST_BE(strcmp(line, "]}\n"), 0);
    return longest * 1e3;
}

/* The event that says why there is a file. */
static void check_note(const char *text, const char *reason, const char *task)
{
    char key[3 * REASON_SIZE] = "\"s\":\"g\",\"name\":\"";
    for (size_t len = strlen(key); *reason; reason++)
        len += (size_t)snprintf(key + len, sizeof key - len, *reason == '"' ? "\\u0022" : "%c",
                                *reason);
    const char *note = strstr(text, key);
    MUST(note && note == strstr(text, "\"s\":\"g\",\"name\":\""));
    if (!note)
        return;
    note += strlen(key);
    snprintf(key, sizeof key, "\",\"args\":{\"task\":\"%s\"}}", task);
    MUST_BE(strncmp(note, key, strlen(key)), 0);
}

static char *read_all(const char *name)
{
    static char text[1 << 22];
    coir_file *file;
    int64_t size;
    MUST_BE(coir_file_open(name, O_RDONLY, 0, &file), 0);
    MUST_BE(coir_file_size(file, &size), 0);
    MUST(size < (int64_t)sizeof text);
    MUST_BE(coir_file_read_full(file, text, (size_t)size, 0, NULL), size);
    text[size] = '\0';
    coir_file_close(file);
    return text;
}

static const struct ask *asked_for(const struct logged *file)
{
    for (int i = 0; i < w.asked; i++)
        if (w.asks[i].rc == 0 && strncmp(w.asks[i].reason, file->reason, REASON_SIZE - 1) == 0)
            return &w.asks[i];
    return NULL;
}

static void check_file(const struct logged *file)
{
    char *text = read_all(file->name), key[40];
    double longest = read_turns(text);
    bool whole = w.options.events_max >= LARGE_RING;
    const struct ask *ask = asked_for(file);
    check_note(text, file->reason, "");
    if (whole && strcmp(file->reason, "a slow turn") == 0)
        MUST(longest >= (double)w.options.slow_turn);
    if (whole && ask) {
        snprintf(key, sizeof key, "\"name\":\"%s\"", ask->task);
        MUST(strstr(text, key));
    }
}

/* Of a fatal signal: nothing else logs it. Without it, what was begun and failed may be there. */
static void check_unlogged(const char *name)
{
    if (w.disk_fails)
        return;
    MUST(w.crasher[0]);
    char *text = read_all(name);
    read_turns(text);
    check_note(text, "SIGFPE", w.crasher);
    w.crasher[0] = '\0';
}

static void check_files(void)
{
    coir_listing *listing;
    coir_dir_entry entry = COIR_DIR_ENTRY;
    MUST_BE(coir_listing_open(NULL, "/", &listing), 0);
    while (coir_listing_next(listing, &entry) > 0) {
        char name[NAME_SIZE];
        struct logged *logged = NULL;
        copy(name, sizeof name, entry.name, strlen(entry.name));
        if (strncmp(name, "flight.1001.", 12) != 0)
            continue;
        for (int i = 0; i < w.logged && !logged; i++)
            if (strcmp(w.files[i].name, name) == 0)
                logged = &w.files[i];
        if (!logged)
            check_unlogged(name);
        else if (!logged->failed)
            check_file(logged);
        if (logged)
            logged->read = true;
        MUST_BE(coir_dir_unlink(NULL, name), 0);
    }
    coir_listing_close(listing);
    for (int i = 0; i < w.logged; i++)
        MUST(w.files[i].read || w.files[i].failed); /* 1 */
    MUST(w.disk_fails || !w.crasher[0]);            /* 5 */
    w.crasher[0] = '\0';
}

/* ---- all of it ---- */

static void draw_options(void)
{
    static const size_t rings[] = {1, 100, LARGE_RING, LARGE_RING};
    coir_recorder_options options = COIR_RECORDER_OPTIONS;
    options.events_max = rings[below(4)];
    options.path = "flight";
    options.crash = below(2);
    options.slow_turn = below(2) ? (coir_time)(10 + below(40)) * COIR_MS : 0;
    options.slow_request = below(2) ? (coir_time)(10 + below(40)) * COIR_MS : 0;
    options.files_max = below(3) ? 1 + below(4) : COIR_UNLIMITED;
    options.interval_min = (coir_time)(1 + (below(30 * COIR_MS) >> below(20)));
    w.options = options;
}

static void run_tasks(void)
{
    static coir_task_fn *const fns[] = {be_an_asker, be_slow, be_quick, crash};
    static char names[TASKS][16];
    coir_go_options options = COIR_GO_OPTIONS;
    COIR_SCOPE(scope);
    options.place = COIR_ANYWHERE;
    for (int i = 0; i < TASKS; i++) {
        snprintf(names[i], sizeof names[i], "task %d", i);
        options.name = names[i];
        MUST_BE(coir_go_with(scope, &options, fns[below(4)], names[i]), 0);
    }
    if (below(4) == 0)
        MUST_BE(coir_go(scope, be_a_client, NULL), 0);
    MUST_BE(coir_scope_wait(scope), 0);
}

static void check_without(void)
{
    MUST_BE(coir_recorder_write("nothing"), -ENOENT);
    MUST_BE(coir_recorder_stop(), 0);
    MUST_BE(coir_trace_start(0), 0);
    MUST_BE(coir_recorder_start_with(&w.options), -EBUSY);
    MUST_BE(coir_trace_stop(), 0);
}

static void record_once(void)
{
    coir_faults faults = {.disk_error = some(0.3), .disk_full = some(0.3), .disk_short = some(0.3)};
    w.asked = w.logged = 0;
    draw_options();
    MUST_BE(coir_recorder_start_with(&w.options), 0);
    MUST_BE(coir_recorder_start(), -EBUSY);
    MUST_BE(coir_trace_start(0), -EBUSY);
    w.disk_fails = faults.disk_error > 0 || faults.disk_full > 0;
    coir_sim_faults(w.sim, NULL, faults);
    run_tasks();
    MUST_BE(coir_recorder_stop(), 0);
    coir_sim_faults(w.sim, NULL, (coir_faults){0});
    check_asks();
    check_files();
}

static int play(void *arg)
{
    (void)arg;
    draw_options();
    if (below(2))
        check_without();
    for (uint64_t rounds = 1 + below(ROUNDS_MOST); rounds; rounds--)
        record_once();
    check_without();
    if (below(2)) /* which ends with the runtime */
        MUST_BE(coir_recorder_start_with(&w.options), 0);
    return 0;
}

int scenario(coir_sim *sim)
{
    coir_config config = COIR_CONFIG;
    if (!posix_has_kernel())
        return -ENOTSUP;
    memset(&w, 0, sizeof w);
    w.sim = sim;
    config.log = hear;
    MUST_BE(coir_sim_configure(sim, &config), 0);
    return coir_sim_host_main(sim, "host", play, NULL);
}

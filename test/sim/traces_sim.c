/* Tracing and metrics of random programs: tasks of all workers, with and without stacks, sleep,
 * yield, talk over channels and connections, take locks and offload calls, while they are traced,
 * in rings of many sizes. Traces are written to a pipe that is read slowly, also while the program
 * goes on.
 *
 * What must hold:
 * 1. A trace is what its format says: of a worker no turn begins before the one before it has
 * ended, what ends has begun, an arrow has both of its ends, and nothing lies in the future.
 * 2. Where the ring was large enough, the turns of a task's name are those that its tasks know of,
 *    in the trace and in the metrics alike.
 * 3. The metrics add up: what a program has started, what lives, and each histogram's buckets. A
 *    text that is too long for its room is cut, and its length told.
 * 4. Each wait for a lock that has a name is counted, and timed.
 * 5. A turn goes by the name that its task had when it began, also where there are more names than
 *    the metrics keep apart.
 * 6. Probes that are attached and detached meanwhile change nothing of this. */
#include <coir.h>
#include <coir/metrics.h>
#include <coir/sim.h>
#include <coir/trace.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum {
    RENAMED_FEW = 3,
    RENAMED_MOST = 90,
    RENAMED_SIZE = 24,
    TASKS = 10,
    STEPS_MOST = 12,
    TEXT_MOST = 4 << 20,
    OPEN_MOST = 256,
    WORKERS_MOST = 8
};
enum kind { SLEEPER, TALKER, LOCKER, CALLER, WRITER, FRAME, KINDS };
static const char *const names[] = {"a sleeper", "a talker",     "a locker",
                                    "a caller",  "a \"writer\"", "a frame"};

struct frame {
    coir_future future;
    coir_sleep_op pause;
    uint64_t steps;
    bool has_name;
};

static struct {
    coir_channel *channel;
    coir_mutex mutex;
    struct frame frames[TASKS];
    int sleepers_turns, spawned, listeners, framed, unnamed_turns;
    int renamed; /* how often a task has taken a new name */
    /* side by side: metrics look for a name by its address first, and find room for all of these */
    char kind_names[KINDS][RENAMED_SIZE], new_names[RENAMED_MOST][RENAMED_SIZE];
    int locked, waited; /* at least: tasks that found the lock taken, on one worker */
    bool held, lock_has_name;
    coir_time traced_from;
    bool over, measures_stacks;
    bool whole; /* nothing is overwritten */
} w;

static char trace_text[TEXT_MOST + 1]; /* not a part of w, which is cleared for each seed */

static coir_time moment(void)
{
    return 1 + (coir_time)below(below(2) ? 20 * COIR_US : 2 * COIR_MS);
}

/* ---- the program ---- */

/* Each sleep and each yield ends a turn. */
static int be_a_sleeper(void *arg)
{
    (void)arg;
    for (uint64_t steps = below(STEPS_MOST); steps; steps--) {
        MUST_BE(below(3) ? coir_sleep_for(moment()) : coir_yield(), 0);
        w.sleepers_turns++;
    }
    w.sleepers_turns++;
    return 0;
}

/* Each of its turns but the first has a name of its own. */
static int be_renamed(void *arg)
{
    int most = *(const int *)arg;
    while (w.renamed < most) {
        char *name = w.new_names[w.renamed++];
        snprintf(name, RENAMED_SIZE, "renamed %d", w.renamed - 1);
        MUST_BE(coir_task_set_name(name), 0);
        MUST(coir_task_name() == name);
        MUST_BE(coir_yield(), 0);
    }
    return 0;
}

static int be_a_talker(void *arg)
{
    for (uint64_t steps = below(STEPS_MOST); steps; steps--) {
        int item = 1;
        COIR_DEADLINE(coir_in(moment()));
        int rc = arg ? coir_channel_send(w.channel, &item) : coir_channel_recv(w.channel, &item);
        MUST(rc == 0 || rc == -ETIME);
    }
    return 0;
}

static int be_a_locker(void *arg)
{
    (void)arg;
    for (uint64_t steps = below(STEPS_MOST); steps; steps--) {
        w.locked++;
        w.waited += w.held && coir_worker_count(coir_runtime_current()) == 1;
        MUST_BE(coir_mutex_lock(&w.mutex), 0);
        w.held = true;
        MUST_BE(coir_sleep_for(moment()), 0);
        w.held = false;
        coir_mutex_unlock(&w.mutex);
    }
    return 0;
}

static int count_call(void *arg)
{
    (void)arg;
    return 7;
}

static int be_a_caller(void *arg)
{
    (void)arg;
    for (uint64_t steps = below(STEPS_MOST / 2); steps; steps--)
        MUST_BE(coir_offload(count_call, NULL), 7);
    return 0;
}

static int send_bytes(void *arg)
{
    coir_stream *stream;
    MUST_BE(coir_tcp_connect(arg, &stream), 0);
    for (uint64_t steps = 1 + below(STEPS_MOST); steps; steps--) {
        MUST_BE(coir_write_all(stream, "x", 1), 0);
        MUST_BE(coir_sleep_for(moment()), 0);
    }
    coir_close(stream);
    return 0;
}

static int be_a_writer(void *arg)
{
    coir_listener *listener;
    coir_stream *stream;
    char address[40], byte;
    (void)arg;
    snprintf(address, sizeof address, "127.0.0.1:%d", 1000 + w.listeners++);
    MUST_BE(coir_tcp_listen(address, &listener), 0);
    {
        COIR_SCOPE(scope);
        MUST_BE(coir_go(scope, send_bytes, address), 0);
        w.spawned++;
        MUST_BE(coir_accept(listener, &stream), 0);
        while (coir_read(stream, &byte, 1) > 0)
            continue;
        coir_close(stream);
        MUST_BE(coir_scope_wait(scope), 0);
    }
    coir_listener_close(listener);
    return 0;
}

/* Each poll is a turn, which goes by the kind of the future where the task has no name. */
static coir_future *frame_poll(coir_future *future)
{
    struct frame *self = coir_frame(future, struct frame);
    w.unnamed_turns += !self->has_name;
    COIR_BEGIN(future);
    for (; self->steps; self->steps--) {
        COIR_AWAIT(future, coir_sleep_until_op(&self->pause, coir_in(moment())));
        MUST_BE(self->pause.future.result, 0);
    }
    COIR_RETURN(future, 0);
    COIR_END(future);
}

static const coir_future_kind frame_kind = COIR_FUTURE_KIND("one without a name", frame_poll, NULL);

static int spawn_frame(coir_scope *scope, coir_go_options *options)
{
    struct frame *frame = &w.frames[w.framed++];
    *frame = (struct frame){.steps = below(STEPS_MOST), .has_name = below(2)};
    if (!frame->has_name)
        options->name = NULL;
    return coir_go_future_with(scope, options, coir_future_init(&frame->future, &frame_kind));
}

static void spawn(coir_scope *scope, int workers)
{
    static coir_task_fn *const fns[] = {be_a_sleeper, be_a_talker, be_a_locker, be_a_caller,
                                        be_a_writer};
    coir_go_options options = COIR_GO_OPTIONS;
    enum kind kind = (enum kind)below(KINDS);
    options.name = w.kind_names[kind];
    options.place = below(3) ? COIR_ON_WORKER((int)below((uint64_t)workers)) : COIR_ANYWHERE;
    int rc = kind == FRAME ? spawn_frame(scope, &options)
                           : coir_go_with(scope, &options, fns[kind], below(2) ? &w : NULL);
    MUST_BE(rc, 0);
    w.spawned++;
}

/* ---- what a trace says ---- */

struct open {
    char id[80];
    int count;
};

struct read_trace {
    double ended[WORKERS_MOST]; /* the last turn, in microseconds */
    struct open open[OPEN_MOST];
    size_t opened;
    int turns[KINDS], unnamed_turns, lines, renamed[RENAMED_MOST];
    double least, most;
    uint64_t arrow;
};

/* The text behind a key; NULL: there is none. */
static const char *value(const char *line, const char *key)
{
    const char *at = strstr(line, key);
    return at ? at + strlen(key) : NULL;
}

static double number(const char *line, const char *key)
{
    const char *at = value(line, key);
    MUST(at);
    return at ? strtod(at, NULL) : 0;
}

static void read_turn(struct read_trace *trace, const char *line, int worker)
{
    double begins = number(line, "\"ts\":"), lasts = number(line, "\"dur\":");
    MUST(begins >= trace->ended[worker] - 0.01 && lasts >= 0);
    MUST(value(line, "\"then\":\""));
    trace->ended[worker] = begins + lasts;
    trace->unnamed_turns += value(line, "\"name\":\"one without a name\"") != NULL;
    const char *renamed = value(line, "\"name\":\"renamed ");
    if (renamed) {
        int which = atoi(renamed);
        MUST(which >= 0 && which < w.renamed);
        trace->renamed[which]++;
    }
    for (int kind = 0; kind < KINDS; kind++) {
        char key[60];
        const char *rest = names[kind];
        int len = snprintf(key, sizeof key, "\"name\":\"");
        for (; *rest; rest++)
            len += snprintf(key + len, sizeof key - (size_t)len, *rest == '"' ? "\\u0022" : "%c",
                            *rest);
        trace->turns[kind] += value(line, key) != NULL;
    }
}

static struct open *find_open(struct read_trace *trace, const char *line)
{
    char id[80], *end;
    const char *from = value(line, "\"cat\":");
    MUST(from && strstr(from, ",\"args\""));
    snprintf(id, sizeof id, "%.60s", from);
    if ((end = strstr(id, ",\"name\"")))
        *end = '\0';
    for (size_t i = 0; i < trace->opened; i++)
        if (strcmp(trace->open[i].id, id) == 0)
            return &trace->open[i];
    MUST(trace->opened < OPEN_MOST);
    struct open *open = &trace->open[trace->opened++];
    memcpy(open->id, id, sizeof id);
    open->count = 0;
    return open;
}

static void read_event(struct read_trace *trace, const char *line)
{
    char phase = line[7];
    int worker = (int)number(line, "\"tid\":");
    double at = number(line, "\"ts\":");
    MUST(worker >= 0 && worker < WORKERS_MOST);
    MUST(phase == 'M' || (at >= trace->least - 1 && at <= trace->most + 1));
    trace->lines++;
    switch (phase) {
    case 'X': read_turn(trace, line, worker); break;
    case 'b': MUST(find_open(trace, line)->count++ >= 0); break;
    case 'e': find_open(trace, line)->count--; break;
    case 's': MUST((uint64_t)number(line, "\"id\":") == ++trace->arrow); break;
    case 'f': MUST((uint64_t)number(line, "\"id\":") == trace->arrow); break;
    case 'i':
    case 'M': break;
    default: MUST(false);
    }
}

static void read_trace(struct read_trace *trace, char *text)
{
    char *line = strstr(text, "[\n");
    MUST(strncmp(text, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", 40) == 0 && line);
    MUST(strlen(text) > 4 && strcmp(text + strlen(text) - 4, "\n]}\n") == 0);
    for (line += 2; *line == '{';) {
        char *end = strchr(line, '\n');
        *end = '\0';
        MUST(end[-1] == '}' || (end[-1] == ',' && end[-2] == '}'));
        MUST(strncmp(line, "{\"ph\":\"", 7) == 0);
        read_event(trace, line);
        line = end + 1;
    }
    MUST_BE(strcmp(line, "]}\n"), 0);
    for (size_t i = 0; i < trace->opened; i++)
        MUST(trace->open[i].count >= 0);
}

/* ---- writing one, through a pipe ---- */

struct written {
    int ends[2];
    size_t len;
    bool slowly;
};

static int read_pipe(void *arg)
{
    struct written *written = arg;
    ssize_t n = 1;
    while (n) {
        MUST(written->len < TEXT_MOST);
        MUST(coir_fd_wait(written->ends[0], COIR_READ) > 0);
        n = read(written->ends[0], trace_text + written->len,
                 written->slowly ? 1 + below(3000) : TEXT_MOST - written->len);
        MUST(n >= 0);
        written->len += (size_t)n;
        if (written->slowly && below(4) == 0)
            MUST_BE(coir_sleep_for(moment()), 0);
    }
    trace_text[written->len] = '\0';
    return 0;
}

static void write_trace(struct read_trace *trace)
{
    struct written written = {.slowly = below(2)};
    MUST_BE(pipe2(written.ends, 0), 0);
    {
        COIR_SCOPE(scope);
        MUST_BE(coir_go(scope, read_pipe, &written), 0);
        w.spawned++;
        MUST_BE(coir_trace_write(written.ends[1]), 0);
        close(written.ends[1]);
        MUST_BE(coir_scope_wait(scope), 0);
    }
    close(written.ends[0]);
    memset(trace, 0, sizeof *trace);
    trace->least = (double)w.traced_from / 1e3;
    trace->most = (double)coir_now() / 1e3;
    read_trace(trace, trace_text);
}

/* ---- metrics ---- */

/* Otherwise some are counted together, under another one. */
static bool names_fit(void)
{
    return w.renamed <= RENAMED_FEW;
}

/* The sum of all values of a metric whose labels have `label`; -1: there is none. */
static double sum_of(const char *text, const char *name, const char *label)
{
    double sum = -1;
    size_t len = strlen(name);
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        if (strncmp(line, name, len) != 0 || (line[len] != '{' && line[len] != ' '))
            continue;
        const char *end = strchr(line, '\n'), *space = end;
        if (!memmem(line, (size_t)(end - line), label, strlen(label)))
            continue;
        while (space[-1] != ' ')
            space--;
        sum = (sum < 0 ? 0 : sum) + strtod(space, NULL);
    }
    return sum;
}

static const char *metrics(void)
{
    static char text[1 << 18];
    int64_t len = coir_metrics_text(coir_runtime_current(), text, sizeof text);
    MUST(len > 0 && (size_t)len < sizeof text && (size_t)len == strlen(text));
    return text;
}

/* All who waited for the lock have got it. */
static void check_lock(const char *text)
{
    double waits = sum_of(text, "coir_lock_waits_total", "\"the lock\"");
    if (!w.lock_has_name)
        MUST(waits < 0);
    else
        MUST(waits >= w.waited && waits <= w.locked);
    MUST_BE(sum_of(text, "coir_lock_wait_seconds_count", "\"the lock\""), waits);
    MUST_BE(sum_of(text, "coir_lock_wait_seconds_bucket", "\"the lock\",le=\"+Inf\""), waits);
}

static const char *check_metrics(bool traced)
{
    static const char *const histograms[] = {"coir_turn_seconds", "coir_scheduling_delay_seconds",
                                             "coir_poll_delay_seconds"};
    const char *text = metrics();
    MUST(sum_of(text, "coir_tasks_started_total", "") > w.spawned);
    MUST_BE(sum_of(text, "coir_tasks_live", ""), 1);
    MUST_BE(sum_of(text, "coir_offload_queued", ""), 0);
    MUST(sum_of(text, "coir_offload_threads", "busy") >= 0); /* one may be about to be idle */
    MUST_BE(sum_of(text, "coir_task_errors_total", ""), 0);
    check_lock(text);
    double stack = sum_of(text, "coir_stack_size_bytes", ""),
           used = sum_of(text, "coir_stack_used_bytes_max", "\"a sleeper\"");
    bool measured = w.measures_stacks && traced && w.sleepers_turns;
    MUST(measured && !names_fit() ? used < stack : measured ? used > 0 && used < stack : used < 0);
    for (int i = 0; i < 3 && traced; i++) {
        char bucket[60], count[60];
        snprintf(bucket, sizeof bucket, "%s_bucket", histograms[i]);
        snprintf(count, sizeof count, "%s_count", histograms[i]);
        MUST_BE(sum_of(text, bucket, "+Inf"), sum_of(text, count, ""));
    }
    return text;
}

/* At any time, on any worker: cut where there is less room. */
static int look_at_metrics(void *arg)
{
    static char text[100000];
    (void)arg;
    while (!w.over) {
        size_t room = below(2) ? below(5000) : sizeof text;
        int64_t len = coir_metrics_text(coir_runtime_current(), text, room);
        MUST(len > 1000);
        if (room)
            MUST_BE(strlen(text), (size_t)len < room ? (size_t)len : room - 1);
        MUST_BE(coir_sleep_for(4 * COIR_MS + moment()), 0); /* a text takes long to make */
    }
    return 0;
}

/* ---- probes ---- */

/* Counts as the kernel does, which attaches to them; NULL: this coir was built without. */
extern volatile unsigned short ci_probe_listeners __attribute__((weak));

static void attach(int change)
{
    if (&ci_probe_listeners)
        ci_probe_listeners = (unsigned short)(ci_probe_listeners + change);
}

static int be_a_prober(void *arg)
{
    (void)arg;
    while (!w.over) {
        attach(1);
        MUST_BE(coir_sleep_for(moment()), 0);
        attach(-1);
        MUST_BE(coir_sleep_for(COIR_MS + moment()), 0);
    }
    return 0;
}

/* Workers trace for them alone. */
static void probe_without_trace(void)
{
    attach(1);
    for (uint64_t steps = below(STEPS_MOST); steps; steps--)
        MUST_BE(coir_sleep_for(moment()), 0);
    if (below(2)) { /* which replaces that */
        MUST_BE(coir_trace_start(1 << below(10)), 0);
        MUST_BE(coir_sleep_for(moment()), 0);
        MUST_BE(coir_trace_stop(), 0);
    }
    attach(-1);
    for (uint64_t steps = below(3); steps; steps--)
        MUST_BE(coir_sleep_for(moment()), 0);
    MUST_BE(coir_trace_stop(), 0);
}

/* ---- all of it ---- */

static void run_program(void)
{
    int workers = (int)coir_worker_count(coir_runtime_current());
    COIR_SCOPE(watchers);
    if (below(2)) {
        MUST_BE(coir_go_on(watchers, (int)below((uint64_t)workers), look_at_metrics, NULL), 0);
        w.spawned++;
    }
    if (below(3) == 0) {
        MUST_BE(coir_go_anywhere(watchers, be_a_prober, NULL), 0);
        w.spawned++;
    }
    {
        static int names_most;
        COIR_SCOPE(scope);
        if (below(2)) {
            names_most = below(4) ? RENAMED_FEW : RENAMED_MOST;
            MUST_BE(coir_go(scope, be_renamed, &names_most), 0);
            w.spawned++;
        }
        for (int i = 0; i < TASKS; i++) {
            spawn(scope, workers);
            if (below(3) == 0)
                MUST_BE(coir_sleep_for(moment()), 0);
        }
        static struct read_trace meanwhile;
        if (below(2))
            write_trace(&meanwhile);
        MUST_BE(coir_scope_wait(scope), 0);
    }
    w.over = true;
    MUST_BE(coir_scope_wait(watchers), 0);
}

static void check_names(const struct read_trace *trace, const char *text)
{
    double sleeps = sum_of(text, "coir_task_turns_total", "task=\"a sleeper\"");
    if (names_fit())
        MUST_BE(sleeps < 0 ? 0 : sleeps, w.sleepers_turns);
    if (!w.whole)
        return;
    MUST_BE(trace->turns[SLEEPER], w.sleepers_turns);
    MUST_BE(trace->unnamed_turns, w.unnamed_turns);
    for (int i = 0; i < w.renamed; i++)
        MUST_BE(trace->renamed[i], 1);
    for (int kind = 0; kind < KINDS; kind++) {
        double turns = sum_of(text, "coir_task_turns_total",
                              kind == WRITER ? "a \\\"writer\\\"" : names[kind]);
        if (names_fit())
            MUST_BE(trace->turns[kind], turns < 0 ? 0 : turns);
    }
}

static int play(void *arg)
{
    static const size_t rings[] = {16, 100, 1000, 1 << 15, 1 << 15};
    static struct read_trace trace;
    size_t ring = rings[below(5)];
    (void)arg;
    w.whole = ring == 1 << 15;
    MUST_BE(coir_channel_new(sizeof(int), below(3), &w.channel), 0);
    if ((w.lock_has_name = below(2)))
        MUST_BE(coir_mutex_set_name(&w.mutex, "the lock"), 0);
    MUST_BE(coir_trace_write(1), -ENOENT);
    check_metrics(false);
    w.traced_from = coir_now();
    MUST_BE(coir_trace_start(ring), 0);
    MUST_BE(coir_trace_start(0), -EBUSY);
    run_program();
    MUST_BE(coir_trace_stop(), 0);
    const char *text = check_metrics(true);
    write_trace(&trace);
    check_names(&trace, text);
    if (below(2))
        probe_without_trace();
    coir_channel_free(w.channel);
    return 0;
}

int scenario(coir_sim *sim)
{
    static const coir_mutex plain = COIR_MUTEX_INIT, fair = COIR_FAIR_MUTEX_INIT;
    coir_config config = COIR_CONFIG;
    if (!posix_has_kernel())
        return -ENOTSUP;
    memset(&w, 0, sizeof w);
    for (int kind = 0; kind < KINDS; kind++)
        snprintf(w.kind_names[kind], RENAMED_SIZE, "%s", names[kind]);
    attach(&ci_probe_listeners ? -(int)ci_probe_listeners : 0);
    w.mutex = below(2) ? plain : fair;
    config.stack_use = w.measures_stacks = below(2);
    MUST_BE(coir_sim_configure(sim, &config), 0);
    coir_sim_faults(sim, NULL, (coir_faults){.late = some(0.5)});
    return coir_sim_host_main(sim, "host", play, NULL);
}

/* Tasks that spawn children, talk to them, and leave them in every way, while descriptors and
 * memory run out. What a child does is drawn too (src/sim/kernel/program.c): it writes more than
 * its pipe holds, closes its output early, ignores SIGTERM, dies by a signal, starts others that
 * keep its output open. Only over the simulated kernel, which has processes.
 *
 * What must hold:
 * 1. A program that cannot be executed is the caller's error; nothing else is.
 * 2. The exit and the end of each output are seen each by itself, once, as the child made them,
 * with every byte. What keeps an output open does not hold the exit up.
 * 3. A process that is left has ended with all of its group after its time of grace.
 * 4. A task that waits for a process which another one closes gets its exit, or -ECANCELED.
 * 5. What a child on a terminal prints comes, then the end; when its pty is closed, it ends.
 * 6. A child has the standard streams that it was given: what the program itself has, one
 *    descriptor of it, or its output for its errors too.
 * 7. A wait for the hang-up of an output is no read: it goes on beside those.
 * 8. Each child's SIGCHLD is told to who has the signal open; who waits for all children himself
 *    takes nothing from the others but the exit code.
 * No zombie and no descriptor is left: the audit of the host looks for them. */
#include <coir.h>
#include <coir/process.h>
#include <coir/signal.h>
#include <coir/sim.h>
#include <coir/terminal.h>
#include <errno.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { PARENTS_MOST = 4, CHILDREN_MOST = 3, STEPS_MOST = 24, STEP = 32, BYTES_MOST = 200000 };
static const coir_time patience = 1 * COIR_S;

static struct {
    coir_sim *sim;
    coir_host *host;
    bool reaps_all;
    unsigned spawned, told;
} w;

/* ---- what a child does ---- */

enum { NOT_WAITED = 1 << 20, WAITS };

struct child {
    char steps[STEPS_MOST][STEP];
    const char *arguments[STEPS_MOST + 2], *file;
    int count;
    int refused; /* the error of its execution, or 0 */
    int status;  /* of its exit, if it ends by itself */
    bool on_terminal, forks;
    coir_fd terminal; /* open in the parent, too; negative: it is not */
    bool heeds;       /* all of its group end when they are asked to */
    bool exits, ends[3], open[3];
    size_t bytes[3]; /* of each output; what is written to its input */
    coir_process_options options;
    coir_process *process;
    int rival; /* what another task that waits for it gets */
};

static void step(struct child *child, const char *verb, int64_t a, int64_t b)
{
    snprintf(child->steps[child->count], STEP, "%s %lld %lld", verb, (long long)a, (long long)b);
    child->arguments[1 + child->count] = child->steps[child->count];
    child->count++;
}

static void write_some(struct child *child, int fd, bool is_open)
{
    size_t len = below(BYTES_MOST) >> below(18);
    step(child, "write", fd, (int64_t)len);
    child->bytes[fd] += is_open ? len : 0;
}

/* Of one that stays, the outputs that it has do not end. */
static void plan_grandchild(struct child *child)
{
    bool stays = below(3) == 0, leaves = below(4) == 0;
    int count = child->count;
    child->forks = true;
    step(child, "fork", 0, 0);
    if (below(2)) {
        step(child, "ignore", 15, 0);
        child->heeds &= leaves;
    }
    if (leaves)
        step(child, "leave", 0, 0);
    if (!child->options.share_group && stays)
        step(child, "sleep", 100 * COIR_S, 0);
    else
        step(child, "sleep", (int64_t)below((uint64_t)COIR_S), 0);
    for (int fd = 1; fd < 3; fd++)
        child->ends[fd] &= !child->open[fd] || !stays || child->options.share_group;
    if (below(2))
        write_some(child, 1, child->open[1]);
    snprintf(child->steps[count], STEP, "fork %d", child->count - count - 1);
}

static void plan_end(struct child *child)
{
    child->exits = true;
    switch (below(5)) {
    case 0:
        step(child, "raise", 9, 0);
        child->status = COIR_PROCESS_KILLED + 9;
        break;
    case 1:
        if (below(2))
            step(child, "raise", 19, 0); /* SIGSTOP */
        step(child, "sleep", 100 * COIR_S, 0);
        child->exits = false;
        for (int fd = 1; fd < 3; fd++)
            child->ends[fd] &= !child->open[fd];
        break;
    case 2:
        if (child->options.in == COIR_STDIO_PIPE) {
            child->bytes[0] = below(BYTES_MOST);
            step(child, "read", 0, 0);
            step(child, "count", 0, 0);
            child->status = (int)(child->bytes[0] % 256);
            break;
        } /* fall through */
    default: child->status = (int)below(256); step(child, "exit", child->status, 0);
    }
}

static void plan(struct child *child)
{
    static const struct {
        const char *file;
        int error;
    } refused[] = {{"locked", -EACCES}, {"data", -ENOEXEC}, {"none", -ENOENT}};
    *child = (struct child){
        .options = COIR_PROCESS_OPTIONS, .rival = NOT_WAITED, .file = "child", .terminal = -1};
    coir_process_options *options = &child->options;
    options->in = below(2) ? COIR_STDIO_PIPE : COIR_STDIO_NULL;
    options->out = options->err = COIR_STDIO_PIPE;
    options->share_group = below(8) == 0;
    child->on_terminal = !options->share_group && below(6) == 0;
    if (child->on_terminal)
        options->in = options->out = options->err = COIR_STDIO_INHERIT;
    options->grace = 1 + (coir_time)below(2 * COIR_S);
    for (int fd = 1; fd < 3; fd++)
        child->open[fd] = child->ends[fd] = true;
    child->arguments[0] = child->file;
    if (below(8) == 0) {
        size_t which = below(3);
        child->arguments[0] = refused[which].file;
        child->refused = refused[which].error;
    }
    child->heeds = below(2);
    if (child->heeds)
        options->grace = 10 * COIR_S;
    else if (below(2))
        step(child, "ignore", 15, 0);
    else
        step(child, "trap", (int64_t)below(3 * COIR_S), 0);
    for (uint64_t steps = below(5); steps && child->count + 8 < STEPS_MOST; steps--) {
        int fd = 1 + (int)below(2);
        switch (below(5)) {
        case 0:
            step(child, "close", fd, 0);
            child->open[fd] = false;
            break;
        case 1: plan_grandchild(child); break;
        case 2: step(child, "sleep", (int64_t)below((uint64_t)COIR_S), 0); break;
        default: write_some(child, fd, child->open[fd]);
        }
    }
    plan_end(child);
}

/* ---- who uses it ---- */

static void rest_a_while(void)
{
    (void)coir_sleep_for((coir_time)below((uint64_t)COIR_MS >> below(12)));
}

static bool is_shortage(int64_t rc)
{
    return rc == -ENOMEM || rc == -EAGAIN || rc == -EMFILE || rc == -ENFILE;
}

/* Of memory, or of watches of the kernel. */
static bool is_transient(int64_t rc)
{
    return rc == -ENOMEM || rc == -ENOSPC;
}

static ssize_t feed_some(coir_stream *in, size_t len)
{
    static char bytes[4096];
    struct iovec pieces[2] = {{bytes, len / 3}, {bytes + len / 3, len - len / 3}};
    return below(2) ? coir_write(in, bytes, len) : coir_writev(in, pieces, 2);
}

/* The end of the stream is its close, or comes before that. */
static int feed(void *arg)
{
    struct child *child = arg;
    coir_stream *in = coir_process_stdin(child->process);
    ssize_t n = 1;
    char byte;
    for (size_t left = child->bytes[0]; left && (n > 0 || is_transient(n));
         left -= n > 0 ? (size_t)n : 0)
        n = feed_some(in, left < 4096 ? left : 4096);
    MUST(n > 0 || n == -EPIPE || n == -ECANCELED || is_transient(n));
    MUST(coir_try_read(in, &byte, 1) < 0);
    if (below(2)) {
        MUST_BE(coir_shutdown_write(in), 0);
        MUST_BE(coir_try_write(in, &byte, 1), -EPIPE);
        rest_a_while();
    }
    coir_close(in);
    return 0;
}

static int wait_too(void *arg)
{
    struct child *child = arg;
    child->rival = WAITS;
    child->rival = coir_process_wait(child->process);
    return 0;
}

static void take_output(const struct child *child, int fd, size_t *got, bool *ended)
{
    char bytes[4096];
    coir_stream *stream =
        fd == 1 ? coir_process_stdout(child->process) : coir_process_stderr(child->process);
    struct iovec pieces[2] = {{bytes, 100}, {bytes + 100, sizeof bytes - 100}};
    ssize_t n = below(2) ? coir_read(stream, bytes, sizeof bytes) : coir_readv(stream, pieces, 2);
    MUST(n >= 0 || is_transient(n));
    for (ssize_t i = 0; i < n; i++)
        MUST_BE(bytes[i], '0' + fd);
    *got += n > 0 ? (size_t)n : 0;
    *ended = n == 0;
    MUST(*got <= child->bytes[fd] || !child->ends[fd]);
    MUST(!*ended || child->ends[fd]);
}

/* Waits for what the child does until all of it is seen, or for `most`. */
static void watch(const struct child *child, coir_time most)
{
    coir_time until = coir_in(most);
    size_t got[3] = {0};
    bool exited = false, ended[3] = {true, false, false};
    coir_stream *out = coir_process_stdout(child->process),
                *err = coir_process_stderr(child->process);
    while (coir_now() < until && ((child->exits && !exited) || (child->ends[1] && !ended[1]) ||
                                  (child->ends[2] && !ended[2]))) {
        coir_case waits[4] = {coir_case_after(until - coir_now())};
        int what[4], count = 1;
        if (!exited) {
            what[count] = 0;
            waits[count++] = coir_case_process(child->process);
        }
        for (int fd = 1; fd < 3; fd++)
            if (!ended[fd]) {
                what[count] = fd;
                waits[count++] = coir_case_stream(fd == 1 ? out : err, COIR_READ);
            }
        int which = coir_select(waits, (size_t)count);
        MUST(which >= 0);
        int64_t result = waits[which].result;
        if (which == 0 || is_transient(result))
            continue;
        if (what[which]) {
            MUST(result >= 0);
            take_output(child, what[which], &got[what[which]], &ended[what[which]]);
        } else {
            exited = true;
            MUST(result == -ECHILD ? w.reaps_all : child->exits && result == child->status);
            MUST_BE(coir_process_wait(child->process), result);
        }
    }
    for (int fd = 1; fd < 3; fd++)
        MUST(!ended[fd] || got[fd] == child->bytes[fd]);
    MUST(most < 30 * COIR_S ||
         (exited == child->exits && ended[1] == child->ends[1] && ended[2] == child->ends[2]));
}

static void use(struct child *child)
{
    coir_time most = below(2) ? 60 * COIR_S : (coir_time)below((uint64_t)COIR_S >> below(12));
    COIR_SCOPE(feeder);
    while (coir_process_stdin(child->process) && coir_go(feeder, feed, child) == -ENOMEM)
        coir_sleep_for(COIR_MS);
    watch(child, most);
    if (below(8) == 0) {
        int rc = below(2) ? coir_process_kill(child->process)
                          : coir_process_signal(child->process, SIGTERM);
        MUST(rc == 0 || rc == -ESRCH);
    }
    coir_scope_cancel(feeder);
    MUST_BE(coir_scope_wait(feeder), 0);
}

static int wait_for_exit(const struct child *child)
{
    int rc;
    while (is_transient(rc = coir_process_wait(child->process)))
        coir_sleep_for(COIR_MS);
    MUST(rc >= 0 || (w.reaps_all && rc == -ECHILD));
    return rc;
}

/* The terminal is hung up when the child has ended, whatever else has had it open since then. */
static void read_terminal(const struct child *child, const coir_pty *pty)
{
    char bytes[4096];
    size_t got = 0, written = child->bytes[1] + child->bytes[2];
    ssize_t n;
    {
        COIR_DEADLINE(coir_in(20 * COIR_S));
        while ((n = coir_read(coir_pty_stream(pty), bytes, sizeof bytes)) > 0 || is_transient(n))
            got += n > 0 ? (size_t)n : 0;
    }
    MUST_BE(n, child->exits ? 0 : -ETIME);
    MUST(got <= written && (child->forks || got == written));
    if (child->exits) {
        int rc = wait_for_exit(child);
        MUST(rc == child->status || rc == -ECHILD);
    }
}

static void use_terminal(const struct child *child, coir_pty *pty)
{
    enum { HANG_UP = 1 };
    if (below(2))
        MUST_BE(coir_pty_set_size(pty, &(struct winsize){.ws_row = 50, .ws_col = 132}), 0);
    if (below(2)) {
        read_terminal(child, pty);
        return;
    }
    coir_sleep_for((coir_time)below((uint64_t)COIR_S >> below(12)));
    coir_pty_close(pty);
    int rc = wait_for_exit(child);
    MUST(rc < 0 || rc == COIR_PROCESS_KILLED + HANG_UP || (child->exits && rc == child->status));
}

/* A process is often left just when it ends. */
static void wait_with_rival(const struct child *child)
{
    char bytes[4096];
    ssize_t n = 1;
    COIR_DEADLINE(coir_in((coir_time)below((uint64_t)COIR_S)));
    while (child->rival == NOT_WAITED)
        coir_yield();
    while (n > 0)
        n = coir_read(coir_process_stdout(child->process), bytes, sizeof bytes);
    if (below(2))
        coir_sleep_for((coir_time)below((uint64_t)COIR_MS >> below(12)));
}

/* Before the child can end: a terminal that is opened after its hang-up is a new one. */
static bool open_pty(struct child *child, coir_pty *pty)
{
    if (coir_pty_open(pty, NULL) < 0)
        return false;
    if (below(4) == 0) {
        child->terminal = coir_pty_open_terminal(pty);
        MUST(child->terminal >= 0 || is_shortage(child->terminal));
    }
    return true;
}

/* In a frame that is gone, and overwritten, when the rival continues. */
__attribute__((noinline)) static void spawn_and_leave(struct child *child, coir_scope *rivals)
{
    coir_time left;
    {
        COIR_PTY(pty);
        COIR_PROCESS(process);
        if (child->on_terminal && !open_pty(child, pty))
            return;
        child->options.terminal = child->on_terminal ? pty : NULL;
        child->process = process;
        int rc = coir_process_spawn_with(process, child->arguments, &child->options);
        MUST(rc == child->refused || is_shortage(rc));
        if (rc < 0)
            return;
        w.spawned++;
        MUST(coir_process_pid(process) > 0);
        if (child->on_terminal)
            use_terminal(child, pty);
        else if (below(4))
            use(child);
        else if (coir_go(rivals, wait_too, child) == 0)
            wait_with_rival(child);
        left = coir_now();
    }
    MUST(coir_now() <= left + (child->heeds ? 0 : child->options.grace) + patience);
}

__attribute__((noinline)) static void overwrite_frame(void)
{
    volatile char bytes[1024];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = 0x55;
}

/* ---- standard streams ---- */

static int wait_for(coir_process *process)
{
    int rc;
    while (is_transient(rc = coir_process_wait(process)))
        coir_sleep_for(COIR_MS);
    return rc;
}

/* Of one that has what the program has. */
static void spawn_plainly(void)
{
    static const char *const arguments[] = {"child", "exit 7 0", NULL};
    COIR_PROCESS(process);
    int rc = coir_process_spawn(process, arguments);
    MUST(rc == 0 || is_shortage(rc));
    MUST(!coir_process_stdin(process) && !coir_process_stdout(process) &&
         !coir_process_stderr(process));
    if (rc < 0)
        return;
    w.spawned++;
    rc = wait_for(process);
    MUST(rc == 7 || (rc == -ECHILD && w.reaps_all));
}

static int wait_for_hang_up(void *stream)
{
    int rc = coir_stream_wait(stream, 0);
    MUST((rc > 0 && rc & COIR_HANGUP) || rc == -ECANCELED || is_transient(rc)); /* 7 */
    return 0;
}

/* Its errors go where its output does, in their order; its input is a pipe of the program's. */
static void spawn_with_streams(void)
{
    char steps[4][STEP], bytes[4096];
    size_t given = below(1000), out = below(3000), err = below(3000), got = 0;
    const char *arguments[] = {"child", steps[0], steps[1], steps[2], steps[3], NULL};
    coir_process_options options = COIR_PROCESS_OPTIONS;
    int ends[2];
    ssize_t n;
    if (pipe2(ends, 0) < 0)
        return;
    snprintf(steps[0], STEP, "write 1 %zu", out);
    snprintf(steps[1], STEP, "write 2 %zu", err);
    snprintf(steps[2], STEP, "read 0 0");
    snprintf(steps[3], STEP, "count 0 0");
    options.in = COIR_STDIO_FD(ends[0]);
    options.out = COIR_STDIO_PIPE;
    options.err = COIR_STDIO_OUT;
    COIR_PROCESS(process);
    int rc = coir_process_spawn_with(process, arguments, &options);
    close(ends[0]);
    MUST(rc == 0 || is_shortage(rc));
    if (rc == 0) {
        w.spawned++;
        MUST_BE(write(ends[1], bytes, given), given);
    }
    close(ends[1]);
    if (rc < 0)
        return;
    MUST(!coir_process_stdin(process) && !coir_process_stderr(process));
    COIR_SERVING_SCOPE(beside);
    if (below(2) && coir_go(beside, wait_for_hang_up, coir_process_stdout(process)) == 0)
        rest_a_while();
    while ((n = coir_read(coir_process_stdout(process), bytes, sizeof bytes)) > 0 ||
           is_transient(n))
        for (ssize_t i = 0; i < n; i++)
            MUST_BE(bytes[i], got++ < out ? '1' : '2');
    MUST_BE(n, 0);
    MUST_BE(got, out + err);
    coir_scope_cancel(beside);
    coir_scope_wait(beside);
    rc = wait_for(process);
    MUST(rc == (int)(given % 256) || (rc == -ECHILD && w.reaps_all));
}

static int be_parent(void *arg)
{
    struct child child;
    (void)arg;
    for (uint64_t children = 1 + below(CHILDREN_MOST); children; children--) {
        switch (below(6)) {
        case 0: spawn_plainly(); break;
        case 1: spawn_with_streams(); break;
        default: break;
        }
        plan(&child);
        COIR_SCOPE(rivals);
        spawn_and_leave(&child, rivals);
        if (child.terminal >= 0)
            close(child.terminal);
        overwrite_frame();
        MUST_BE(coir_scope_wait(rivals), 0);
        MUST(child.rival == NOT_WAITED || child.rival == -ECANCELED || is_transient(child.rival) ||
             (child.exits && child.rival == child.status) ||
             (w.reaps_all && child.rival == -ECHILD));
    }
    return 0;
}

/* ---- SIGCHLD ---- */

static int take_signals(void *arg)
{
    int rc;
    while ((rc = coir_signals_wait(arg)) == SIGCHLD || is_transient(rc)) {
        w.told += rc == SIGCHLD;
        while (w.reaps_all && posix_wait_for_any() > 0)
            continue;
    }
    return 0;
}

static void drain(coir_signals *signals)
{
    COIR_DEADLINE(coir_in(COIR_MS));
    take_signals(signals);
    MUST(w.told >= w.spawned);
}

/* ---- the scenario ---- */

static int play(void *arg)
{
    static const int numbers[] = {SIGCHLD};
    coir_signals *signals = NULL;
    (void)arg;
    if (below(2))
        MUST_BE(coir_signals_open(numbers, 1, &signals), 0);
    w.reaps_all = signals && below(2);
    if (below(2))
        coir_sim_faults(
            w.sim, w.host,
            (coir_faults){.no_memory = some(0.1), .no_descriptor = some(0.2), .late = some(0.5)});
    {
        COIR_SERVING_SCOPE(all);
        COIR_SERVING_SCOPE(parents); /* one may lack memory for its stack */
        if (signals)
            (void)coir_go(all, take_signals, signals);
        int workers = (int)coir_worker_count(coir_runtime_current());
        for (uint64_t i = 1 + below(PARENTS_MOST); i; i--)
            (void)coir_go_on(parents, (int)below((uint64_t)workers), be_parent, NULL);
        MUST_BE(coir_scope_wait(parents), 0);
        coir_scope_cancel(all);
    }
    coir_sim_faults(w.sim, w.host, (coir_faults){0});
    if (signals)
        drain(signals);
    coir_signals_close(signals);
    return 0;
}

int scenario(coir_sim *sim)
{
    if (!posix_has_kernel())
        return -ENOTSUP;
    memset(&w, 0, sizeof w);
    w.sim = sim;
    return chaos_run_alone(sim, play, &w.host);
}

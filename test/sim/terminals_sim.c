/* A program on a terminal, and the window that it is in, on different workers: keys, output, modes,
 * and sizes that change, also several times at once, while tasks wait for them in every way. In the
 * end the window is closed. Only over the simulated kernel, which has terminals.
 *
 * What must hold:
 * 1. Keys come in their order, and so does what is printed; each byte once.
 * 2. A new size is told soon to who waits for one, and none is told twice.
 * 3. One coir_terminal at a time has set the mode; when it is closed, another one may.
 * 4. One task at a time waits for the size.
 * 5. When the window is closed, reads end, and all else fails. */
#include <coir.h>
#include <coir/sim.h>
#include <coir/terminal.h>
#include <errno.h>
#include <string.h>

#include "sim/bytes.h"
#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { KEYS_MOST = 3000, PRINTED_MOST = 9000, PIECE_MOST = 700 };
enum { BURSTS = 40, BURST_MOST = 3, SIZES_MOST = 6 + BURSTS * BURST_MOST };
enum { KEYS, PRINTED }; /* what bytes.h tells apart */
/* soon: who waits for a size waits for longer */
static const coir_time patience = 20 * COIR_S, soon = 100 * COIR_MS;

static struct {
    coir_sim *sim;
    coir_host *host;
    coir_pty *pty;
    coir_terminal *terminal;
    size_t keys, typed, read, print, printed, seen;
    unsigned short set, told; /* the newest size's number */
    bool was_told[SIZES_MOST + 1];
    unsigned rivals;      /* how often a second task has come for the size, or has left */
    bool closing, closed; /* the window: is closed now, or is already; it is */
} w;

static void rest(void)
{
    MUST_BE(coir_sleep_for((coir_time)below((uint64_t)(5 * COIR_MS) >> below(12))), 0);
}

/* ---- the window ---- */

/* SIGCONT tells a program in the background, which hears of no size. */
static void resize(void)
{
    struct winsize size = {.ws_row = ++w.set, .ws_col = (unsigned short)below(200)};
    MUST_BE(coir_pty_set_size(w.pty, &size), 0);
    MUST_BE(raise(below(4) ? SIGWINCH : SIGCONT), 0);
}

static int type_all(void *arg)
{
    char keys[PIECE_MOST];
    for (ssize_t n; w.typed < w.keys; w.typed += (size_t)n) {
        size_t len = 1 + below(w.keys - w.typed < sizeof keys ? w.keys - w.typed : sizeof keys);
        bytes_make(keys, KEYS, w.typed, len);
        MUST((n = coir_write(coir_pty_stream(w.pty), keys, len)) > 0);
        if (below(3) == 0)
            rest();
    }
    (void)arg;
    return 0;
}

static int resize_often(void *arg)
{
    for (uint64_t sizes = below(6); sizes; sizes--) {
        resize();
        if (below(2))
            rest();
    }
    (void)arg;
    return 0;
}

static int look(void *arg)
{
    char bytes[PIECE_MOST];
    while (w.seen < w.print) {
        ssize_t n = coir_read(coir_pty_stream(w.pty), bytes, 1 + below(sizeof bytes));
        MUST(n > 0 && bytes_are(bytes, PRINTED, w.seen, (size_t)n));
        w.seen += (size_t)n;
        if (below(6) == 0)
            rest();
    }
    (void)arg;
    return 0;
}

/* Sizes in quick succession, while the one before is being told; the last must be told soon. */
static void resize_at_once(void)
{
    for (uint64_t sizes = 1 + below(BURST_MOST); sizes; sizes--)
        resize();
    for (coir_time newest = coir_now(); w.told < w.set;) { /* 2 */
        MUST_BE(coir_sleep_for(10 * COIR_US), 0);
        MUST(coir_now() < newest + soon);
    }
}

/* Everything comes to its end but the window. */
static void use_window(void)
{
    COIR_DEADLINE(coir_in(patience));
    COIR_SCOPE(scope);
    MUST_BE(coir_go(scope, type_all, NULL), 0);
    MUST_BE(coir_go(scope, look, NULL), 0);
    MUST_BE(coir_go(scope, resize_often, NULL), 0);
    MUST_BE(coir_scope_wait(scope), 0);
    for (int i = 0; i < BURSTS; i++)
        resize_at_once();
    while (w.read < w.keys)
        MUST_BE(coir_sleep_for(COIR_MS), 0);
}

/* ---- the program ---- */

static int read_keys(void *arg)
{
    char keys[PIECE_MOST];
    ssize_t n;
    while ((n = coir_read(coir_terminal_stream(w.terminal), keys, 1 + below(sizeof keys))) > 0) {
        MUST(bytes_are(keys, KEYS, w.read, (size_t)n));
        w.read += (size_t)n;
        if (below(6) == 0)
            rest();
    }
    MUST_BE(n, 0);
    MUST(w.closing && w.read == w.keys);
    (void)arg;
    return 0;
}

static int print_all(void *arg)
{
    char bytes[PIECE_MOST];
    coir_stream *stream = coir_terminal_stream(w.terminal);
    for (ssize_t n; w.printed < w.print; w.printed += (size_t)n) {
        size_t left = w.print - w.printed, len = 1 + below(left < PIECE_MOST ? left : PIECE_MOST);
        bytes_make(bytes, PRINTED, w.printed, len);
        MUST((n = coir_write(stream, bytes, len)) > 0);
        if (below(6) == 0)
            rest();
    }
    (void)arg;
    return 0;
}

static int await_size(struct winsize *size)
{
    coir_terminal_op op;
    coir_time most = below(2) ? COIR_S : (coir_time)below(COIR_MS);
    switch (below(3)) {
    case 0: {
        coir_case cases[] = {coir_case_resize(w.terminal, size), coir_case_after(most)};
        int won = coir_select(cases, 2);
        return won < 0 ? won : won ? -ETIME : (int)cases[0].result;
    }
    case 1: {
        COIR_DEADLINE(coir_in(most));
        return coir_terminal_resized(w.terminal, size);
    }
    default: {
        COIR_DEADLINE(coir_in(most));
        return (int)coir_await(coir_terminal_resized_op(&op, w.terminal, size));
    }
    }
}

static void take_size(const struct winsize *size, bool is_new)
{
    unsigned short number = size->ws_row;
    MUST(number <= w.set && !(is_new && w.was_told[number])); /* 2 */
    w.was_told[number] = true;
    w.told = number > w.told ? number : w.told;
}

static int follow_size(void *arg)
{
    struct winsize size;
    int rc;
    do {
        unsigned rivals = w.rivals;
        bool waits = below(8);
        rc = waits ? await_size(&size) : coir_terminal_size(w.terminal, &size);
        MUST(rc != -EBUSY || rivals % 2 || rivals != w.rivals); /* 4 */
        if (rc == 0)
            take_size(&size, waits);
        if (below(4) == 0 || rc == -EBUSY)
            rest();
    } while (rc == 0 || rc == -ETIME || rc == -EBUSY);
    MUST_BE(rc, -EIO);
    MUST(w.closing);
    (void)arg;
    return 0;
}

/* Another worker may close the window at any time. */
static void set_mode(coir_terminal *terminal, enum coir_terminal_mode mode, int expected)
{
    int rc = coir_terminal_set_mode(terminal, mode);
    MUST(rc == expected || (rc == -EIO && w.closing));
}

/* A second terminal that is the same one. */
static void share_mode(coir_fd fd)
{
    COIR_TERMINAL(other);
    int rc = coir_terminal_open(other, fd);
    MUST(rc == 0 || w.closing);
    if (rc < 0)
        return;
    set_mode(other, COIR_TERMINAL_CBREAK, 0);
    set_mode(w.terminal, COIR_TERMINAL_RAW, -EBUSY);
    if (below(2))
        set_mode(other, COIR_TERMINAL_RAW, 0);
    if (below(2)) {
        coir_terminal_close(other); /* with its mode */
        set_mode(w.terminal, COIR_TERMINAL_RAW, 0);
        set_mode(w.terminal, COIR_TERMINAL_FOUND, 0);
    }
}

/* While another task waits, or just does not. */
static void wait_too(void)
{
    struct winsize size;
    int rc;
    w.rivals++;
    {
        COIR_DEADLINE(coir_in(1 + (coir_time)below(COIR_MS)));
        rc = coir_terminal_resized(w.terminal, &size);
    }
    w.rivals++;
    if (rc == 0)
        take_size(&size, true);
    else
        MUST(rc == -EBUSY || rc == -ETIME || (rc == -EIO && w.closing));
}

/* Until the window is closed; then all fails. */
static int set_modes(void *arg)
{
    const coir_fd *fd = arg;
    struct winsize size;
    while (!w.closing) {
        share_mode(*fd);
        wait_too();
        MUST_BE(coir_sleep_for(COIR_MS + (coir_time)below(COIR_S)), 0);
    }
    while (!w.closed)
        MUST_BE(coir_sleep_for(COIR_MS), 0);
    MUST_BE(coir_terminal_size(w.terminal, &size), -EIO);
    MUST_BE(coir_terminal_set_mode(w.terminal, COIR_TERMINAL_RAW), -EIO);
    MUST_BE(coir_try_write(coir_terminal_stream(w.terminal), "x", 1), -EIO);
    return 0;
}

static int run_program(void *arg)
{
    coir_fd fd = *(const coir_fd *)arg;
    COIR_TERMINAL(terminal);
    struct winsize size;
    int none[2];
    MUST_BE(pipe2(none, 0), 0);
    MUST_BE(coir_terminal_open(terminal, none[0]), -ENOTTY);
    close(none[0]);
    close(none[1]);
    MUST_BE(coir_terminal_open(terminal, none[0]), -EBADF);
    MUST(!coir_terminal_stream(terminal));
    MUST_BE(coir_terminal_open(terminal, fd), 0);
    w.terminal = terminal;
    MUST_BE(coir_terminal_size(terminal, &size), 0);
    take_size(&size, false); /* it may have changed before */
    COIR_SCOPE(scope);
    MUST_BE(coir_go(scope, read_keys, NULL), 0);
    MUST_BE(coir_go(scope, print_all, NULL), 0);
    MUST_BE(coir_go(scope, follow_size, NULL), 0);
    MUST_BE(coir_go(scope, set_modes, &fd), 0);
    return coir_scope_wait(scope);
}

/* ---- both ---- */

static int play(void *arg)
{
    static const struct winsize first = {.ws_row = 0, .ws_col = 80};
    coir_go_options options = COIR_GO_OPTIONS;
    int workers = (int)coir_worker_count(coir_runtime_current());
    (void)arg;
    COIR_SCOPE(program);
    COIR_PTY(pty);
    MUST_BE(coir_pty_open(pty, &first), 0);
    w.pty = pty;
    coir_fd fd = coir_pty_open_terminal(pty);
    MUST(fd >= 0);
    options.place = COIR_ON_WORKER((int)below((uint64_t)workers));
    MUST_BE(coir_go_with(program, &options, run_program, &fd), 0);
    use_window();
    w.closing = true;
    coir_pty_close(pty);
    w.closed = true;
    MUST_BE(raise(SIGCONT), 0); /* as a session gets it whose terminal is gone */
    COIR_DEADLINE(coir_in(patience));
    MUST_BE(coir_scope_wait(program), 0);
    close(fd);
    return 0;
}

int scenario(coir_sim *sim)
{
    if (!posix_has_kernel())
        return -ENOTSUP;
    memset(&w, 0, sizeof w);
    w.sim = sim;
    w.keys = below(KEYS_MOST);
    w.print = below(PRINTED_MOST);
    return chaos_run_alone(sim, play, &w.host);
}

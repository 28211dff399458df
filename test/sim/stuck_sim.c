/* Tasks that keep their workers from everything else, by a call that blocks the thread, some with a
 * mutex that others wait for. Meanwhile the runtime looks for slow turns and for stalls
 * (coir_config), and threads ask for dumps. Only over the simulated kernel, where a thread may
 * sleep in the middle of a turn.
 *
 * What must hold:
 * 1. A turn that takes much longer than coir_config.slow_turn is logged with its task's name, its
 *    worker, and a time that has passed; one that takes less is not.
 * 2. A task that holds a lock for much longer than report_stalls, without a wait, while others wait
 *    for it, is logged once, by its name; no other task, and none that has taken less.
 * 3. A dump does not wait for such a worker, and shows that it does not answer, with what it runs,
 *    and its tasks as not known; and no worker that is free.
 * 4. Each line of the log is one line, and what is not known is not told: where threads are late,
 *    one may not say what it does.
 * 5. A sleep after such a turn begins when it is asked for. */
#include <coir.h>
#include <coir/dump.h>
#include <coir/sim.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { WORKERS_MOST = 3, BLOCKS_MOST = 3, NAME_SIZE = 16, DUMPS_MOST = 3, PIECE = 1 << 16 };
static const coir_time slack = 10 * COIR_MS; /* of a look, and of what a thread is late */
static const coir_time dump_time = 600 * COIR_MS;
/* Between two looks for stalls: what halts workers for long is done seldom. */
static const coir_time rest_most = 800 * COIR_MS;

/* A turn that blocks its worker. */
struct block {
    int worker;
    bool locked;
    coir_time begins, lasts;
    int told, found; /* as a slow turn; as a stall */
};

/* A worker, and the task on it that blocks it. */
struct place {
    char name[NAME_SIZE];
    coir_mutex mutex;
    struct block blocks[BLOCKS_MOST];
    int count;  /* of its blocks, with the one that lasts */
    bool stuck; /* it lasts */
    int live;   /* tasks that have begun there */
};

static struct {
    coir_time slow_turn, stalls; /* 0: not looked for */
    bool late;
    bool first_is_free; /* the first worker is never blocked */
    int workers, blocking;
    coir_time dumped; /* the end of the last dump, or COIR_NEVER */
    struct place places[WORKERS_MOST];
} w;

/* ---- what is logged ---- */

/* The last that has lasted for so long; it may have ended just now, and another one begun. */
static struct block *find_block(int worker, coir_time lasted)
{
    struct place *place = &w.places[worker];
    coir_time latest = coir_now() - lasted + slack;
    for (int i = place->count - 1; i >= 0; i--)
        if (place->blocks[i].begins <= latest)
            return &place->blocks[i];
    must_have_held(__FILE__, __LINE__, "a turn that is slow", worker);
}

static void note_slow_turn(const char *line)
{
    int worker, ms;
    if (sscanf(line, "worker %d has not looked at its events for %d ms; ", &worker, &ms) != 2)
        return;
    const char *name = strchr(line, ';') + 2;
    bool unknown = strstr(line, "Its thread does not answer") != NULL;
    MUST(w.slow_turn && worker >= 0 && worker < w.workers);
    MUST(ms >= w.slow_turn / COIR_MS);
    if (unknown) {
        MUST(w.late); /* 4 */
    } else if (strncmp(name, "(without a name) runs", 21) == 0) {
        /* a dump halts it, and waits for another one */
        MUST(coir_now() - w.dumped < slack || w.late);
    } else {
        MUST(strncmp(name, w.places[worker].name, strlen(w.places[worker].name)) == 0);
        if (!w.late) /* otherwise another one may have begun meanwhile */
            find_block(worker, ms * COIR_MS)->told++;
    }
}

static void note_finding(const char *line)
{
    int number, worker, waiters;
    const char *rest = strstr(line, "; it holds a lock that others wait for (");
    if (strncmp(line, "finding: ", 9) != 0)
        return;
    MUST(rest && w.stalls);
    MUST_BE(sscanf(line, "finding: blocker %d 0x%*x on worker %d computes ", &number, &worker), 2);
    MUST_BE(sscanf(rest, "; it holds a lock that others wait for (%d):", &waiters), 1);
    MUST_BE(worker, number);
    MUST_BE(waiters, 1);
    struct block *block = find_block(worker, w.stalls);
    MUST(block->locked);
    MUST_BE(++block->found, 1);
}

static void hear(enum coir_log_level level, const char *line, void *arg)
{
    (void)arg;
    MUST(*line && !strchr(line, '\n'));
    if (level != COIR_LOG_WARNING)
        return;
    note_slow_turn(line);
    note_finding(line);
}

/* ---- tasks ---- */

static coir_time moment(void)
{
    return COIR_MS + (coir_time)below(40 * COIR_MS);
}

static void block_worker(struct place *place, struct block *block)
{
    block->begins = coir_now();
    place->count++;
    place->stuck = true;
    usleep((useconds_t)(block->lasts / COIR_US));
    place->stuck = false;
}

static void check_block(const struct block *block)
{
    bool waited_for = block->locked && w.first_is_free && w.workers > 1;
    if (!w.slow_turn || block->lasts < w.slow_turn - slack)
        MUST_BE(block->told, 0);
    else if (!w.late && block->lasts > 2 * w.slow_turn + slack)
        MUST(block->told > 0);
    if (!w.stalls || !block->locked || block->lasts < w.stalls - slack)
        MUST_BE(block->found, 0);
    else if (waited_for && !w.late && block->lasts > 2 * rest_most)
        MUST_BE(block->found, 1);
}

static int be_a_blocker(void *arg)
{
    struct place *place = arg;
    coir_time limit = w.stalls ? w.stalls : w.slow_turn ? w.slow_turn : 100 * COIR_MS;
    place->live++;
    for (uint64_t count = below(BLOCKS_MOST + 1); count; count--) {
        struct block *block = &place->blocks[place->count];
        *block = (struct block){.worker = coir_worker_index(), .locked = below(2)};
        block->lasts = (coir_time)below((uint64_t)(below(3) ? 4 * limit : 3 * COIR_S));
        block->lasts -= block->lasts % COIR_US; /* usleep() counts in them */
        MUST_BE(coir_sleep_for(moment()), 0);
        if (block->locked)
            MUST_BE(coir_mutex_lock(&place->mutex), 0);
        MUST_BE(coir_sleep_for(5 * COIR_MS), 0); /* the others wait by then */
        block_worker(place, block);
        MUST_BE(coir_sleep_for(2 * slack), 0);                        /* until all is told of it */
        MUST(coir_now() >= block->begins + block->lasts + 2 * slack); /* 5 */
        check_block(block);
        if (block->locked)
            coir_mutex_unlock(&place->mutex);
    }
    w.blocking--;
    place->live--;
    return 0;
}

/* On the first worker. */
static int be_a_waiter(void *arg)
{
    struct place *place = arg;
    w.places[0].live++;
    while (w.blocking) {
        MUST_BE(coir_mutex_lock(&place->mutex), 0);
        coir_mutex_unlock(&place->mutex);
        MUST_BE(coir_sleep_for(COIR_MS), 0);
    }
    w.places[0].live--;
    return 0;
}

/* ---- dumps ---- */

struct asked {
    enum coir_dump_format format;
    int ends[2];
    char *text;
    size_t len, size;
};

static void *read_all(void *arg)
{
    struct asked *asked = arg;
    for (ssize_t n = 1; n > 0; asked->len += (size_t)n) {
        if (asked->size - asked->len < PIECE)
            MUST((asked->text = realloc(asked->text, asked->size += PIECE)));
        n = read(asked->ends[0], asked->text + asked->len, PIECE / 2);
        MUST(n >= 0);
    }
    asked->text[asked->len] = '\0';
    return NULL;
}

static int count_of(const char *text, const char *what)
{
    int count = 0;
    for (; (text = strstr(text, what)); text++)
        count++;
    return count;
}

/* What a worker does at a moment, by the number of its block; 0: nothing blocks it. */
static void look(int *blocks)
{
    for (int i = 0; i < w.workers; i++)
        blocks[i] = w.places[i].stuck ? w.places[i].count : 0;
}

/* The part of the text on a worker. */
static const char *find_worker(const struct asked *asked, int worker)
{
    char key[80];
    snprintf(key, sizeof key,
             asked->format == COIR_DUMP_JSON ? "{\"runtime\":0,\"index\":%d,\"answered\":"
                                             : "\nruntime 0, worker %d",
             worker);
    const char *at = strstr(asked->text, key);
    MUST(at && !strstr(at + 1, key));
    return at + strlen(key);
}

static void check_worker(const struct asked *asked, int worker, bool stuck, bool free)
{
    const char *at = find_worker(asked, worker);
    bool json = asked->format == COIR_DUMP_JSON;
    bool answered = strncmp(at, json ? "true" : "\n", json ? 4 : 1) == 0;
    MUST(!free || answered);
    MUST(!stuck || !answered);
    if (!stuck)
        return;
    if (json)
        MUST(strncmp(at, "false,\"stack\":[", 15) == 0 || w.late);
    else if (strncmp(at, " does not answer, and its stack is not known\n", 45) == 0)
        MUST(w.late);
    else
        MUST(strncmp(at, " does not answer; it runs ", 26) == 0 &&
             strncmp(at + 26, w.places[worker].name, strlen(w.places[worker].name)) == 0);
}

static void check_dump(const struct asked *asked, const int *before, const int *after)
{
    int unknown_least = 0, unknown_most = 0;
    bool all_free = true;
    for (int i = 0; i < w.workers; i++) {
        bool stuck = before[i] && before[i] == after[i];
        check_worker(asked, i, stuck, !before[i] && !after[i] && w.places[i].count == 0);
        unknown_least += stuck ? w.places[i].live : 0;
        unknown_most += before[i] || after[i] ? w.places[i].live : 0;
        all_free = all_free && w.places[i].count == 0;
    }
    if (asked->format != COIR_DUMP_JSON || (before[0] | after[0]))
        return;
    int unknown = count_of(asked->text, "\"state\":\"unknown\"");
    MUST(!w.first_is_free || unknown >= unknown_least);
    MUST(!all_free || unknown <= unknown_most);
}

/* On a plain thread. */
static int ask_and_check(void *arg)
{
    pthread_t reader;
    struct asked asked = {.format = below(2) ? COIR_DUMP_JSON : COIR_DUMP_TEXT};
    int before[WORKERS_MOST], after[WORKERS_MOST];
    coir_time begin = coir_now();
    (void)arg;
    MUST_BE(pipe(asked.ends), 0);
    MUST_BE(pthread_create(&reader, NULL, read_all, &asked), 0);
    look(before);
    w.dumped = COIR_NEVER;
    MUST_BE(coir_dump(asked.ends[1], asked.format), 0);
    w.dumped = coir_now();
    look(after);
    close(asked.ends[1]);
    MUST_BE(pthread_join(reader, NULL), 0);
    close(asked.ends[0]);
    MUST(coir_now() - begin < dump_time);
    check_dump(&asked, before, after);
    free(asked.text);
    return 0;
}

static int be_a_dumper(void *arg)
{
    w.places[0].live++;
    for (uint64_t count = 1 + below(DUMPS_MOST); count; count--) {
        MUST_BE(coir_sleep_for(moment()), 0);
        MUST_BE(coir_offload(ask_and_check, arg), 0);
    }
    w.places[0].live--;
    return 0;
}

/* ---- all of it ---- */

static void go(coir_scope *scope, int worker, const char *name, coir_task_fn *fn, void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = name;
    options.place = COIR_ON_WORKER(worker);
    MUST_BE(coir_go_with(scope, &options, fn, arg), 0);
}

static int play(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    w.places[0].live = 1;
    w.workers = (int)coir_worker_count(coir_runtime_current());
    w.blocking = w.workers - w.first_is_free;
    for (int i = 0; i < w.workers; i++) {
        struct place *place = &w.places[i];
        snprintf(place->name, NAME_SIZE, "blocker %d", i);
        place->mutex = (coir_mutex)COIR_MUTEX_INIT;
        go(scope, 0, "waiter", be_a_waiter, place);
        if (i || !w.first_is_free)
            go(scope, i, place->name, be_a_blocker, place);
    }
    if (below(2))
        go(scope, 0, "dumper", be_a_dumper, NULL);
    MUST_BE(coir_scope_wait(scope), 0);
    return 0;
}

int scenario(coir_sim *sim)
{
    coir_config config = COIR_CONFIG;
    if (!posix_has_kernel())
        return -ENOTSUP;
    memset(&w, 0, sizeof w);
    w.first_is_free = below(2);
    w.late = below(3) == 0;
    w.slow_turn = below(4) ? (coir_time)(20 + below(200)) * COIR_MS : 0;
    w.stalls = below(4) ? (coir_time)(20 + below(200)) * COIR_MS : 0;
    config.log = hear;
    config.slow_turn = w.slow_turn ? w.slow_turn : COIR_NEVER;
    config.report_stalls = w.stalls;
    MUST_BE(coir_sim_configure(sim, &config), 0);
    coir_sim_faults(sim, NULL, (coir_faults){.late = w.late ? some(0.5) : 0});
    return coir_sim_host_main(sim, "host", play, NULL);
}

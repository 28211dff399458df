/* A program that has its stalls reported (coir_config.report_stalls), on one to three workers:
 * rings of tasks each of which waits for the mutex of the next, until deadlines end that; tasks
 * that end with a mutex, which another one gives back later; and tasks that work well. Only over
 * the simulated kernel, where workers are halted as they are on the real one.
 *
 * What must hold:
 * 1. What has lasted for longer than two looks is logged, each of its tasks by its name; a mutex
 *    whose holder has ended in one line with how many wait for it.
 * 2. What has lasted for less than `report_stalls` is not logged.
 * 3. What is logged is logged once, and no task that works well ever.
 * 4. A line of the log is one line. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { RINGS = 3, RING_MOST = 4, KEPT = 2, WELL = 3, NAME_SIZE = 16 };
static const coir_time slack = 30 * COIR_MS; /* of a look, and of what ends a wait */

/* Tasks that wait for each other, or for a mutex that one of them has kept. */
struct stall {
    char kind; /* 'r'ing or 'k'ept */
    int number, count, waiting, logged[RING_MOST];
    coir_mutex mutexes[RING_MOST];
    coir_time begins, lasts; /* lasts since the last of its tasks waits */
};

struct party {
    struct stall *stall;
    int number;
    char name[NAME_SIZE];
};

static struct {
    coir_time limit;
    int kept_lines, kept_waiters; /* logged */
    struct stall rings[RINGS], kept[KEPT];
    struct party parties[2][RINGS][RING_MOST];
    coir_mutex shared;
} w;

/* ---- what is logged ---- */

static void note_party(const char *line)
{
    char kind;
    int stall, party;
    MUST(strncmp(line, "    well", 8) != 0);
    if (sscanf(line, "    %c%d.%d 0x", &kind, &stall, &party) != 3)
        return;
    MUST(stall < (kind == 'r' ? RINGS : KEPT) && party < RING_MOST);
    MUST_BE(++(kind == 'r' ? w.rings : w.kept)[stall].logged[party], 1);
}

static void hear(enum coir_log_level level, const char *line, void *arg)
{
    int count;
    (void)arg;
    MUST(*line && !strchr(line, '\n'));
    if (level != COIR_LOG_WARNING)
        return;
    if (sscanf(line, "finding: a lock was not given back by a task that has ended; %d wait",
               &count) == 1) {
        w.kept_lines++;
        w.kept_waiters += count;
    }
    note_party(line);
}

/* ---- stalls ---- */

static void go(coir_scope *scope, const char *name, coir_task_fn *fn, void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = name;
    options.place = COIR_ANYWHERE;
    MUST_BE(coir_go_with(scope, &options, fn, arg), 0);
}

static void go_all(coir_scope *scope, struct stall *stall, coir_task_fn *fn)
{
    for (int i = 0; i < stall->count; i++) {
        struct party *party = &w.parties[stall->kind == 'k'][stall->number][i];
        *party = (struct party){.stall = stall, .number = i};
        snprintf(party->name, NAME_SIZE, "%c%d.%d", stall->kind, stall->number, i);
        go(scope, party->name, fn, party);
    }
}

/* The last one to come begins the stall, which ends for all of them at the same time. */
static int wait_in(struct stall *stall, coir_mutex *mutex)
{
    COIR_DEADLINE(++stall->waiting == stall->count ? coir_in(stall->lasts) : COIR_NEVER);
    return coir_mutex_lock(mutex);
}

/* Has its own mutex, and waits for the next one's. */
static int be_in_a_ring(void *arg)
{
    const struct party *self = arg;
    struct stall *ring = self->stall;
    int next = (self->number + 1) % ring->count;
    MUST_BE(coir_sleep_for(ring->begins), 0);
    MUST_BE(coir_mutex_lock(&ring->mutexes[self->number]), 0);
    MUST_BE(coir_sleep_for(10 * COIR_MS), 0); /* the others have theirs by then */
    int rc = wait_in(ring, &ring->mutexes[next]);
    if (rc == 0)
        coir_mutex_unlock(&ring->mutexes[next]);
    else
        MUST_BE(rc, -ETIME);
    coir_mutex_unlock(&ring->mutexes[self->number]);
    return 0;
}

static int keep(void *arg)
{
    struct stall *kept = arg;
    return coir_mutex_lock(&kept->mutexes[0]);
}

static int wait_for_kept(void *arg)
{
    struct stall *kept = ((const struct party *)arg)->stall;
    kept->waiting++;
    MUST_BE(coir_mutex_lock(&kept->mutexes[0]), 0);
    coir_mutex_unlock(&kept->mutexes[0]);
    return 0;
}

/* Begins one, whose mutex it gives back in the place of the task that has ended. */
static int be_kept(void *arg)
{
    struct stall *kept = arg;
    COIR_SCOPE(scope);
    MUST_BE(coir_sleep_for(kept->begins), 0);
    {
        COIR_SCOPE(holder);
        go(holder, "holder", keep, kept);
        MUST_BE(coir_scope_wait(holder), 0);
    }
    go_all(scope, kept, wait_for_kept);
    while (kept->waiting < kept->count)
        MUST_BE(coir_sleep_for(COIR_MS), 0);
    MUST_BE(coir_sleep_for(kept->lasts), 0);
    coir_mutex_unlock(&kept->mutexes[0]);
    return coir_scope_wait(scope);
}

/* ---- what works well ---- */

static int work_well(void *arg)
{
    (void)arg;
    for (coir_time end = coir_in(6 * w.limit); coir_now() < end;) {
        MUST_BE(coir_mutex_lock(&w.shared), 0);
        MUST_BE(coir_sleep_for((coir_time)below((uint64_t)w.limit / 8)), 0);
        coir_mutex_unlock(&w.shared);
        MUST_BE(coir_sleep_for((coir_time)below((uint64_t)w.limit / 8)), 0);
    }
    return 0;
}

/* ---- all of it ---- */

static void check(const struct stall *stall)
{
    for (int i = 0; i < stall->count; i++) {
        if (stall->lasts > 2 * w.limit + slack)
            MUST_BE(stall->logged[i], 1);
        if (stall->lasts < w.limit - slack)
            MUST_BE(stall->logged[i], 0);
    }
}

static int play(void *arg)
{
    (void)arg;
    {
        COIR_SCOPE(scope);
        for (int i = 0; i < RINGS; i++)
            go_all(scope, &w.rings[i], be_in_a_ring);
        for (int i = 0; i < KEPT; i++)
            go(scope, "well", be_kept, &w.kept[i]);
        for (int i = 0; i < WELL; i++)
            go(scope, "well", work_well, NULL);
        MUST_BE(coir_scope_wait(scope), 0);
    }
    int kept_lines = 0, kept_waiters = 0;
    for (int i = 0; i < RINGS; i++)
        check(&w.rings[i]);
    for (int i = 0; i < KEPT; i++) {
        check(&w.kept[i]);
        kept_lines += w.kept[i].logged[0];
        kept_waiters += w.kept[i].logged[0] * w.kept[i].count;
    }
    MUST_BE(w.kept_lines, kept_lines);
    MUST_BE(w.kept_waiters, kept_waiters);
    return 0;
}

static void draw_stall(struct stall *stall, char kind, int number, int least)
{
    *stall = (struct stall){.kind = kind, .number = number};
    stall->count = least + (int)below((uint64_t)(RING_MOST - least + 1));
    stall->begins = (coir_time)below((uint64_t)(2 * w.limit));
    stall->lasts = (coir_time)below((uint64_t)(4 * w.limit));
    for (int i = 0; i < RING_MOST; i++)
        stall->mutexes[i] = (coir_mutex)COIR_MUTEX_INIT;
}

int scenario(coir_sim *sim)
{
    coir_config config = COIR_CONFIG;
    if (!posix_has_kernel())
        return -ENOTSUP;
    memset(&w, 0, sizeof w);
    w.limit = (coir_time)(100 + below(400)) * COIR_MS;
    w.shared = (coir_mutex)COIR_MUTEX_INIT;
    for (int i = 0; i < RINGS; i++)
        draw_stall(&w.rings[i], 'r', i, 2);
    for (int i = 0; i < KEPT; i++)
        draw_stall(&w.kept[i], 'k', i, 1);
    config.log = hear;
    config.report_stalls = w.limit;
    config.slow_turn = COIR_NEVER;
    MUST_BE(coir_sim_configure(sim, &config), 0);
    return coir_sim_host_main(sim, "host", play, NULL);
}

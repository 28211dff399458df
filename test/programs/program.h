/* Random programs over the public calls. A seed draws a program: how the runtime lives, and some
 * acts. An act is a small protocol over some objects (a channel, streams, locks) played by actors:
 * tasks and threads with a script each, which says in what way each wait is done.
 *
 * 1. The same seed draws the same program on every driver; leaving acts out (--only) does not
 * change the others.
 * 2. Every act ends by itself, whatever its scripts say: a program that is not done within the
 * limit has lost a wake-up.
 * 3. An act that is cancelled (hurried) keeps its safety (nothing twice, nothing out of order,
 * everything accounted for), but need not get everything done.
 */
#ifndef TEST_PROGRAMS_PROGRAM_H
#define TEST_PROGRAMS_PROGRAM_H

#include <coir.h>
#include <coir/sim.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/random.h"

enum { ACTS_MOST = 8, ACTORS_MOST = 12, STEPS_MOST = 10, WORKERS_MOST = 4, RUNS_MOST = 2 };

struct act;

/* ---- drawing ---- */

static inline unsigned draw(struct ci_random *random, unsigned bound)
{
    return (unsigned)ci_random_below(random, bound);
}

static inline unsigned draw_from(struct ci_random *random, unsigned least, unsigned most)
{
    return least + draw(random, most - least + 1);
}

/* ---- scripts: how an actor waits ---- */

enum way {
    WAY_CALL,     /* the straight-line call */
    WAY_DEADLINE, /* under a deadline of its own */
    WAY_SELECT,   /* coir_select, beside decoys */
    WAY_SELECT_IN_ORDER,
    WAY_AWAIT, /* the call's future */
    WAY_ANY,   /* coir_any, beside decoys */
    WAY_ANY_IN_ORDER,
    WAY_CALL_ANY,    /* the straight-line call as a member of a coir_any */
    WAY_TASK,        /* by a task of its own, which is joined */
    WAY_TASK_CANCEL, /* the same, and it is cancelled */
    WAY_STACKLESS,   /* by a task without a stack */
    WAY_GENERATOR,   /* inside a generator */
    WAY_SHIELD,      /* under a deadline inside a shield */
    WAYS
};

struct step {
    uint8_t way;
    uint8_t decoys; /* which ones, as bits */
    uint8_t place;  /* of the wait itself among the decoys */
    uint8_t rest;   /* what the actor does afterwards */
    uint32_t us;    /* of the deadline, or before the cancel */
};

struct script {
    int count;
    struct step steps[STEPS_MOST];
};

void script_draw(struct script *script, struct ci_random *random);
void script_print(const struct script *script, FILE *file);

/* ---- what takes part ---- */

struct actor {
    struct act *act;
    int number;
    int place;   /* COIR_HERE, COIR_ANYWHERE or COIR_ON_WORKER(i) */
    bool thread; /* a plain thread, where the kind has those and the world too */
    int at;      /* in the script */
    int lost;    /* waits, one after the other */
    struct script script;
    struct ci_random random; /* for what it decides while it runs */
    pthread_t handle;
    /* started: its thread runs; released: no task waits for that any more */
    bool started, released;
    void *own;
};

enum hurry { HURRY_NOT, HURRY_CANCEL, HURRY_DEADLINE, HURRY_HANDLE };

struct act_kind {
    const char *name;
    unsigned weight;
    bool real;    /* not in the simulator */
    bool threads; /* an actor may be a plain thread */
    unsigned actors_least, actors_most;
    /* makes act->own; in plain code, before the run */
    int (*draw)(struct act *act, struct ci_random *random);
    void (*print)(const struct act *act, FILE *file);
    /* NULL, or: in a fiber, before the actors. An error: they do not play */
    int (*begin)(struct act *act);
    int (*play)(struct actor *actor);
    /* NULL, or: in a fiber, shielded, after them: what they left is closed */
    void (*end)(struct act *act);
    void (*last)(struct act *act); /* NULL, or: the last thing that the run's first task does */
    /* in plain code, after the run and before the runtime is freed; also where the act never
     * began */
    void (*check)(struct act *act);
    void (*free)(struct act *act); /* after the runtime was freed */
};

struct act {
    const struct act_kind *kind;
    struct run *run;
    int number;
    bool left_out;
    int actor_count;
    enum hurry hurry;
    uint32_t hurry_us;
    int place;
    bool serving, any_thread;
    bool began, played;
    /* something was cancelled, on any worker, or failed: what was to be done need not be */
    _Atomic bool hurried;
    int threads; /* that run */
    uint64_t seed;
    void *own;
    struct actor actors[ACTORS_MOST];
};

/* What selects wait for beside what they are for; all workers use the same. */
struct decoys {
    coir_channel *items, *slots;
    uint64_t sent, received, sum_sent, sum_received;
    coir_event event;
    coir_latest *latest;
    coir_mutex mutexes[2];
    uint64_t holders[2];
    coir_shared_mutex shared;
    coir_semaphore semaphore;
};

/* One run of a runtime. */
struct run {
    struct program *program;
    int number;
    coir_runtime *runtime;
    struct decoys decoys;
    coir_event over, never;
    int acts_left;
    int result;
    bool begun, ended;
    pthread_t thread;
};

enum life {
    LIFE_PLAIN,
    LIFE_ABRUPT,  /* the first task leaves the acts behind */
    LIFE_TWICE,   /* the same runtime runs two times */
    LIFE_PAIR,    /* two runtimes at the same time */
    LIFE_STEPPED, /* driven by a loop of its owner's */
    LIFE_STOPPED, /* a thread stops it, at any time */
    LIFE_EARLY,   /* it is stopped before it runs */
    LIFE_SIGNAL,  /* signals stop it: two runtimes */
    LIVES
};

struct program {
    uint64_t seed;
    const char *driver;
    unsigned workers;
    enum life life;
    bool simulated, deadlock_ends;
    unsigned budget, offload_threads;
    uint32_t stop_us, start_us; /* when it is stopped; when the run begins after that has begun */
    /* the allocation that fails while the runtime is made and started; 0: none */
    unsigned fail_at;
    coir_link link; /* of the simulated network */
    double late;
    int act_count, run_count;
    bool stops;                   /* the run is cancelled from outside */
    bool traced;                  /* what the simulator does, on standard output */
    bool late_allowed, late_call; /* a plain thread calls into the runtime after its end */
    uint64_t operations;
    struct act acts[ACTS_MOST];
    struct run runs[RUNS_MOST];
};

/* ---- running ---- */

/* `lives`: the names of those that it may have, else it is plain; NULL: any. */
struct program *program_draw(uint64_t seed, const char *driver, unsigned workers,
                             const char *lives);
void program_print(const struct program *program, FILE *file);
void program_play(struct program *program);
int program_run(void *run);                  /* the first task of one of its runs */
void program_check(struct program *program); /* after them: every act did what it was to do */
void program_free(struct program *program);

/* Ends the process in the middle of a program, with status 3. Not by _exit(2): TSan would report
 * each actor's thread that has ended as a leak, as those are joined after the run. */
void program_end(void) __attribute__((noreturn));

/* Ends the process: what was found out, in one line. */
void program_fail(const struct act *act, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));

#define ACT_CHECK(act, cond)                                           \
    do {                                                               \
        if (!(cond))                                                   \
            program_fail(act, "%s:%d: %s", __FILE__, __LINE__, #cond); \
    } while (0)

#define ACT_CHECK_EQ(act, got, want)                                                         \
    do {                                                                                     \
        long long got_ = (long long)(got), want_ = (long long)(want);                        \
        if (got_ != want_)                                                                   \
            program_fail(act, "%s:%d: %s is %lld, not %lld", __FILE__, __LINE__, #got, got_, \
                         want_);                                                             \
    } while (0)

/* Whether everything that the act was to do must have been done. */
bool act_complete(const struct act *act);

/* An error that nothing but an interruption explains, which must have a reason: the act is over for
 * the caller. Returns the error. */
int actor_interrupted(struct actor *actor, int rc);

/* Counts an operation; what a script says about pauses. */
void act_count(struct act *act);
void actor_rest(struct actor *actor);
/* for loops that try again: sleeps a little. A negative error: interrupted */
int actor_lull(struct actor *actor);

/* A name for a file or the like that no other program has. */
void act_name(const struct act *act, int number, char *text, size_t size);

void decoys_init(struct run *run);
int decoys_tick(void *run); /* a task that keeps them moving until the run's acts are over */
void decoys_check(struct run *run);
void decoys_free(struct run *run);

/* ---- waiting in the script's way ---- */

struct wait {
    int (*call)(struct wait *wait);
    coir_future *(*op)(struct wait *wait, void *place); /* NULL: there is none */
    coir_case (*as_case)(struct wait *wait);            /* NULL: there is none */
    /* of a coir_any that another member won, the result may be there all the same: bytes that were
     * moved */
    bool keeps;
    void *object, *data;
    int64_t number;
    void *more;
};

/* The result of the wait; or LOST: something else happened first, and nothing was done. */
enum { LOST = -9999 };
int actor_wait(struct actor *actor, struct wait *wait);

/* The wait for an item of a channel. */
struct wait wait_for_item(coir_channel *channel, void *item);

extern const struct act_kind *const act_kinds[];
extern const char *const life_names[];

/* ---- memory that is counted, and may fail ---- */

extern const coir_allocator memory_allocator;
void memory_fail_at(unsigned number); /* of the allocations from now on; 0: none */
int64_t memory_live(void);
bool memory_failed(void); /* whether one has, since one was to fail */

#endif

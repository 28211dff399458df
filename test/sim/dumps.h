/* What the files of dumps_sim.c share: what each task says of itself, and what a dump says of it.
 */
#ifndef TEST_SIM_DUMPS_H
#define TEST_SIM_DUMPS_H

#include <coir.h>
#include <coir/dump.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    TASKS_MOST = 24,
    MUTEXES = 3,
    CHANNELS = 3,
    MEMBERS_MOST = 3,
    NAME_SIZE = 8,
    KIND_SIZE = 40
};

/* ---- the model: written by the tasks themselves ---- */

enum what {
    NOTHING, /* it runs, or has not begun */
    A_TURN,  /* it has yielded */
    A_DUMP,  /* it calls for one */
    A_CALL,  /* an offloaded one, which calls for a dump */
    TIME,
    A_MUTEX,
    AN_ITEM, /* of a channel */
    A_ROOM,  /* in a channel */
    UNITS,   /* of a semaphore */
    AN_EVENT,
    SEVERAL, /* of a select: its members */
    TASKS,   /* of a scope */
    A_TASK,  /* to end */
    WHATS
};
extern const char *const dump_kinds[WHATS]; /* what dumps call them */

struct object {
    const void *address;
    int moves;  /* counts what may let a task go that waits for it, before and after */
    int holder; /* of a mutex: the number of the task that knows that it has it, or -1 */
};

struct wanted {
    enum what what;
    struct object *object;
    int moves; /* of the object when the wait began */
};

enum life { NEVER_USED, SPAWNED, BEGUN, ENDED };

struct task {
    char name[NAME_SIZE];
    int number, parent; /* -1: none */
    const coir_scope *scope;
    enum life life;
    bool stackless, cancelled;
    int worker;
    coir_time deadline;          /* its own nearest */
    coir_time due;               /* what interrupts it at the latest, also from outside */
    struct object children, end; /* end: of the task itself */
    int joined;                  /* of a wait for a task: its number */

    int seq; /* counts changes of what follows */
    struct wanted wait, members[MEMBERS_MOST];
    int member_count;
    coir_time since, until; /* of a wait with a time, or COIR_NEVER */
};

struct dumps_run {
    struct task tasks[TASKS_MOST];
    int spawned;
    coir_mutex mutexes[MUTEXES];
    struct object mutex_objects[MUTEXES];
    coir_channel *channels[CHANNELS];
    struct object channel_objects[CHANNELS];
    coir_semaphore semaphore;
    struct object semaphore_object;
    coir_event event;
    struct object event_object;
};
extern struct dumps_run model;

/* ---- what a dump says ---- */

enum state { READY, NEW, WAITING, RUNNING, TRAVELLING, STATES };

struct seen {
    char name[NAME_SIZE], kind[KIND_SIZE];
    enum state state;
    uint64_t id, object, holder;   /* 0: none */
    int parent;                    /* index of the owner of its scope, or -1 */
    uint64_t scope;                /* 0: the format has none */
    int worker;                    /* -1: not shown */
    double left, deadline, waited; /* below 0: none; seconds */
    char members[MEMBERS_MOST][KIND_SIZE];
    int member_count;
    bool has_frame_kind; /* the outermost future is shown */
};

struct dump {
    struct seen seen[TASKS_MOST];
    int count;
    uint64_t cycles[TASKS_MOST][TASKS_MOST]; /* the parties of each, and 0 */
    int cycle_count;
};

/* dumps_read.c: reads a whole dump, or fails the seed. */
void dump_read(struct dump *dump, enum coir_dump_format format, const char *text);

/* The model at a time. */
struct moment {
    coir_time now;
    struct dumps_run run;
};

/* dumps_check.c: a dump that was taken between two moments. */
void dump_check(const struct dump *dump, enum coir_dump_format format, const struct moment *before,
                const struct moment *after);

#endif

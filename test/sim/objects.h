/* What the files of objects_sim.c share: the objects, the tasks that use them, and the run. */
#ifndef TEST_SIM_OBJECTS_H
#define TEST_SIM_OBJECTS_H

#include <coir.h>
#include <coir/sim.h>

#include "sim/chance.h"
#include "sim/models.h"

enum { OBJECTS = 6, TASKS_MOST = 7, STEPS_MOST = 40, MEMBERS_MOST = 10, SENDS_MOST = 90 };

enum type { CHANNEL, REGISTER, SEMAPHORE, LATEST, EVENT, TYPES };
enum lock { PLAIN, FAIR, SHARED, LOCKS };

struct object {
    enum type type;
    struct history history;
    struct channel_shape shape;
    coir_channel *channel;
    int sends, released;
    enum lock lock;
    coir_mutex mutex;
    coir_shared_mutex shared;
    int64_t value, readers, writers;
    int64_t units;
    coir_semaphore semaphore;
    int acquiring;
    coir_latest *latest;
    coir_event event;
};

struct member;
struct task {
    int number;
    int64_t held[OBJECTS];
    uint64_t seen[OBJECTS]; /* versions of latest values */
    coir_handle handle;
    const struct member *waits; /* the operations it waits for at the moment */
    int wait_count;
};

/* One operation on an object. */
struct member {
    struct object *object;
    int kind;
    int64_t arg;
    int64_t item; /* received */
    coir_wait_op op;
};

struct objects_run {
    coir_sim *sim;
    struct object objects[OBJECTS];
    struct task tasks[TASKS_MOST];
    int object_count, count, ended, next_item, steps, moves;
    bool over;
};
extern struct objects_run run;

/* objects.c: the objects from their making to the check of their histories. */
int number_of(const struct object *object);
bool has_room(const struct object *object); /* in its history, for the operations of all tasks */
int object_make(struct object *object);
void objects_open(void);
void object_check(struct object *object);
void objects_free(void);

/* objects_wait.c: operations that may wait, one at a time or several at once. A result other than
 * 0 ends the task. */
int rest(void);
int wait_for_one(struct task *task);
int wait_for_any(struct task *task);
int wait_for_select(struct task *task);

/* objects_at_once.c: operations that never wait. */
void do_at_once(struct task *task);
void give_back(struct task *task, struct object *object, int64_t amount);

/* objects_stuck.c: no task waits for something that is there. */
void check_waits(void);

#endif

/* Random programs of tasks on one to three workers: nested scopes, deadlines, locks, channels,
 * selects, sleeps, joins, generators, tasks without a stack, cancels. At random moments some of
 * them, on workers or on plain threads, also at once, ask for a dump, and compare it with what the
 * tasks say of themselves: each notes what it is about to wait for, and takes that back afterwards.
 * Only over the simulated kernel, where workers are halted as they are on the real one.
 *
 * What must hold, of each dump:
 * 1. It is whole: every worker has answered, the JSON is JSON, and every line of the text is of a
 *    kind that there is.
 * 2. Each task that lives is in it once, below the task that has opened its scope, and no task that
 *    has ended.
 * 3. A task that has not moved since before the dump is shown as what it is: not begun, ready, or
 *    waiting, for which object, task or time, who has that, its deadline, its worker, for how long;
 *    and as ready only if something may have let it go.
 * 4. Tasks that wait for each other's mutexes are found, and no other task is named.
 * The program ends: a dump leaves nothing behind.
 *
 * dumps_read.c reads dumps, dumps_check.c compares. */
#include <coir/generator.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/dumps.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { STEPS_MOST = 7, DEPTH_MOST = 3, CHILDREN_MOST = 4, PIECE = 4096 };

struct dumps_run model;
static coir_handle handles[TASKS_MOST];

static coir_time some_time(void)
{
    return (coir_time)below((uint64_t)(4 * COIR_MS) >> below(8));
}

/* ---- what tasks say of themselves ---- */

static void moves(struct object *object)
{
    if (object)
        object->moves++;
}

static struct wanted wants(enum what what, struct object *object)
{
    if (what == AN_ITEM || what == A_ROOM) /* which may let another task go */
        moves(object);
    return (struct wanted){what, object, object ? object->moves : 0};
}

static void begin_wait(struct task *self, enum what what, struct object *object)
{
    self->wait = wants(what, object);
    self->member_count = 0;
    self->since = coir_now();
    self->until = COIR_NEVER;
    self->seq++;
}

static void end_wait(struct task *self)
{
    moves(self->wait.object);
    for (int i = 0; i < self->member_count; i++)
        moves(self->members[i].object);
    self->wait = (struct wanted){NOTHING, NULL, 0};
    self->member_count = 0;
    self->until = COIR_NEVER;
    self->seq++;
}

/* ---- dumps ---- */

struct asked {
    struct task *self;
    enum coir_dump_format format;
    int ends[2];
    char *text;
    size_t len, size;
    struct moment before, after;
    struct dump dump;
};

static void take_down(struct moment *moment)
{
    moment->now = coir_now();
    moment->run = model;
}

static void *read_all(void *arg)
{
    struct asked *asked = arg;
    for (ssize_t n = 1; n > 0; asked->len += (size_t)n) {
        if (asked->size - asked->len < PIECE)
            MUST((asked->text = realloc(asked->text, asked->size += 16 * PIECE)));
        n = read(asked->ends[0], asked->text + asked->len, PIECE - 1);
        MUST(n >= 0);
    }
    asked->text[asked->len] = '\0';
    return NULL;
}

static int ask_and_check(void *arg)
{
    struct asked *asked = arg;
    pthread_t reader;
    MUST_BE(pipe(asked->ends), 0);
    MUST_BE(pthread_create(&reader, NULL, read_all, asked), 0);
    take_down(&asked->before);
    MUST_BE(coir_dump(asked->ends[1], asked->format), 0);
    take_down(&asked->after);
    close(asked->ends[1]);
    MUST_BE(pthread_join(reader, NULL), 0);
    close(asked->ends[0]);
    dump_read(&asked->dump, asked->format, asked->text);
    dump_check(&asked->dump, asked->format, &asked->before, &asked->after);
    asked->self->until = coir_now(); /* the end of an offloaded call lets its task go */
    return 0;
}

static int dump(struct task *self)
{
    bool thread = below(3) == 0;
    int rc = 0;
    struct asked *asked = calloc(1, sizeof *asked);
    MUST(asked);
    asked->self = self;
    asked->format = below(2) ? COIR_DUMP_JSON : COIR_DUMP_TEXT;
    begin_wait(self, thread ? A_CALL : A_DUMP, NULL);
    if (thread)
        rc = coir_offload(ask_and_check, asked);
    else
        ask_and_check(asked);
    end_wait(self);
    free(asked->text);
    free(asked);
    return rc;
}

/* ---- what a task does ---- */

static int steps(struct task *self, int depth);

static int rest(struct task *self)
{
    if (below(3) == 0) {
        begin_wait(self, A_TURN, NULL);
        int rc = coir_yield();
        return end_wait(self), rc;
    }
    begin_wait(self, TIME, NULL);
    self->until = coir_in(some_time());
    int rc = coir_sleep_until(self->until);
    return end_wait(self), rc;
}

static void has_locked(struct task *self, int number)
{
    model.mutex_objects[number].holder = self->number;
    end_wait(self);
}

static void unlock(int number)
{
    model.mutex_objects[number].holder = -1;
    moves(&model.mutex_objects[number]);
    coir_mutex_unlock(&model.mutexes[number]);
    moves(&model.mutex_objects[number]);
}

/* A task that has the mutex may wait for it: until its deadline. */
static int lock(struct task *self, int depth)
{
    int number = (int)below(MUTEXES), rc;
    begin_wait(self, A_MUTEX, &model.mutex_objects[number]);
    if ((rc = coir_mutex_lock(&model.mutexes[number])) < 0)
        return end_wait(self), rc;
    has_locked(self, number);
    rc = steps(self, depth + 1);
    unlock(number);
    return rc;
}

static int send_or_receive(struct task *self)
{
    int number = (int)below(CHANNELS), item = 0, rc;
    bool sends = below(2);
    begin_wait(self, sends ? A_ROOM : AN_ITEM, &model.channel_objects[number]);
    rc = sends ? coir_channel_send(model.channels[number], &item)
               : coir_channel_recv(model.channels[number], &item);
    return end_wait(self), rc;
}

static int acquire(struct task *self, int depth)
{
    uint64_t units = 1 + below(2);
    begin_wait(self, UNITS, &model.semaphore_object);
    int rc = coir_semaphore_acquire(&model.semaphore, units);
    end_wait(self);
    if (rc < 0)
        return rc;
    rc = steps(self, depth + 1);
    moves(&model.semaphore_object);
    coir_semaphore_release(&model.semaphore, units);
    moves(&model.semaphore_object);
    return rc;
}

static int use_event(struct task *self)
{
    if (below(3) == 0) {
        moves(&model.event_object);
        coir_event_set(&model.event);
        moves(&model.event_object);
        return 0;
    }
    coir_event_reset(&model.event);
    begin_wait(self, AN_EVENT, &model.event_object);
    int rc = coir_event_wait(&model.event);
    return end_wait(self), rc;
}

static int select_some(struct task *self)
{
    coir_case cases[MEMBERS_MOST];
    int count = 2 + (int)below(MEMBERS_MOST - 1), items[MEMBERS_MOST] = {0};
    coir_time until = coir_in(some_time());
    begin_wait(self, SEVERAL, NULL);
    for (int i = 0; i < count; i++) {
        int number = (int)below(CHANNELS);
        bool sends = below(2), after = i == 0 || below(3) == 0;
        cases[i] = after   ? coir_case_at(until)
                   : sends ? coir_case_send(model.channels[number], &items[i])
                           : coir_case_recv(model.channels[number], &items[i]);
        self->members[i] = wants(after   ? TIME
                                 : sends ? A_ROOM
                                         : AN_ITEM,
                                 after ? NULL : &model.channel_objects[number]);
    }
    for (int i = 0; i < count; i++) /* after the moves of its own members */
        self->members[i].moves = self->members[i].object ? self->members[i].object->moves : 0;
    self->until = until;
    self->member_count = count;
    self->seq++;
    int rc = coir_select(cases, (size_t)count);
    end_wait(self);
    return rc < 0 ? rc : 0;
}

/* ---- tasks ---- */

static int be_a_task(void *arg)
{
    struct task *self = arg;
    self->life = BEGUN;
    self->worker = coir_worker_index();
    self->seq++;
    steps(self, 0);
    if (self->parent >= 0)
        moves(&model.tasks[self->parent].children);
    moves(&self->end);
    self->life = ENDED;
    self->seq++;
    return 0;
}

/* Sleeps, and waits for a mutex and an item. */
struct frame {
    coir_future future;
    struct task *self;
    coir_sleep_op sleep;
    coir_wait_op op;
    int number, item;
};
static struct frame frames[TASKS_MOST];

static coir_future *frame_poll(coir_future *future)
{
    struct frame *frame = coir_frame(future, struct frame);
    struct task *self = frame->self;
    COIR_BEGIN(future);
    self->life = BEGUN;
    self->worker = coir_worker_index();
    begin_wait(self, TIME, NULL);
    self->until = coir_in(some_time());
    COIR_AWAIT(future, coir_sleep_until_op(&frame->sleep, self->until));
    end_wait(self);
    begin_wait(self, A_MUTEX, &model.mutex_objects[frame->number]);
    COIR_AWAIT(future, coir_mutex_lock_op(&frame->op, &model.mutexes[frame->number]));
    if (frame->op.future.result == 0) {
        has_locked(self, frame->number);
        unlock(frame->number);
        begin_wait(self, AN_ITEM, &model.channel_objects[frame->number]);
        COIR_AWAIT(future,
                   coir_channel_recv_op(&frame->op, model.channels[frame->number], &frame->item));
    }
    end_wait(self);
    moves(&model.tasks[self->parent].children);
    moves(&self->end);
    self->life = ENDED;
    self->seq++;
    COIR_RETURN(future, 0);
    COIR_END(future);
}

static const coir_future_kind frame_kind =
    COIR_FUTURE_KIND("a task without a stack", frame_poll, NULL);

static coir_time earlier(coir_time a, coir_time b)
{
    return a < b ? a : b;
}

static struct task *spawn(struct task *self, coir_scope *scope)
{
    if (model.spawned == TASKS_MOST)
        return NULL;
    int number = model.spawned++, rc;
    struct task *task = &model.tasks[number];
    coir_go_options options = COIR_GO_OPTIONS;
    int on = (int)below((uint64_t)coir_worker_count(coir_runtime_current()));
    options.place = below(4) ? COIR_ON_WORKER(on) : COIR_ANYWHERE;
    options.name = task->name;
    options.handle = &handles[number];
    task->parent = self->number;
    task->scope = scope;
    task->due = earlier(self->due, self->deadline);
    task->stackless = below(4) == 0;
    task->life = SPAWNED;
    task->seq++;
    if (task->stackless) {
        frames[number] = (struct frame){.self = task, .number = (int)below(MUTEXES)};
        coir_future *future = coir_future_init(&frames[number].future, &frame_kind);
        rc = coir_go_future_with(scope, &options, future);
    } else {
        rc = coir_go_with(scope, &options, be_a_task, task);
    }
    if (rc == 0)
        return task;
    task->life = NEVER_USED;
    task->seq++;
    return NULL;
}

static int join(struct task *self, struct task *other)
{
    self->joined = other->number;
    begin_wait(self, A_TASK, &other->end);
    int rc = coir_join(&handles[other->number]);
    return end_wait(self), rc;
}

static int open_scope(struct task *self, int depth)
{
    int rc = 0;
    struct task *tasks[CHILDREN_MOST];
    int count = 1 + (int)below(CHILDREN_MOST);
    COIR_SERVING_SCOPE(scope);
    for (int i = 0; i < count; i++)
        tasks[i] = spawn(self, scope);
    rc = below(2) ? steps(self, depth + 1) : 0;
    if (rc < 0 || below(4) == 0) {
        for (int i = 0; i < count; i++)
            if (tasks[i])
                tasks[i]->cancelled = true;
        coir_scope_cancel(scope);
    }
    for (int i = 0; i < count && below(2); i++)
        if (tasks[i])
            join(self, tasks[i]);
    self->children.address = scope;
    begin_wait(self, TASKS, &self->children);
    int waited = coir_scope_wait(scope);
    return end_wait(self), rc < 0 ? rc : waited;
}

/* On the stack of a generator, which may be resumed by another one. */
struct inside {
    struct task *self;
    int depth, levels;
};

static int be_inside(coir_generator *generator, uint64_t first, void *arg)
{
    struct inside *inside = arg;
    coir_generator *inner;
    uint64_t value;
    (void)generator, (void)first;
    if (--inside->levels == 0)
        return steps(inside->self, inside->depth + 1);
    MUST_BE(coir_generator_new(be_inside, inside, &inner), 0);
    int rc = coir_generator_next(inner, 0, &value);
    coir_generator_free(inner);
    return rc;
}

static int use_generators(struct task *self, int depth)
{
    struct inside inside = {self, depth, 2 + (int)below(2)};
    return be_inside(NULL, 0, &inside);
}

static int step(struct task *self, int depth)
{
    uint64_t what = below(depth < DEPTH_MOST ? 11 : 6);
    switch (what) {
    case 0: return dump(self);
    case 1: return rest(self);
    case 2:
    case 3: return send_or_receive(self);
    case 4: return select_some(self);
    case 5: return use_event(self);
    case 6:
    case 7: return lock(self, depth);
    case 8: return acquire(self, depth);
    case 9: return use_generators(self, depth);
    default: return open_scope(self, depth);
    }
}

/* Each under a deadline, so that nothing is waited for without end. */
static int steps(struct task *self, int depth)
{
    for (uint64_t count = 1 + below(1u + (unsigned)(STEPS_MOST >> depth)); count; count--) {
        coir_time outer = self->deadline;
        self->deadline = earlier(outer, coir_in(some_time() + 10 * COIR_US));
        {
            COIR_DEADLINE(self->deadline);
            self->seq++;
            step(self, depth);
        }
        self->deadline = outer;
        self->seq++;
        int rc = coir_task_interrupted();
        if (rc < 0)
            return rc;
    }
    return 0;
}

static void object_init(struct object *object, const void *address)
{
    *object = (struct object){.address = address, .holder = -1};
}

static void set_up(void)
{
    static const size_t capacities[] = {0, 0, 1, 2};
    static const coir_mutex plain = COIR_MUTEX_INIT, fair = COIR_FAIR_MUTEX_INIT;
    static const coir_semaphore two = COIR_SEMAPHORE_INIT(2);
    static const coir_event unset = COIR_EVENT_INIT;
    memset(&model, 0, sizeof model);
    memset(handles, 0, sizeof handles);
    for (int i = 0; i < TASKS_MOST; i++) {
        model.tasks[i].number = i;
        snprintf(model.tasks[i].name, NAME_SIZE, "t%d", i);
        model.tasks[i].parent = -1;
        model.tasks[i].deadline = model.tasks[i].due = model.tasks[i].until = COIR_NEVER;
    }
    for (int i = 0; i < MUTEXES; i++) {
        model.mutexes[i] = below(2) ? fair : plain;
        object_init(&model.mutex_objects[i], &model.mutexes[i]);
    }
    for (int i = 0; i < CHANNELS; i++) {
        MUST_BE(coir_channel_new(sizeof(int), capacities[below(4)], &model.channels[i]), 0);
        object_init(&model.channel_objects[i], model.channels[i]);
    }
    model.semaphore = two;
    model.event = unset;
    object_init(&model.semaphore_object, &model.semaphore);
    object_init(&model.event_object, &model.event);
}

static int play(void *arg)
{
    (void)arg;
    set_up();
    model.spawned = 1;
    MUST_BE(coir_task_set_name(model.tasks[0].name), 0);
    int rc = be_a_task(&model.tasks[0]);
    for (int i = 0; i < CHANNELS; i++)
        coir_channel_free(model.channels[i]);
    return rc;
}

int scenario(coir_sim *sim)
{
    coir_config config = COIR_CONFIG;
    config.budget = COIR_UNLIMITED; /* a task that is out of it is ready, whatever it has said */
    if (!posix_has_kernel())
        return -ENOTSUP;
    MUST_BE(coir_sim_configure(sim, &config), 0);
    return coir_sim_host_main(sim, "host", play, NULL);
}

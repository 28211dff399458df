/* Tasks on all workers that pass items on through a few channels, and take units and locks, nearly
 * without a pause: by a call, or several at once by coir_any and coir_select. So another worker
 * often gives a member of a coir_any what it waits for while the next members begin.
 *
 * In every other seed each task only sends, or only receives, as many items as its partner does the
 * other of; in some of those, by plain calls and through one channel with more room, so that
 * receivers take leases of it (sync/channel.h).
 *
 * What must hold:
 * 1. No item is lost or doubled: in the end each is with a task or in a channel, once.
 * 2. No more units are out than there are, and no task is inside of a lock with another that
 *    excludes it; in the end all units are there, and the locks are free.
 * 3. Of several operations waited for at once, none but the one reported took effect (by 1, 2).
 * 4. As many are sent as are received, so no task waits for ever. Of tasks that each send or
 *    receive, whichever comes first, all meet another one. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { CHANNELS = 3, TASKS_MOST = 6, STEPS_MOST = 300, UNITS = 2, NONE = -1 };
enum { MEMBERS = 4, MEMBERS_MOST = 12, MEETINGS_MOST = 16 }; /* a select of more than 8 allocates */
enum { ITEMS_MOST = TASKS_MOST * STEPS_MOST };
static const coir_time patience = 20 * COIR_S;

enum kind { SEND, RECV, ACQUIRE, LOCK, LOCK_SHARED, SHARE };

/* An operation that may have to wait. */
struct member {
    enum kind kind;
    coir_channel *channel;
    int item;
    coir_wait_op op;
};

struct task {
    int steps;
    int item;   /* the task's own, or NONE */
    bool sends; /* in pairs: it only sends */
};

static struct {
    coir_channel *channels[CHANNELS];
    coir_semaphore units;
    coir_mutex mutex;
    coir_shared_mutex shared;
    bool in_pairs, alternating; /* alternating: one of a channel, the favourite, ... */
    bool streams;               /* in pairs: by plain calls */
    enum kind favourite;
    int made, units_out, inside, readers, writers, meeting; /* meeting: that are to come yet */
    bool found[ITEMS_MOST];
    struct task tasks[TASKS_MOST];
} w;

/* ---- operations ---- */

static struct member choose(const struct task *task, uint64_t channel, bool of_channel)
{
    static const enum kind others[] = {ACQUIRE, LOCK, LOCK_SHARED, SHARE};
    struct member member = {.channel = w.channels[channel % CHANNELS]};
    if (w.alternating && channel % 2 && !of_channel) {
        member.kind = w.favourite;
    } else if (of_channel || w.in_pairs || w.alternating || below(3)) {
        member.kind = task->item == NONE ? RECV : SEND;
        member.item = task->item;
    } else {
        member.kind = others[below(4)];
    }
    return member;
}

static coir_future *future_of(struct member *member)
{
    switch (member->kind) {
    case SEND: return coir_channel_send_op(&member->op, member->channel, &member->item);
    case RECV: return coir_channel_recv_op(&member->op, member->channel, &member->item);
    case ACQUIRE: return coir_semaphore_acquire_op(&member->op, &w.units, 1);
    case LOCK: return coir_mutex_lock_op(&member->op, &w.mutex);
    case LOCK_SHARED: return coir_shared_mutex_lock_op(&member->op, &w.shared);
    case SHARE: break;
    }
    return coir_shared_mutex_share_op(&member->op, &w.shared);
}

static void find(int item)
{
    MUST(item >= 0 && item < w.made && !w.found[item]);
    w.found[item] = true;
}

static void stay(void)
{
    if (below(3) == 0)
        coir_yield(); /* whatever it returns */
}

/* The operation took effect. */
static void use(struct task *task, const struct member *member)
{
    switch (member->kind) {
    case SEND: task->item = NONE; break;
    case RECV:
        if (w.in_pairs)
            find(member->item);
        else
            task->item = member->item;
        break;
    case ACQUIRE:
        MUST(++w.units_out <= UNITS);
        stay();
        w.units_out--;
        MUST_BE(coir_semaphore_release(&w.units, 1), 0);
        break;
    case LOCK:
        MUST_BE(++w.inside, 1);
        stay();
        w.inside--;
        coir_mutex_unlock(&w.mutex);
        break;
    case LOCK_SHARED:
        MUST(!w.readers && ++w.writers == 1);
        stay();
        w.writers--;
        coir_shared_mutex_unlock(&w.shared);
        break;
    case SHARE:
        MUST(!w.writers && ++w.readers);
        stay();
        w.readers--;
        coir_shared_mutex_unlock(&w.shared);
        break;
    }
}

/* ---- waiting ---- */

static coir_time some_deadline(void)
{
    return w.in_pairs ? COIR_NEVER
                      : coir_in((coir_time)below((uint64_t)(200 * COIR_US) >> below(8)));
}

static int wait_for_any(struct member *members, size_t count)
{
    coir_branch branches[MEMBERS_MOST];
    for (size_t i = 0; i < count; i++)
        branches[i] = (coir_branch)COIR_BRANCH(future_of(&members[i]));
    COIR_DEADLINE(some_deadline());
    int won = below(2) ? coir_any(branches, count) : coir_any_in_order(branches, count);
    if (won >= 0)
        MUST_BE(branches[won].future->result, 0);
    return won;
}

static int wait_for_select(struct member *members, size_t count)
{
    coir_case cases[MEMBERS_MOST];
    for (size_t i = 0; i < count; i++)
        cases[i] = members[i].kind == SEND ? coir_case_send(members[i].channel, &members[i].item)
                                           : coir_case_recv(members[i].channel, &members[i].item);
    COIR_DEADLINE(some_deadline());
    int won = below(2) ? coir_select(cases, count) : coir_select_in_order(cases, count);
    if (won >= 0)
        MUST_BE(cases[won].result, 0);
    return won;
}

static int wait_for_one(struct member *member)
{
    COIR_DEADLINE(some_deadline());
    return (int)coir_await(future_of(member));
}

static void stream_one(struct task *task)
{
    int item = task->sends ? w.made++ : NONE;
    if (task->sends) {
        MUST_BE(coir_channel_send(w.channels[0], &item), 0);
        return;
    }
    MUST_BE(coir_channel_recv(w.channels[0], &item), 0);
    find(item);
}

static void do_something(struct task *task)
{
    struct member members[MEMBERS_MOST];
    size_t count = 1 + below(below(16) ? MEMBERS : MEMBERS_MOST),
           first = w.alternating ? 0 : below(CHANNELS);
    bool selects = below(4) == 0;
    if (task->item == NONE && (w.in_pairs ? task->sends : below(2)))
        task->item = w.made++;
    if (w.in_pairs && !task->sends)
        count = CHANNELS; /* all of them: some partner sends to each */
    for (size_t i = 0; i < count; i++)
        members[i] = choose(task, first + i, selects);
    int won = selects      ? wait_for_select(members, count)
              : count == 1 ? wait_for_one(members)
                           : wait_for_any(members, count);
    MUST(won >= 0 || (won == -ETIME && !w.in_pairs));
    if (won >= 0)
        use(task, &members[won]);
}

static int be_a_task(void *arg)
{
    struct task *task = arg;
    for (int i = 0; i < task->steps; i++) {
        if (w.streams)
            stream_one(task);
        else
            do_something(task);
        if (below(20) == 0)
            MUST_BE(coir_sleep_for((coir_time)below(50 * COIR_US)), 0);
    }
    return 0;
}

/* ---- meetings ---- */

/* Sends through the first channel, or receives, whichever comes first; one task only sends, and one
 * only receives. */
static void meet(int number)
{
    coir_wait_op ops[3];
    coir_branch branches[3];
    int item = 0, got = NONE;
    bool sends[3] = {number != 1, number != 1, number == 0};
    for (int i = 0; i < 3; i++)
        branches[i] =
            (coir_branch)COIR_BRANCH(sends[i] ? coir_channel_send_op(&ops[i], w.channels[0], &item)
                                              : coir_channel_recv_op(&ops[i], w.channels[0], &got));
    int won = below(2) ? coir_any(branches, 3) : coir_any_in_order(branches, 3);
    MUST(won >= 0);
    MUST_BE(branches[won].future->result, 0);
    MUST_BE(got, sends[won] ? NONE : 0);
}

static int meet_others(void *arg)
{
    while (w.meeting > 0) {
        w.meeting--;
        meet((int)(intptr_t)arg);
    }
    return 0;
}

/* None meets itself, nor keeps others from meeting behind it: as many come as can meet, and none is
 * alone before the last. */
static void run_meetings(void)
{
    uint64_t workers = (uint64_t)coir_worker_count(coir_runtime_current());
    w.meeting = 2 * (1 + (int)below(MEETINGS_MOST));
    COIR_SCOPE(scope);
    for (intptr_t i = 2 + (intptr_t)below(3); i >= 0; i--)
        MUST_BE(coir_go_on(scope, (int)below(workers), meet_others, (void *)i), 0);
    COIR_DEADLINE(coir_in(patience));
    MUST_BE(coir_scope_wait(scope), 0);
}

/* ---- all of it ---- */

static void find_all(void)
{
    for (int i = 0; i < CHANNELS; i++)
        for (int item; coir_channel_try_recv(w.channels[i], &item) == 0;)
            find(item);
    for (int i = 0; i < TASKS_MOST; i++)
        if (w.tasks[i].item != NONE)
            find(w.tasks[i].item);
    for (int item = 0; item < w.made; item++)
        MUST(w.found[item]);
    MUST_BE(coir_semaphore_units(&w.units), UNITS);
    MUST_BE(coir_mutex_try_lock(&w.mutex), 0);
    coir_mutex_unlock(&w.mutex);
    MUST_BE(coir_shared_mutex_try_lock(&w.shared), 0);
    coir_shared_mutex_unlock(&w.shared);
}

static void run_tasks(void)
{
    uint64_t workers = (uint64_t)coir_worker_count(coir_runtime_current());
    int tasks = w.in_pairs ? 2 + 2 * (int)below(TASKS_MOST / 2) : 2 + (int)below(TASKS_MOST - 1);
    COIR_SCOPE(scope);
    for (int i = 0; i < tasks; i++) {
        bool is_partner = w.in_pairs && i % 2;
        w.tasks[i].steps = is_partner ? w.tasks[i - 1].steps : 1 + (int)below(STEPS_MOST);
        w.tasks[i].sends = is_partner;
        MUST_BE(coir_go_on(scope, (int)below(workers), be_a_task, &w.tasks[i]), 0);
    }
    COIR_DEADLINE(coir_in(patience));
    MUST_BE(coir_scope_wait(scope), 0);
}

static int play(void *arg)
{
    static const size_t capacities[] = {0, 1, 1, 2, COIR_UNLIMITED};
    (void)arg;
    uint64_t most = below(2) ? 5 : 1; /* every other time all are without room */
    for (int i = 0; i < CHANNELS; i++)
        MUST_BE(coir_channel_new(sizeof(int), w.streams ? 8 + below(24) : capacities[below(most)],
                                 &w.channels[i]),
                0);
    run_tasks();
    find_all();
    if (most == 1 && !w.streams)
        run_meetings();
    for (int i = 0; i < CHANNELS; i++)
        coir_channel_free(w.channels[i]);
    return 0;
}

int scenario(coir_sim *sim)
{
    static const coir_mutex plain = COIR_MUTEX_INIT, fair = COIR_FAIR_MUTEX_INIT;
    memset(&w, 0, sizeof w);
    w.in_pairs = below(2);
    w.streams = w.in_pairs && below(3) == 0;
    w.alternating = !w.in_pairs && below(2);
    w.favourite = (enum kind)(ACQUIRE + (below(2) ? 0 : below(4)));
    w.mutex = below(2) ? plain : fair;
    w.units = (coir_semaphore)COIR_SEMAPHORE_INIT(UNITS);
    for (int i = 0; i < TASKS_MOST; i++)
        w.tasks[i].item = NONE;
    MUST_BE(chaos_configure(sim), 0);
    return coir_sim_host_main(sim, "host", play, NULL);
}

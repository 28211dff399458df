/* Connecting to a name: Happy Eyeballs, version 2 (RFC 8305). IPv6 and IPv4 addresses are asked for
 * at the same time. The first address is tried as soon as IPv6 ones are known, or when IPv4 ones
 * have been known for 50 ms (section 3). The others follow, the families in turn (section 4), each
 * when an attempt has failed or the last one is 250 ms old (section 5). The first connection wins.
 *
 * 1. The two lookups, the attempts and the timer are members of one set, which is empty when the
 *    race is freed.
 * 2. `next_at` is when the next attempt may begin. While an address is left to try, the timer is
 *    armed, for that time or earlier: it is never moved, but armed again when it has expired.
 *
 * A connection that is established after the winner is closed.
 */
#include <errno.h>

#include "base/check.h"
#include "base/time.h"
#include "io/connect.h"
#include "io/name_lookup.h"
#include "task/set.h"
#include "task/sleep.h"

enum { SIX, FOUR, FAMILIES };
static const coir_time resolution_delay = 50 * COIR_MS, attempt_delay = 250 * COIR_MS;

struct attempt {
    struct attempt *next;
    struct ci_connect_op connect;
    coir_branch branch;
    coir_stream *stream;
};

/* One of the two families. */
struct family {
    struct ci_lookup lookup;
    coir_branch branch;
    bool answered;
    size_t tried; /* of its addresses */
};

struct ci_race {
    coir_future future;
    struct ci_worker *worker;
    coir_stream **ret_stream;
    const struct ci_connect_how *how;
    struct ci_where where;
    struct family families[FAMILIES];
    struct attempt *attempts; /* newest first */
    coir_set set;
    coir_branch *ended; /* the member that ended last */
    struct ci_sleep_op pause;
    coir_branch timer;
    bool timer_runs, won;
    size_t running; /* attempts */
    int turn;       /* the family of the next one */
    int error;      /* of attempts */
    coir_time next_at, timer_at;
};

/* ---- choosing the next address ---- */

static bool has_more(const struct family *family)
{
    return family->answered && family->lookup.result == 0 &&
           family->tried < family->lookup.ips.count;
}

/* The family of the next address; -1: none is known. */
static int next_family(const struct ci_race *race)
{
    if (has_more(&race->families[race->turn]))
        return race->turn;
    return has_more(&race->families[!race->turn]) ? !race->turn : -1;
}

/* An error that says only that a family cannot be reached: any other is reported instead. */
static bool is_about_family(int error)
{
    return error == 0 || error == -ENETUNREACH || error == -EADDRNOTAVAIL || error == -EAFNOSUPPORT;
}

static void begin_attempt(struct ci_race *race, int which)
{
    struct family *family = &race->families[which];
    struct attempt *attempt = ci_alloc_zero(&race->worker->runtime->allocator, sizeof *attempt);
    race->turn = !which;
    ci_where_set(&race->where, &family->lookup.ips.ip[family->tried++]);
    if (!attempt) {
        race->error = -ENOMEM;
        return;
    }
    attempt->next = race->attempts;
    race->attempts = attempt;
    attempt->branch = (coir_branch)COIR_BRANCH(
        ci_connect_init(&attempt->connect, &race->where.address, race->how, &attempt->stream));
    race->running++;
    race->next_at = ci_time_after(ci_loop_update_now(&race->worker->loop), attempt_delay);
    coir_set_add(&race->set, &attempt->branch);
}

static void arm_timer(struct ci_race *race)
{
    if (race->timer_runs)
        return;
    race->timer = (coir_branch)COIR_BRANCH(
        coir_sleep_until_op((coir_sleep_op *)(void *)&race->pause, race->next_at));
    race->timer_runs = true;
    race->timer_at = race->next_at;
    coir_set_add(&race->set, &race->timer);
}

/* Begins the attempts that are due, and arms the timer for the next. */
static void go_on(struct ci_race *race)
{
    int which = next_family(race);
    while (which >= 0 && race->next_at <= ci_loop_update_now(&race->worker->loop)) {
        begin_attempt(race, which);
        which = next_family(race);
    }
    if (which >= 0)
        arm_timer(race);
    ci_check(which < 0 || (race->timer_runs && race->timer_at <= race->next_at), "race.c 2");
}

/* ---- events: an answer, the end of an attempt, the timer ---- */

static void on_answer(struct ci_race *race, int which)
{
    coir_time now = ci_loop_update_now(&race->worker->loop);
    race->families[which].answered = true;
    if (race->attempts)
        /* if all addresses that were known have failed, there is no reason to wait */
        race->next_at = race->running ? race->next_at : now;
    else
        race->next_at = which == FOUR && !race->families[SIX].answered
                            ? ci_time_after(now, resolution_delay)
                            : now;
}

static void on_attempt(struct ci_race *race, struct attempt *attempt)
{
    int error = (int)attempt->connect.future.result;
    race->running--;
    if (error == 0) {
        race->won = true;
        *race->ret_stream = attempt->stream;
        attempt->stream = NULL;
        return;
    }
    if (!is_about_family(error) || is_about_family(race->error))
        race->error = error;
    race->next_at = ci_loop_update_now(&race->worker->loop);
}

static void on_ended(struct ci_race *race)
{
    if (race->ended == &race->timer)
        race->timer_runs = false;
    else if (race->ended == &race->families[SIX].branch)
        on_answer(race, SIX);
    else if (race->ended == &race->families[FOUR].branch)
        on_answer(race, FOUR);
    else
        on_attempt(race, ci_container_of(race->ended, struct attempt, branch));
}

static bool is_over(const struct ci_race *race)
{
    bool answered = race->families[SIX].answered && race->families[FOUR].answered;
    return race->won || (answered && !race->running && next_family(race) < 0);
}

static int result(const struct ci_race *race)
{
    if (race->won || race->error)
        return race->won ? 0 : race->error;
    return ci_lookup_error(race->families[SIX].lookup.result, race->families[FOUR].lookup.result);
}

/* ---- the race ---- */

static void begin(struct ci_race *race)
{
    coir_set_init(&race->set);
    for (int i = 0; i < FAMILIES; i++) {
        struct family *family = &race->families[i];
        family->branch = (coir_branch)COIR_BRANCH(
            ci_lookup_init(&family->lookup, race->where.host, i == SIX ? AF_INET6 : AF_INET));
        coir_set_add(&race->set, &family->branch);
    }
}

static coir_future *race_poll(coir_future *future)
{
    struct ci_race *self = ci_container_of(future, struct ci_race, future);
    COIR_BEGIN(future);
    begin(self);
    do {
        COIR_AWAIT(future, coir_set_next_op(&self->set, &self->ended));
        if (self->set.future.result < 0) {
            self->error = (int)self->set.future.result;
            break;
        }
        on_ended(self);
        if (!self->won)
            go_on(self);
    } while (!is_over(self));
    coir_set_cancel(&self->set);
    while (coir_set_live(&self->set))
        COIR_AWAIT(future, ci_set_drop_next_op(&self->set));
    COIR_RETURN(future, result(self));
}

static const coir_future_kind race_kind =
    COIR_FUTURE_KIND("a connection to be made", race_poll, NULL);

struct ci_race *ci_race_new(struct ci_worker *worker, const struct ci_where *where,
                            const struct ci_connect_how *how, coir_stream **ret_stream)
{
    struct ci_race *race = ci_alloc_zero(&worker->runtime->allocator, sizeof *race);
    if (!race)
        return NULL;
    race->worker = worker;
    race->where = *where;
    race->how = how;
    race->ret_stream = ret_stream;
    return race;
}

coir_future *ci_race_future(struct ci_race *race)
{
    return coir_future_init(&race->future, &race_kind);
}

int ci_race_free(struct ci_race *race)
{
    int rc = (int)race->future.result;
    ci_check(coir_set_live(&race->set) == 0, "race.c 1");
    const coir_allocator *allocator = &race->worker->runtime->allocator;
    while (race->attempts) {
        struct attempt *attempt = race->attempts;
        race->attempts = attempt->next;
        coir_close(attempt->stream); /* connected, but not first */
        ci_free(allocator, attempt, sizeof *attempt);
    }
    ci_free(allocator, race, sizeof *race);
    return rc;
}

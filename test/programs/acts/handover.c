/* Streams that go from worker to worker, with unread bytes: none is lost, doubled or out of order.
 * The writing ends stay with one task each; the reading ends travel through channels, from station
 * to station. */
#include <errno.h>
#include <stdlib.h>

#include "program.h"
#include "sim/bytes.h"

enum { STREAMS_MOST = 400, SIMULATED_ROOM = 2000 }; /* bytes that a stream holds, at the least */

struct traveller {
    struct act *act;
    int number;
    coir_stream *near, *far; /* read here; written there */
    uint32_t bytes, written, read, hops;
    bool at_home; /* its journey is over, or it was closed */
};

struct journey {
    int streams;
    uint32_t piece, burst; /* burst: written before the journey begins */
    struct traveller *travellers;
    coir_channel *stations[ACTORS_MOST];
    int arrived;
    coir_event all_written;
    bool waits_for_bursts, crowd;
};

/* Which bytes it carries (test/sim/bytes.h). */
static unsigned message_of(const struct traveller *traveller)
{
    return (unsigned)traveller->act->seed + (unsigned)traveller->number * 31;
}

static int draw_journey(struct act *act, struct ci_random *random)
{
    struct journey *journey = act->own = calloc(1, sizeof *journey);
    journey->crowd = draw(random, 12) == 0;
    journey->streams =
        (int)(journey->crowd ? draw_from(random, 280, STREAMS_MOST) : draw_from(random, 1, 8));
    journey->burst = journey->crowd ? 9000 : draw(random, 2u << draw(random, 14));
    journey->piece = 1 + draw(random, 2u << draw(random, 13));
    journey->waits_for_bursts = journey->crowd || draw(random, 2);
    if (act->run->program->simulated && journey->burst > SIMULATED_ROOM)
        journey->waits_for_bursts = false;
    unsigned hops = journey->crowd ? draw(random, 4) : draw(random, 4u << draw(random, 7));
    if (!(journey->travellers = calloc((size_t)journey->streams, sizeof *journey->travellers)))
        return -ENOMEM;
    for (int i = 0; i < journey->streams; i++)
        journey->travellers[i] =
            (struct traveller){.act = act,
                               .number = i,
                               .bytes = journey->burst + draw(random, journey->piece * (hops + 1)),
                               .hops = draw(random, hops + 1)};
    for (int i = 0; i < act->actor_count; i++)
        if (coir_channel_new(sizeof(struct traveller *), COIR_UNLIMITED, &journey->stations[i]) < 0)
            return -ENOMEM;
    return 0;
}

static void print_journey(const struct act *act, FILE *file)
{
    const struct journey *journey = act->own;
    fprintf(file, ", %d streams, %u bytes and then pieces of %u, hops:", journey->streams,
            journey->burst, journey->piece);
    for (int i = 0; i < journey->streams && i < 20; i++)
        fprintf(file, " %u", journey->travellers[i].hops);
}

/* ---- opening: all by the act's task ---- */

static int connect_one(struct traveller *traveller, coir_listener *listener, const char *address)
{
    int rc = coir_tcp_connect(address, &traveller->far);
    if (rc == 0)
        rc = coir_accept(listener, &traveller->near);
    if (rc == 0)
        rc = coir_stream_detach(traveller->far);
    return rc < 0 ? rc : coir_stream_detach(traveller->near);
}

static int begin_journey(struct act *act)
{
    struct journey *journey = act->own;
    char address[64];
    coir_listener *listener;
    int rc = coir_tcp_listen("127.0.0.1:0", &listener);
    if (rc < 0)
        return rc;
    coir_listener_local(listener, address, sizeof address);
    for (int i = 0; i < journey->streams && rc == 0; i++)
        rc = connect_one(&journey->travellers[i], listener, address);
    coir_listener_close(listener);
    return rc;
}

/* ---- the writing ends ---- */

static int write_piece(struct traveller *traveller, uint32_t len)
{
    char *bytes = malloc(len + 1);
    bytes_make(bytes, message_of(traveller), traveller->written, len);
    int rc = coir_write_all(traveller->far, bytes, len);
    traveller->written += len;
    free(bytes);
    return rc;
}

static int write_rest(struct actor *actor, struct traveller *traveller)
{
    const struct journey *journey = traveller->act->own;
    int rc = 0;
    while (rc == 0 && traveller->written < traveller->bytes) {
        uint32_t left = traveller->bytes - traveller->written;
        rc = write_piece(traveller, left < journey->piece ? left : journey->piece);
        actor->at++;
        actor_rest(actor);
    }
    return rc < 0 ? rc : coir_shutdown_write(traveller->far);
}

static int write_streams(struct actor *actor)
{
    struct journey *journey = actor->act->own;
    int rc = 0;
    for (int i = 0; i < journey->streams && rc == 0; i++) {
        struct traveller *traveller = &journey->travellers[i];
        rc = write_piece(traveller, journey->burst);
    }
    coir_event_set(&journey->all_written);
    for (int i = 0; i < journey->streams && rc == 0; i++)
        rc = write_rest(actor, &journey->travellers[i]);
    for (int i = 0; i < journey->streams; i++) { /* here, for they are this worker's */
        coir_close(journey->travellers[i].far);
        journey->travellers[i].far = NULL;
    }
    return rc;
}

/* ---- the stations ---- */

static void read_some(struct traveller *traveller, const char *bytes, uint32_t count)
{
    if (count > traveller->bytes - traveller->read ||
        !bytes_are(bytes, message_of(traveller), traveller->read, count))
        program_fail(traveller->act, "stream %d: of the %u bytes from %u of %u some are wrong",
                     traveller->number, count, traveller->read, traveller->bytes);
    traveller->read += count;
}

static int call_read(struct wait *wait)
{
    return (int)coir_read(wait->object, wait->data, (size_t)wait->number);
}

static coir_future *read_op(struct wait *wait, void *place)
{
    return coir_read_op(place, wait->object, wait->data, (size_t)wait->number);
}

static int call_look(struct wait *wait)
{
    return coir_stream_wait(wait->object, COIR_READ);
}

static coir_future *look_op(struct wait *wait, void *place)
{
    return coir_stream_wait_op(place, wait->object, COIR_READ);
}

static coir_case look_case(struct wait *wait)
{
    return coir_case_stream(wait->object, COIR_READ);
}

/* How many bytes were read, 0 at the end; LOST. */
static int read_here(struct actor *actor, struct traveller *traveller)
{
    char bytes[3000];
    size_t len = 1 + draw(&actor->random, sizeof bytes - 1);
    struct wait read = {call_read,     read_op,
                        .keeps = true, .object = traveller->near,
                        .data = bytes, .number = (int64_t)len};
    struct wait look = {call_look, look_op, look_case, .keeps = true, .object = traveller->near};
    int rc;
    if (draw(&actor->random, 3)) {
        rc = actor_wait(actor, &read);
    } else {
        rc = actor_wait(actor, &look);
        if (rc >= 0)
            rc = (int)coir_try_read(traveller->near, bytes, len);
    }
    if (rc > 0)
        read_some(traveller, bytes, (uint32_t)rc);
    return rc == -EAGAIN ? LOST : rc;
}

static void arrive(struct journey *journey, struct traveller *traveller, int stations)
{
    coir_close(traveller->near);
    traveller->near = NULL;
    traveller->at_home = true;
    if (__atomic_add_fetch(&journey->arrived, 1, __ATOMIC_ACQ_REL) == journey->streams)
        for (int i = 0; i < stations; i++)
            coir_channel_close(journey->stations[i]);
}

static int give_up(struct traveller *traveller, int rc)
{
    coir_close(traveller->near);
    traveller->near = NULL;
    return rc;
}

/* A stay: reads a few times, or to the end, and sends it on. 0, or interrupted. */
static int stay(struct actor *actor, struct traveller *traveller)
{
    struct journey *journey = actor->act->own;
    unsigned times = draw(&actor->random, 3);
    int rc = 0;
    bool ended = false;
    while (!ended && rc >= 0 && (traveller->hops == 0 || times--)) {
        rc = read_here(actor, traveller);
        ended = rc == 0;
        if (rc == LOST)
            rc = 1;
    }
    if (rc < 0)
        return give_up(traveller, rc);
    if (ended) {
        if (traveller->read != traveller->bytes && !actor->act->hurry &&
            !actor->act->run->program->stops)
            program_fail(actor->act, "stream %d: %u of %u bytes came", traveller->number,
                         traveller->read, traveller->bytes);
        arrive(journey, traveller, actor->act->actor_count);
        return 0;
    }
    traveller->hops--;
    rc = coir_stream_detach(traveller->near);
    if (rc < 0)
        return give_up(traveller, rc);
    int next = (int)draw_from(&actor->random, 1, (unsigned)actor->act->actor_count - 1);
    return coir_channel_send(journey->stations[next], &traveller);
}

struct visit {
    struct actor *actor;
    struct traveller *traveller;
};

static int receive_visit(void *arg)
{
    const struct visit *visit = arg;
    int rc = stay(visit->actor, visit->traveller);
    const struct act *act = visit->actor->act;
    return rc < 0 && !act->hurry && !act->run->program->stops && rc != -ECANCELED
               ? actor_interrupted(visit->actor, rc)
               : rc;
}

/* Every stay is a task of its own: a stream that waits for its bytes keeps no other. */
static int be_a_station(struct actor *actor)
{
    struct journey *journey = actor->act->own;
    struct visit arrival = {actor, NULL};
    coir_go_options options = COIR_GO_OPTIONS;
    options.copy_size = sizeof arrival;
    options.name = "visit";
    int rc;
    COIR_SCOPE(scope);
    while ((rc = coir_channel_recv(journey->stations[actor->number], &arrival.traveller)) == 0)
        if ((rc = coir_go_with(scope, &options, receive_visit, &arrival)) < 0) {
            give_up(arrival.traveller, rc);
            break;
        }
    if (rc != -EPIPE)
        coir_scope_cancel(scope);
    int waited = coir_scope_wait(scope);
    return rc != -EPIPE ? rc : waited;
}

/* The first actor writes; meanwhile the act's own task lets the others go. */
static int play_journey(struct actor *actor)
{
    struct journey *journey = actor->act->own;
    int rc = 0;
    if (actor->number == 0) {
        rc = write_streams(actor);
    } else if (actor->number == 1) {
        if (journey->waits_for_bursts)
            rc = coir_event_wait(&journey->all_written);
        for (int i = 0; i < journey->streams && rc == 0; i++) {
            struct traveller *traveller = &journey->travellers[i];
            rc = coir_channel_send(journey->stations[1 + i % (actor->act->actor_count - 1)],
                                   &traveller);
        }
        if (rc == 0)
            rc = be_a_station(actor);
    } else {
        rc = be_a_station(actor);
    }
    if (rc < 0 && (actor->act->hurry || actor->act->run->program->stops))
        return -ECANCELED;
    return rc < 0 ? actor_interrupted(actor, rc) : 0;
}

static void end_journey(struct act *act)
{
    struct journey *journey = act->own;
    for (int i = 0; i < act->actor_count; i++)
        coir_channel_close(journey->stations[i]);
    for (int i = 0; i < journey->streams; i++) {
        coir_close(journey->travellers[i].near);
        coir_close(journey->travellers[i].far);
    }
}

static void check_journey(struct act *act)
{
    const struct journey *journey = act->own;
    if (act_complete(act))
        ACT_CHECK_EQ(act, journey->arrived, journey->streams);
}

static void free_journey(struct act *act)
{
    struct journey *journey = act->own;
    for (int i = 0; i < act->actor_count; i++)
        coir_channel_free(journey->stations[i]);
    free(journey->travellers);
    free(journey);
}

const struct act_kind act_handover = {
    .name = "handover",
    .weight = 4,
    .actors_least = 2,
    .actors_most = 5,
    .draw = draw_journey,
    .print = print_journey,
    .begin = begin_journey,
    .play = play_journey,
    .end = end_journey,
    .check = check_journey,
    .free = free_journey,
};

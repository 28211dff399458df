/* What the files of requests_sim.c share: the world, and its clients. */
#ifndef TEST_SIM_REQUESTS_H
#define TEST_SIM_REQUESTS_H

#include <coir/web.h>

#include "connections/fuzz.h"
#include "sim/chaos.h"

enum { CLIENTS_MOST = 4, VISITS_MOST = 8, BATCHES_MOST = 6 };

enum { LOOK = 50 }; /* ms: how often the server looks whether a client has named a moment */

struct visitor {
    int number;
    struct ci_random random;
    struct dialog dialog;
    coir_stream *stream;            /* NULL: it has closed it */
    coir_event changed;             /* by the writer, for the reader, and the other way */
    coir_time moved_at, drained_at; /* when the first drain since it connected began; 0: none did */
    coir_time sent_at[PIPELINE_MOST]; /* when the last byte of a request was taken */
    coir_time answered_at;            /* when the last answer before this one was complete; or 0 */
    size_t read_max;
    int reads_slowly, error; /* of the connection */
    bool strict;             /* nothing may go wrong from its begin on */
    char bytes[16384];
};

struct requests {
    coir_sim *sim;
    struct visitor visitors[CLIENTS_MOST];
    int clients, left;
    coir_link link;
    coir_serve_http_options options;
    coir_time patience;
    bool violent;

    coir_handle server; /* its task, and what becomes of it */
    coir_time serves_from, drains_from, rests_from;
    bool drains;      /* it is drained while it serves */
    bool hunts;       /* the server asks for a moment to be drained at */
    coir_time moment; /* when a client will send; 0: none has said so */
    bool over;
    struct chaos chaos;
};
extern struct requests requests;

static inline uint64_t sim_below(uint64_t bound)
{
    return coir_sim_random(requests.sim) % bound;
}

/* One batch: sends it and hears the answers, until all have come, or the connection has ended. */
void requests_converse(struct visitor *visitor);

/* How long what has been sent may take until the server has seen it. Over a simulated kernel it
 * sees late what has arrived: calls take time, and its threads are woken late. */
coir_time requests_under_way(void);

/* Closes in the middle of what another fiber does. */
void requests_leave(struct visitor *visitor, bool reset);

#endif

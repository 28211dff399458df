/* Everything that can go wrong, for the scenarios beside it: how much of what, the seed decides. */
#ifndef TEST_SIM_CHAOS_H
#define TEST_SIM_CHAOS_H

#include <coir.h>
#include <coir/sim.h>
#include <stdbool.h>

struct chaos {
    coir_sim *sim;
    coir_host *server, *fate;                   /* where chaos_task runs, which nothing befalls */
    coir_host *(*restart)(struct chaos *chaos); /* starts the server again */
    bool over;                                  /* the world is well again, and has been for a while */
};

/* Starts the server, and fate. 0 or -ENOMEM. */
int chaos_begin(struct chaos *chaos);

/* Runs so many clients, as tasks of one host, each with its number, to their end. The first error. */
int chaos_clients(struct chaos *chaos, coir_task_fn *client, int count);

/* Dies of an error that no fault explains: of the library's own making. Returns it. */
int chaos_explains(int rc);

uint64_t chaos_below(const struct chaos *chaos, uint64_t bound);

#endif

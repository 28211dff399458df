/* Everything that can go wrong, for the scenarios beside it: how much of what, the seed decides. */
#ifndef TEST_SIM_CHAOS_H
#define TEST_SIM_CHAOS_H

#include <coir.h>
#include <coir/sim.h>
#include <stdbool.h>

struct chaos {
    coir_sim *sim;
    coir_host *server, *fate;                   /* injects the faults, and has none */
    coir_host *(*restart)(struct chaos *chaos); /* starts the server again */
    bool recovers;                              /* no fault happens any more: visits are fewer */
    coir_time calm; /* between a client's visits then, at most; 0: 15 s. It lasts for 30 s */
    bool over;      /* the world is well again, and has been for a while */
};

/* The whole scenario: the server, fate, and so many clients, tasks of one host. Each visits again
 * and again while things go wrong, and once more when they have been well for a while: that visit
 * must succeed. */
int chaos_run(struct chaos *chaos, coir_sim *sim, int (*visit)(int client), int clients);

/* The whole of a scenario with one host: it runs `play`, and must end within 1,000 s. */
int chaos_run_alone(coir_sim *sim, int (*play)(void *), coir_host **ret_host);

/* Sleeps between two looks at what another host does: 1 ms at first (`*pause` is 0 then), then
 * twice as long as the last time, up to 1 s. Looks at equal, short intervals were most of what some
 * seeds did. */
int chaos_pause(coir_time *pause);

/* Waits until the host has ended; dies if it has not after `patience`. */
void chaos_await_end(coir_host *host, coir_time patience);

/* Runs both as tasks of one scope: the first error. */
int chaos_both(coir_task_fn *first, coir_task_fn *second, void *arg);

/* Sends back what it receives, until the client has ended or an error. */
int chaos_echo(coir_stream *stream, void *buf, size_t size);

/* -ETIME, often: nothing is lost by that. */
ssize_t chaos_read_soon(const struct chaos *chaos, coir_stream *stream, void *buf, size_t len);

/* Draws how hosts are configured: the smallest sizes often. */
int chaos_configure(coir_sim *sim);

/* Dies of an error that no fault explains: of the library's own making. Returns it. */
int chaos_explains(int rc);

/* Serves, again and again after errors that a fault explains, until it is cancelled. */
int chaos_keep_serving(int (*serve_once)(void));

uint64_t chaos_below(const struct chaos *chaos, uint64_t bound);

#endif

/* Signals: SIGINT and SIGTERM that stop runtimes; any others for sinks. Both are chained to the
 * handlers that were there. */
#ifndef CI_SYS_SIGNAL_H
#define CI_SYS_SIGNAL_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "coir/base.h"

struct ci_signal_mask {
    sigset_t mask;
    bool was_pending;
};

/* Called inside the signal handler: only what is safe there. */
typedef void ci_signal_fn(void *arg);

/* Whoever is to be told of SIGINT and SIGTERM. */
struct ci_signal_stop {
    struct ci_signal_stop *next;
    ci_signal_fn *fn;
    void *arg;
};

/* All that watch are told. A second signal while the first is being acted upon has its default
 * effect, and the program ends, unless somebody has begun to watch in between. Afterwards no
 * handler touches `stop`; with the last one the earlier handlers come back. */
void ci_signal_watch(struct ci_signal_stop *stop);
void ci_signal_unwatch(struct ci_signal_stop *stop);

/* What signals go to: a bit each in `pending`, and a write to the eventfd. */
struct ci_signal_sink {
    uint64_t wanted, pending;
    coir_fd eventfd;
};

/* 0, -EINVAL for a signal that cannot be caught, -ENOBUFS. */
int ci_signal_attach(struct ci_signal_sink *sink);

/* Afterwards no handler touches the sink; with the last sink of a signal its earlier handler
 * comes back. */
void ci_signal_detach(struct ci_signal_sink *sink);

/* Blocks SIGPIPE in the calling thread; what comes meanwhile is dropped before the old mask is
 * restored. */
void ci_signal_block_pipe(struct ci_signal_mask *ret_before);
void ci_signal_restore(const struct ci_signal_mask *saved);

#endif

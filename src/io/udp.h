/* A UDP socket, as the files of its calls share it.
 *
 * 1. A call that makes several operations holds the socket until it ends, and looks after each wait
 * whether it was closed: the descriptor's number may be another socket's by then. A closed socket
 * is freed by the last call that holds it. */
#ifndef CI_IO_UDP_H
#define CI_IO_UDP_H

#include "coir/udp.h"
#include "io/io.h"

struct coir_udp {
    struct ci_worker *worker;
    coir_fd fd;
    uint32_t holds;       /* calls that hold it (1) */
    in_port_t local_port; /* where it was opened with tell_local */
    bool is_unix;
    bool has_peer;
    bool was_passed; /* another process may have the same socket: its file is not removed */
    bool ancillary;  /* more than the bytes and the sender is asked for */
    bool closed;
};

/* Ends the hold of a call, with its result. */
int64_t ci_udp_leave(coir_udp *udp, int64_t result);

/* How long a send to a Unix socket whose queue is full waits before the next try: poll(2) reports
 * room only for the peer that the socket is connected to. */
extern const coir_time ci_udp_full_pause;

#endif

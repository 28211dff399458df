/* A UDP socket, as the files of its calls share it. */
#ifndef CI_IO_UDP_H
#define CI_IO_UDP_H

#include "coir/udp.h"
#include "io/io.h"

struct coir_udp {
    struct ci_worker *worker;
    coir_fd fd;
    in_port_t local_port; /* where it was opened with tell_local */
    bool is_unix;
    bool has_peer;
    bool was_passed; /* another process may have the same socket: its file is not removed */
};

/* How long a send to a Unix socket whose queue is full waits before the next try: poll(2) reports
 * room only for the peer that the socket is connected to. */
extern const coir_time ci_udp_full_pause;

#endif

/* The environment of programs in the simulated world (coir/sim.h): links, faults, name servers. */
#ifndef COIR_SIM_FAULTS_H
#define COIR_SIM_FAULTS_H

#include <coir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The link from one host to another. All zero: a perfect network. */
typedef struct coir_link {
    size_t size;        /* set by coir_sim_link */
    coir_time latency;  /* one way; COIR_NEVER: it is cut */
    coir_time jitter;   /* added to it: anything from 0 to this; datagrams overtake each other so */
    uint64_t bandwidth; /* [COIR_UNLIMITED] bytes a second, in each direction */
    /* probability that a datagram is lost, or a segment comes 200 ms late, as after a
     * retransmission */
    double loss;
    double duplicate; /* probability that a datagram comes twice */
    double reset;     /* probability, for each segment sent, that the connection is reset */
    double short_io;  /* probability that a read or a write moves less than it could */
    /* probability that a connection's first segment is dropped, as by a listener whose backlog is
     * full */
    double no_answer;
    /* nothing arrives: the streams' bytes wait for another link, and after some 40 s for an
     * -ETIMEDOUT */
    bool cut;
    bool one_way; /* this is from `a` to `b` alone */
} coir_link;

/* Faults of a host. Each is a probability, for one call or one operation. */
typedef struct coir_faults {
    size_t size;          /* set by coir_sim_faults */
    double no_descriptor; /* a socket, an accept or an open fails with -EMFILE or -ENFILE */
    /* a write, a send or an accept fails with -ENOBUFS; in the simulated kernel an accept may fail
     * with the network errors of accept(2) instead */
    double no_buffers;
    double no_memory; /* an allocation fails; so does an operation, with -ENOMEM */
    /* an operation is complete for up to a millisecond before its task is told: cancels come too
     * late */
    double late;
    /* the time of day jumps, when it is asked for, by up to an hour either way */
    double clock_jump;
    double disk_error; /* a read, write or sync of a file fails with -EIO */
    double disk_full;  /* a write to a file, or a new name, fails with -ENOSPC or -EDQUOT */
    double disk_short; /* a read or write of a file moves less than it could */
} coir_faults;

/* What the name servers of the world say about a name. A host that nothing was said about is found
 * by its name, at once, at its IPv4 address; of several hosts of one name, that is the one that was
 * started first, or has replaced it. Every other name is unknown. */
typedef struct coir_name_answer {
    size_t size; /* set by coir_sim_name */
    /* [those of the host of that name] numbers and names of hosts, separated by spaces:
     * "10.0.0.2 fd00::2 web". Host N of the world is 10.0.0.N and fd00::N; 192.0.2.0/24 and
     * 2001:db8::/32 never answer; to others there is no route. "": there is none */
    const char *addresses;
    /* before the IPv4 addresses are known; 0: no task waits for them, and nothing is cached */
    coir_time latency;
    coir_time latency_ipv6; /* the same for IPv6 */
    int error;              /* [0] instead of the IPv4 addresses, as -COIR_ENAMESERVER */
    int error_ipv6;         /* [0] instead of the IPv6 addresses */
} coir_name_answer;

/* How many faults of a run a coir_sim_result keeps, and how many bytes about what was left open. */
enum { COIR_SIM_FAULTS_KEPT = 4096, COIR_SIM_LEFT_MAX = 256 };

#ifdef __cplusplus
}
#endif

#endif

/* The types of sockets that the calls share with the drivers below them: options and state of a TCP
 * connection, addresses, datagrams, and the credentials of a Unix socket's peer. */
#ifndef COIR_SOCKET_H
#define COIR_SOCKET_H

#include <coir/base.h>

/* Options of a TCP stream. Connections begin with COIR_TCP_NODELAY set. */
enum coir_tcp_option {
    COIR_TCP_NODELAY = 1,    /* 0 or 1: send small pieces at once */
    COIR_TCP_KEEPALIVE,      /* 0, or seconds without traffic after which the peer is probed */
    COIR_TCP_SEND_BUFFER,    /* bytes of the kernel's buffer */
    COIR_TCP_RECEIVE_BUFFER, /* likewise */
    COIR_TCP_RESET_ON_CLOSE, /* 0 or 1: coir_close resets the connection, and what was not sent yet
                               is lost; the peer's calls fail with -ECONNRESET (SO_LINGER with a
                               time of 0; with any other the system would block the worker) */
    COIR_TCP_USER_TIMEOUT,   /* 0, or milliseconds that sent bytes may stay without an answer before
                                the connection ends with -ETIMEDOUT */
    COIR_TCP_KEEPALIVE_INTERVAL, /* seconds between probes */
    COIR_TCP_KEEPALIVE_COUNT     /* probes without an answer after which the connection ends */
};

/* What the system knows of a TCP connection; coir_tcp_info_get fills it in. */
typedef struct coir_tcp_info {
    size_t size;             /* sizeof(coir_tcp_info), set by COIR_TCP_INFO */
    coir_time rtt;           /* the round trip time, smoothed */
    coir_time rtt_deviation; /* its mean deviation */
    coir_time last_received; /* since bytes came last */
    uint64_t retransmits;    /* segments that were sent again */
    uint64_t unacknowledged; /* segments that were sent and not acknowledged yet */
    uint64_t window;         /* the congestion window, in segments */
    uint64_t segment_size;   /* bytes of a full segment */
} coir_tcp_info;

#define COIR_TCP_INFO                              \
    {                                              \
        sizeof(coir_tcp_info), 0, 0, 0, 0, 0, 0, 0 \
    }

/* The most descriptors that go with one send: what Linux allows. */
enum { COIR_UNIX_FDS_MAX = 253 };

/* An address in the system's form: a sockaddr_storage. */
typedef struct coir_address {
    uint64_t opaque[20];
} coir_address;

/* How many datagrams one coir_udp_send_many or coir_udp_recv_many moves at most. */
enum { COIR_DATAGRAMS_MAX = 32 };

/* A datagram to be sent or received. Of an array, the first is initialised with COIR_DATAGRAM, and
 * the others with that or with zeros. A receive changes what is marked as received. */
typedef struct coir_datagram {
    size_t size; /* sizeof(coir_datagram), set by COIR_DATAGRAM: of the first, that of all */
    void *data;  /* its bytes, the caller's */
    size_t room; /* bytes that can be received there */
    size_t len;  /* bytes to be sent; received: bytes that came */
    size_t cut;  /* received: bytes that came too, and are lost, as there was no room for them */
    coir_address peer; /* to whom (none: the peer of the socket); received: from whom */
    /* from which address of this machine (none: the system chooses); received, if the socket was
     * opened with tell_local: to which one it was sent */
    coir_address local;
    unsigned interface; /* received with tell_local: the number of the interface it came by */
    /* several datagrams of this length (the last may be shorter), one after the other, cut apart by
     * the system (GSO); received, if the socket was opened with merge: put together by the system
     * (GRO). 0: it is one datagram */
    uint16_t segment_len;
    /* congestion notification (RFC 3168): 0 none, 1 and 2 capable, 3 congestion experienced;
     * received, if the socket was opened with tell_ecn */
    uint8_t ecn;
} coir_datagram;

#define COIR_DATAGRAM                                            \
    {                                                            \
        sizeof(coir_datagram), 0, 0, 0, 0, {{0}}, {{0}}, 0, 0, 0 \
    }

/* A process that connected, or that listened, as coir_unix_peer tells. */
typedef struct coir_credentials {
    size_t size; /* sizeof(coir_credentials), set by COIR_CREDENTIALS */
    pid_t pid;   /* 0: unknown */
    uid_t uid;   /* its user */
    gid_t gid;   /* its group */
} coir_credentials;

#define COIR_CREDENTIALS                  \
    {                                     \
        sizeof(coir_credentials), 0, 0, 0 \
    }

#endif

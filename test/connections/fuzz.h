/* A seeded fuzzer of HTTP connections against a real server.
 *
 * A seed is one run: a server process of its own (server.c), some clients that all talk to it from
 * one poll loop (run.c, client.c), and at the end a look at what the server has left.
 *
 * 1. Each client is a random walk of batches: one to a few requests, valid or broken, written into
 *    one buffer together with what the server must answer to each (model.c, broken.c), and a plan
 *    of how it is sent: pieces, pauses, a half-close, a reset. A batch is over when everything
 *    that was due has come.
 * 2. Every byte that comes is checked against the model (answer.c); so is every end of a
 * connection.
 * 3. Liveness does not depend on how fast the machine is. A client is unanswered when something is
 *    due, nothing moves, and all threads of the server are asleep; or after a long time anyway.
 * 4. Events of one connection wake a worker that is deaf to another. So there are phases in which
 *    one client acts and all others are silent, with the server in the state that a crowd left.
 * 5. The client uses nothing of coir but its random numbers.
 */
#ifndef TEST_CONNECTIONS_FUZZ_H
#define TEST_CONNECTIONS_FUZZ_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/random.h"

enum { PIPELINE_MOST = 8, ACTIONS_MOST = 24, EVENTS_KEPT = 256, EVENT_BYTES = 48 };
enum { MILLISECOND = 1000 * 1000 };
#define SECOND ((int64_t)1000 * MILLISECOND)

int64_t time_now(void); /* nanoseconds */

static inline size_t below(struct ci_random *random, size_t bound)
{
    return (size_t)ci_random_below(random, bound);
}

/* True once in `n` times. */
static inline bool one_in(struct ci_random *random, size_t n)
{
    return below(random, n) == 0;
}

/* The bytes of bodies, in both directions. */
static inline char pattern(unsigned seed, size_t at)
{
    return (char)('a' + (seed + at * 7 + (at >> 5)) % 26);
}

/* Of a body that the server was sent; begins with HASH_BEGIN. */
#define HASH_BEGIN 0xcbf29ce484222325u
static inline uint64_t hash_more(uint64_t hash, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return hash;
}

/* ---- what the server must say ---- */

enum body { BODY_NONE, BODY_TEXT, BODY_PATTERN, BODY_ANY };
enum framing { BY_LENGTH, BY_CHUNKS, BY_CLOSE };

struct expect {
    int status;
    enum body body;
    enum framing framing;
    unsigned seed;     /* of a BODY_PATTERN */
    size_t len;        /* of the body; of a BODY_ANY unknown */
    char text[40];     /* of a BODY_TEXT */
    bool head;         /* to a HEAD: no body, whatever the head says */
    bool allow;        /* there is a field Allow */
    bool says_close;   /* "Connection: close" and the end of the connection */
    bool may_close;    /* the same, if it says so */
    bool may_end;      /* the end behind it, though it does not say so: its handler failed late */
    bool says_keep;    /* "Connection: keep-alive", to HTTP/1.0 */
    bool continue_may; /* a 100 may come before it */
    bool cut;          /* the body ends too early, with the connection */
    bool loose;        /* the request was cut off: this, 400, 408, a part, or nothing; the end */
};

/* An answer as it comes. Start with all zero. */
struct answer {
    int state, status;
    char head[4096];
    size_t head_len;
    uint64_t left; /* of the body, or of the chunk */
    size_t body_len;
    uint64_t chunk;
    int line_len;
    bool has_length, chunked, close, keep, date, allow, said_continue;
};

enum took { TOOK_MORE, TOOK_CONTINUE, TOOK_ALL, TOOK_WRONG };

/* Takes bytes of one answer; *used says how many. TOOK_ALL: it is complete and right. TOOK_WRONG:
 * *ret_error says why. */
enum took answer_take(struct answer *answer, const struct expect *expect, const char *bytes,
                      size_t len, size_t *used, const char **ret_error);

/* Whether the end of the connection may come now: NULL, or what is wrong with that. */
const char *answer_end(const struct answer *answer, const struct expect *expect);

/* ---- what is sent ---- */

/* The server's limits, each of which requests reach and pass by one. line_max is 100 or more, and
 * head_max 1,000 more than that. */
struct limits {
    size_t line_max, head_max, body_max;
    size_t download_max; /* of what is asked for */
};
extern struct limits limits;

struct request {
    size_t from, head_end, to; /* in the batch's bytes */
    bool waits;                /* for a 100 before the body */
    bool broken;
    struct expect expect;
};

enum action_kind { PAUSE, WAIT_CONTINUE, HALF_CLOSE, CLOSE, RESET };

/* To be done when all bytes before `at` have been sent. */
struct action {
    size_t at;
    enum action_kind kind;
    int ms, request;
};

struct batch {
    char *bytes;
    size_t len, capacity;
    struct request requests[PIPELINE_MOST];
    int count;   /* requests that are to be answered; behind one that closes there may be more bytes
                  */
    bool closed; /* the last of them ends the connection */
    struct action actions[ACTIONS_MOST]; /* in order of `at` */
    int action_count;
    size_t piece_max;
    size_t reset_after; /* reset once so many bytes have come; 0: never */
};

void batch_make(struct batch *batch, struct ci_random *random);
void batch_put(struct batch *batch, const char *bytes, size_t len);
void batch_text(struct batch *batch, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends a request at one of the limits, or one beside it. */
void edge_make(struct batch *batch, struct request *request, struct ci_random *random);

/* Appends a request that is to be refused, with what is to be said. */
void broken_make(struct batch *batch, struct request *request, struct ci_random *random);

/* ---- what the server does (handlers.c) ---- */

struct coir_router;
int handlers_route(struct coir_router *router);

/* ---- the server's process ---- */

struct stats {
    long tasks, stacks, connections, requests, bytes;
};

struct server {
    pid_t pid;
    int port, log; /* a file with what it printed to standard error */
    const char *driver;
    unsigned workers;
    bool tls; /* between the clients and it (tls.c) */
};

/* Ends the process when the server does. `ready` gets the port as text. */
void server_main(const struct server *server, int send_buffer, int ready) __attribute__((noreturn));

/* Starts a server; false: it did not start, which has been printed. send_buffer: of its sockets. */
bool server_start(struct server *server, const char *driver, unsigned workers, bool tls,
                  int send_buffer);
bool server_ended(struct server *server, int *ret_status);
bool server_asleep(const struct server *server); /* all its threads */
long server_descriptors(const struct server *server);
long server_resident(const struct server *server); /* KiB */

/* Asks it by a request. False: no answer. */
bool server_stats(const struct server *server, struct stats *ret_stats);

/* Asks it to end, and waits: its status, or -1 when it did not end in time. */
int server_stop(struct server *server);
void server_kill(struct server *server);
void server_print_log(const struct server *server);

/* ---- a dialog: what one connection sends, and what it has to get ---- */

/* Independent of where the bytes go: the fuzzer has sockets (client.c), the simulation has streams
 * (test/sim/requests_sim.c). The owner sends what dialog_next says, hands over what comes, and ends
 * the connection when `active` is false though a close is due. */
struct dialog {
    struct ci_random *random;
    struct batch batch;
    bool active; /* a batch is in progress */

    /* sending */
    size_t sent;
    int action;
    int waiting; /* the request whose 100 is waited for, or -1 */
    bool send_over, half_closed, half_close_due;

    /* receiving */
    struct answer answer;
    int answering;
    size_t received;
    bool end_due, may_end;
    bool draining; /* the server was asked to stop: any answer may be the last, and the end may come
                      between answers */

    long answered;
    char failure[200];
    void (*on)(struct dialog *dialog, char kind,
               long number); /* [none] what happened: see client.c */
};

void dialog_connected(struct dialog *dialog);
void dialog_begin(struct dialog *dialog); /* a batch */

/* What to do next: an action, which has been taken off (a WAIT_CONTINUE is done then); or (NULL) to
 * send *ret_len bytes. */
const struct action *dialog_next(struct dialog *dialog, const char **ret_bytes, size_t *ret_len);
bool dialog_can_send(const struct dialog *dialog);
void dialog_sent(struct dialog *dialog, size_t len);
void dialog_cannot_send(struct dialog *dialog);

void dialog_take(struct dialog *dialog, const char *bytes, size_t len);
void dialog_end(struct dialog *dialog, bool reset);

/* What the server owes, or NULL. */
const char *dialog_due(const struct dialog *dialog);
void dialog_fail(struct dialog *dialog, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- a client ---- */

struct event {
    int64_t time;
    char kind; /* of the list in print_event */
    long number;
    uint8_t len;
    char bytes[EVENT_BYTES];
};

struct client {
    int index, port;
    struct ci_random random;
    int fd; /* -1: not connected */
    struct dialog dialog;
    int64_t send_time; /* not before */
    size_t read_max;
    int64_t read_time, read_pause;
    int reads_slowly; /* how many reads more */
    bool small;       /* buffers */
    int64_t progress; /* when anything last moved */
    long connections;
    struct event *events;
    size_t event_count;
};

void client_init(struct client *client, int index, int port, uint64_t seed);
void client_free(struct client *client);
void client_begin(struct client *client);                     /* a batch */
short client_wants(const struct client *client, int64_t now); /* events of poll(2) */
int64_t client_next(const struct client *client,
                    int64_t now); /* the end of a pause; INT64_MAX: none */
void client_ready(struct client *client, short events, int64_t now);
void client_leave(struct client *client); /* in one of the ways to */

void client_print(const struct client *client);

/* ---- a run ---- */

struct settings {
    const char *program, *driver;
    unsigned workers; /* 0: the seed chooses */
    bool tls, verbose;
};

struct totals {
    uint64_t seeds, failed, connections, answers;
    long resident_most, bytes_most;
};

/* Runs a seed: true when it passed. Adds to *totals. */
bool run_seed(const struct settings *settings, uint64_t seed, struct totals *totals);

#endif

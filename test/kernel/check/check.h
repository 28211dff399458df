/* The simulated kernel checked against the real one. check_real draws a program of system calls
 * from a seed, makes the calls through sys/ on the real kernel, and prints each with its answer
 * (struct step, struct answer). check_model makes the same calls on the simulated kernel and
 * compares the answers.
 *
 *   draw.c, draw_unix.c, draw_families.c
 *                 chooses the next call
 *   act.c         makes it: sockets, epoll, poll, eventfd
 *   act_unix.c    makes it: Unix sockets
 *   act_ring.c    makes it: io_uring
 *   real.c        main of check_real, and what only the real kernel needs
 *   model.c       main of check_model, and what only the simulated kernel needs
 *
 * 1. After each call both kernels settle: everything that is under way arrives. What a call answers
 *    after that depends on the calls before it, and on choices of the kernel that outlast settling.
 * 2. The model forbids an answer when none of its tries gives it: first without chance (ci_kcalm),
 * then under seeds, which choose what else Linux may do.
 * 3. Answers name no descriptor, address, port or time. Open files are named by their slot.
 */
#ifndef TEST_KERNEL_CHECK_H
#define TEST_KERNEL_CHECK_H

#include <netinet/in.h>
#include <sys/un.h>

#include "base/check.h"
#include "base/random.h"
#include "sys/call.h"
#include "sys/eventpoll.h"
#include "sys/ring.h"
#include "sys/socket_call.h"

enum {
    SLOTS = 12,
    WORDS_MAX = 240,
    HELD_MAX = 64,
    REQUESTS_MAX = 64,
    BUFFERS = 4,
    BUFFER_SIZE = 256,
    ARENA = 1 << 18
};

enum op {
    OP_LISTEN,  /* a: slot; x: backlog; y: form; b: slot whose port it gets, or SLOTS */
    OP_CONNECT, /* a: slot, b: listener; x: buffer sizes; y: form, and | SIX: of AF_INET6 */
    OP_ACCEPT,  /* a: slot, b: listener */
    OP_SEND,    /* a; x: bytes; y: which call */
    OP_RECEIVE, /* a; x: bytes; y: which call */
    OP_FILL,    /* a: sends until nothing more is taken; b: its peer */
    OP_DRAIN,   /* a: receives until nothing more comes; b: its peer, or SLOTS */
    OP_SHUTDOWN,
    OP_LINGER,
    OP_ERROR,
    OP_CLOSE,
    OP_COPY,         /* a: slot, b: of what */
    OP_DATAGRAM,     /* a: slot; y: form; b: slot whose port it gets, or SLOTS */
    OP_ASSOCIATE,    /* a: datagram socket, b: its peer's slot; y: form */
    OP_SEND_TO,      /* a, b; x: bytes; y: form */
    OP_RECEIVE_FROM, /* a; x: bytes */
    OP_EVENTFD,
    OP_ADD,                 /* a: eventfd; x: number */
    OP_CLEAR,               /* a: eventfd */
    OP_POLL,                /* x: events */
    OP_EPOLL,               /* a: slot */
    OP_CONTROL,             /* a: epoll, b: slot; c: what; x: events */
    OP_WAIT,                /* a: epoll; x: events at most */
    OP_UNIX_LISTEN,         /* a: slot; x: backlog */
    OP_UNIX_CONNECT,        /* a: slot, b: listener; x: buffer sizes */
    OP_UNIX_REFUSE,         /* a: listener */
    OP_UNIX_PASS,           /* a; x: bytes; c: slot whose descriptor is sent with them */
    OP_UNIX_RECEIVE_PASSED, /* a; x: bytes; y: room for descriptors, or none */
    OP_UNIX_CREDENTIALS,
    OP_UNIX_DATAGRAM,     /* a: slot; x: with a name */
    OP_UNIX_ASSOCIATE,    /* a: datagram socket, b: its peer's slot */
    OP_UNIX_SEND_TO,      /* a, b; x: bytes */
    OP_UNIX_RECEIVE_FROM, /* a; x: bytes */
    OP_RING_RECEIVE,      /* a; x: bytes; y: flags; c: it polls first */
    OP_RING_SEND,         /* a; x: bytes; y: flags */
    OP_RING_RECEIVE_MESSAGE,
    OP_RING_SEND_MESSAGE,
    OP_RING_RECEIVE_ALL,    /* a: multishot, provided buffers */
    OP_RING_RECEIVE_CHOSEN, /* a: single-shot, provided buffers */
    OP_RING_POLL,           /* a; x: events; y: multishot */
    OP_RING_POLL_REMOVE,    /* x: name */
    OP_RING_CANCEL,         /* x: name */
    OP_RING_TAKE_BACK,      /* x: name */
    OP_RING_ACCEPT,         /* a: slot of the accepted, b: listener */
    OP_RING_CONNECT,        /* a: slot, b: listener; y: as OP_CONNECT */
    OP_RING_READ,           /* a: eventfd */
    OP_RING_WRITE,          /* a: eventfd */
    OP_RING_NOP,
    OP_RING_GIVE, /* x: how many buffers */
    OP_RING_SUBMIT,
    OP_RING_ENTER, /* x: completions wanted */
    OP_END,
    OP_COUNT
};
extern const char *const op_names[OP_COUNT];

/* The forms of a program's address, for any port: 127.x.y.z by the program's number, the same as an
 * IPv4-mapped one, ::1, ::. The others are only bound to: :: with IPV6_V6ONLY, and addresses that
 * the machine does not have (RFC 5737, RFC 3849): 192.0.2.1, the same IPv4-mapped, 2001:db8::1. */
enum form {
    FORM_FOUR,
    FORM_MAPPED,
    FORM_LOOPBACK,
    FORM_ANY,
    FORM_ANY_ALONE,
    FORM_OTHERS,
    FORM_OTHERS_MAPPED,
    FORM_OTHERS_SIX,
    FORM_COUNT
};
enum { SIX = 8 };

struct step {
    uint8_t op, a, b, c;
    uint32_t x, y;
};

struct answer {
    uint32_t count;
    int64_t words[WORDS_MAX];
};

enum kind {
    NONE,
    STREAM,
    LISTENER,
    DATAGRAM,
    EVENTFD,
    EPOLL,
    UNIX_STREAM,
    UNIX_LISTENER,
    UNIX_DATAGRAM,
    RESERVED
};

struct slot {
    enum kind kind;
    coir_fd fd;
    bool copied, sized, linger, shut;
    in_port_t port;       /* of a listener or datagram socket; kept when it is closed. 0: none */
    enum form form;       /* likewise, of the address that it is bound to */
    enum kind everywhere; /* likewise: the port was free at every address, for these sockets */
    bool associated;
    struct sockaddr_un name; /* as port, of a Unix socket that has one */
    socklen_t name_len;
    struct ci_eventpoll eventpoll;

    /* what the drawing of calls keeps in mind */
    uint32_t sent;    /* bytes, but for OP_FILL */
    uint32_t filled;  /* bytes that have filled the way to it, until it is drained */
    uint32_t pending; /* requests of the ring */
};

struct request {
    uint64_t name; /* 0: free */
    uint8_t op, slot, target;
    bool is_unix;
    char *buf;
    uint32_t len;
    struct msghdr *message;
};

/* One run of one program. */
struct game {
    uint64_t seed;
    uint32_t number; /* of the step */
    struct slot slots[SLOTS];
    bool has_ring;
    struct ci_ring ring;
    struct ci_ring_buffers buffers;
    struct request requests[REQUESTS_MAX];
    uint16_t held[HELD_MAX];
    uint32_t held_count, unsubmitted;
    size_t used;
    char *arena;
};

enum mode { MODE_EPOLL, MODE_POLL, MODE_RING, MODE_COUNT };
extern const char *const mode_names[MODE_COUNT];

void game_open(struct game *game, uint64_t seed, enum mode mode, char *arena);
void game_close(struct game *game);

/* Makes the call of `step` and lets the kernel settle. */
void act(struct game *game, const struct step *step, struct answer *answer);
void act_ring(struct game *game, const struct step *step, struct answer *answer);
void act_unix(struct game *game, const struct step *step, struct answer *answer);
void set_buffers(struct slot *slot, uint32_t which);
/* of the message, which has room for one in `control` */
void put_passed(const struct game *game, uint8_t passed, struct msghdr *message, char *control);
void say_passed(struct game *game, struct msghdr *message, struct answer *answer);
/* to: the address in the step's slot b, unless that is SLOTS */
int64_t send_datagram(struct game *game, const struct step *step, const void *to, socklen_t len);
/* False: an error, which it says. `from` has room for the sender's name. */
bool receive_datagram(struct game *game, const struct step *step, struct answer *answer,
                      struct msghdr *from, int64_t *ret_hash);
/* `form` may have SIX. */
socklen_t make_address(const struct game *game, uint32_t form, in_port_t port,
                       struct sockaddr_storage *ret_address);
char *arena_take(struct game *game, size_t len, bool with_data);
void say(struct answer *answer, int64_t word);
int64_t hash_bytes(const void *data, size_t len);
void close_slot(struct slot *slot);
void open_slot(struct game *game, uint8_t at, enum kind kind, coir_fd fd);

/* draw.c. False: the program has ended. */
bool draw_step(struct game *game, struct ci_random *random, enum mode mode, struct step *ret_step);

/* What the two kernels do each in its way. */
void kernel_settle(struct game *game);
void kernel_await(struct game *game, coir_fd fd); /* for bytes that have been sent */
coir_fd kernel_copy(coir_fd fd);
bool kernel_is_same_file(coir_fd a, coir_fd b); /* of two sockets */
bool kernel_keeps_port(unsigned port); /* for sockets that are bound: none connects from it */
int kernel_add(coir_fd fd, uint64_t number);

/* Whether no socket of the other type, such as one of an earlier program that the kernel has not
 * freed yet, has the name of this one, which it has chosen. */
bool kernel_is_own_name(const struct slot *slot);

/* How much OP_FILL is to come to the real kernel finds out, and the model is told. */
void kernel_prepare_fill(coir_fd fd);
/* of the next send, of `len` at most */
size_t kernel_fill_size(coir_fd fd, uint32_t sent, size_t len);
void kernel_end_fill(coir_fd fd);

#endif

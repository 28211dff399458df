/* A descriptor's slot: what readiness.c knows of it, what waits for it, and how it is registered
 * with the selector.
 *
 * A descriptor of coir's is registered once, edge-triggered, for the direction that is waited for
 * first, and for both as soon as the other one is. `ready` caches what the edges reported: an event
 * sets a bit, a call that would have blocked clears it (readiness_attempt.c).
 *
 * A poll with `op->once` that is alone makes that registration one-shot (3), so that nothing else
 * wakes the worker. Then nothing is cached: a bit of `ready` means that an attempt is worthwhile.
 * The next other operation that waits makes the registration edge-triggered again.
 *
 * One whose reads may end short at descriptors (`op->ancillary`) is registered level-triggered
 * while nothing but its reads waits, where that costs no more (`levels`): what a short read has
 * left is reported again. The first event that no read takes makes the registration edge-triggered
 * for good. Then a short read says nothing about what is left, unless recvmsg(2) tells what has
 * ended it.
 *
 * A descriptor of the program's has no cache: it may be closed, and its number reused, between two
 * waits. Each wait registers it again (one-shot), and so makes the kernel look at it
 * (readiness_register.c).
 *
 * 1. A descriptor of coir's is registered at most once.
 * 2. All operations of a watched descriptor are watches, for different events.
 * 3. A descriptor of coir's that is registered one-shot has at most one operation, a poll.
 */
#ifndef CI_DRIVER_READINESS_SLOT_H
#define CI_DRIVER_READINESS_SLOT_H

#include "driver/driver.h"
#include "driver/selector.h"

enum ci_slot_use {
    CI_SLOT_UNUSED,
    CI_SLOT_OURS, /* coir's own, except listeners */
    CI_SLOT_LISTENER,
    CI_SLOT_FOREIGN, /* the program's: this and the next one are the last */
    CI_SLOT_WATCHED,
};

struct ci_slot {
    struct ci_op *ops; /* pending */
    uint32_t generation;
    uint8_t ready; /* enum coir_events and event.h */
    uint8_t use;   /* enum ci_slot_use */
    bool registered : 1;
    bool once : 1;  /* registered, of a descriptor of coir's: one-shot */
    bool level : 1; /* registered, of a descriptor of coir's: level-triggered, for reads alone */
    /* of a descriptor of coir's: the directions that its registration reports; 0: it is not
     * registered, or one-shot */
    uint8_t events;
};

enum {
    CI_SLOT_GONE = COIR_HANGUP | COIR_EVENT_ERROR,
    CI_SLOT_ENDS = CI_EVENT_END | CI_SLOT_GONE, /* a read will not block from now on */
};

/* The events that make an attempt at an operation worthwhile. */
static inline uint8_t ci_slot_wanted_by(const struct ci_op *op)
{
    switch ((enum ci_op_kind)op->kind) {
    case CI_OP_READ:
    case CI_OP_READV:
    case CI_OP_RECEIVE:
    case CI_OP_RECEIVE_MANY:
    case CI_OP_ACCEPT: return COIR_READ | CI_SLOT_ENDS;
    case CI_OP_WRITE:
    case CI_OP_WRITEV:
    case CI_OP_SEND:
    case CI_OP_SEND_MANY:
    case CI_OP_CONNECT: return COIR_WRITE | CI_SLOT_GONE;
    case CI_OP_POLL:
    case CI_OP_FOREIGN:
    case CI_OP_WATCH:
    case CI_OP_FILE: break;
    }
    return (uint8_t)(op->events | CI_SLOT_GONE | (op->events & COIR_READ ? CI_EVENT_END : 0));
}

/* The directions whose edges an operation waits for: a hang-up can show in either (kqueue). */
static inline unsigned ci_slot_directions(const struct ci_op *op)
{
    unsigned wanted = ci_slot_wanted_by(op) & (COIR_READ | COIR_WRITE);
    return wanted ? wanted : COIR_READ | COIR_WRITE;
}

/* Whether the registration of a descriptor of coir's reports what the operation waits for. */
static inline bool ci_slot_reports(const struct ci_slot *slot, const struct ci_op *op)
{
    return !(ci_slot_directions(op) & ~(unsigned)slot->events);
}

/* Makes the system call of an operation. True: it has completed. */
bool ci_slot_call(struct ci_slot *slot, struct ci_op *op);

/* Attempts an operation for which the slot is ready. True: it has completed. */
static inline bool ci_slot_attempt(struct ci_slot *slot, struct ci_op *op)
{
    if (op->kind < CI_OP_POLL)
        return ci_slot_call(slot, op);
    op->result = ci_op_events(op, slot->ready);
    return true;
}

/* Asks the kernel what holds for a poll, and clears the other bits: a read or write that took
 * exactly what there was leaves its bit set. */
void ci_slot_look_again(struct ci_slot *slot, const struct ci_op *op);

/* Before an operation starts: resets a slot whose descriptor was used in another way before. */
void ci_slot_claim(struct ci_slot *slot, enum ci_slot_use use);
/* Before ci_slot_claim of a listener: resets the slot if it belongs to an earlier listener with the
 * same number. One worker's driver closes a listener; the others notice by its `op->len`. */
void ci_slot_claim_listener(struct ci_slot *slot, const struct ci_op *op);

/* Registers a descriptor of coir's whose registration does not report what the operation waits
 * for. */
int ci_slot_register(struct ci_selector *selector, struct ci_slot *slot, const struct ci_op *op);
/* After an event that no read of a level-triggered descriptor of coir's has taken. */
void ci_slot_end_level(struct ci_selector *selector, struct ci_slot *slot, coir_fd fd);
/* Registers a descriptor of coir's one-shot for a poll, which is to be its only operation. */
int ci_slot_register_once(struct ci_selector *selector, struct ci_slot *slot,
                          const struct ci_op *op);
/* Registers a foreign or watched descriptor, again, for the events that its operations wait for. */
int ci_slot_register_foreign(struct ci_selector *selector, struct ci_slot *slot, coir_fd fd);
void ci_slot_unregister(struct ci_selector *selector, struct ci_slot *slot, coir_fd fd);
/* Before an operation waits, where the selector has a `rearm`: an edge is reported only if it is
 * armed again. */
void ci_slot_rearm(struct ci_selector *selector, const struct ci_slot *slot,
                   const struct ci_op *op);

/* The events that the slot's operations wait for. */
unsigned ci_slot_interest(const struct ci_slot *slot);

#endif

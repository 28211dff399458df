/* Registrations of descriptors with the selector. */
#include <errno.h>

#include "base/check.h"
#include "driver/readiness_slot.h"

void ci_slot_claim(struct ci_slot *slot, enum ci_slot_use use)
{
    if (slot->use == use)
        return;
    slot->use = (uint8_t)use;
    slot->registered = slot->level = false;
    slot->events = 0;
    slot->generation++;
    slot->ready = COIR_READ | COIR_WRITE; /* unknown: worth an attempt */
}

void ci_slot_claim_listener(struct ci_slot *slot, const struct ci_op *op)
{
    if (ci_likely(slot->use == CI_SLOT_LISTENER && slot->generation == (uint32_t)op->len))
        return;
    slot->use = CI_SLOT_UNUSED;
    slot->generation = (uint32_t)op->len - 1; /* claim adds one */
}

/* Only what was waited for: of the other direction many a socket reports edges that nobody needs.
 * Room is reported with what arrives, by a Unix socket each time its peer has read, by one for
 * datagrams each time that one has left; each of them would end a wait. */
static unsigned directions_of(const struct ci_slot *slot, const struct ci_op *op)
{
    if (slot->use == CI_SLOT_LISTENER)
        return COIR_READ;
    return op->kind == CI_OP_CONNECT ? COIR_READ | COIR_WRITE /* it will be read */
                                     : ci_slot_directions(op);
}

static int add(struct ci_selector *selector, struct ci_slot *slot, coir_fd fd, unsigned events,
               enum ci_trigger trigger)
{
    ci_check(!slot->registered, "readiness_slot.h 1");
    int rc = selector->kind->add(selector, fd, slot->generation, events, trigger);
    if (rc ==
        -EEXIST) { /* left by a wait of the program for this number, whose file is still open */
        selector->kind->remove(selector, fd);
        rc = selector->kind->add(selector, fd, slot->generation, events, trigger);
    }
    slot->registered = rc == 0;
    return rc;
}

/* The directions that its operations wait for. */
static unsigned waited_for(const struct ci_slot *slot)
{
    unsigned events = 0;
    for (const struct ci_op *op = slot->ops; op; op = op->next)
        events |= ci_slot_directions(op);
    return events;
}

/* A registration that could not be modified may be gone (kqueue: ENOMEM): it is made anew for what
 * waits. Where that fails too, the next one that is made is for this as well. */
static CI_COLD void restore(struct ci_selector *selector, struct ci_slot *slot, coir_fd fd)
{
    unsigned events = slot->ops ? waited_for(slot) | slot->events : 0;
    ci_slot_unregister(selector, slot, fd);
    if (events && add(selector, slot, fd, events, CI_EDGE) == 0) {
        slot->events = (uint8_t)events;
        slot->once = slot->level = false;
    }
}

static enum ci_trigger trigger_of(const struct ci_selector *selector, const struct ci_slot *slot,
                                  const struct ci_op *op, unsigned events)
{
    if (slot->use == CI_SLOT_LISTENER)
        return op->shared ? CI_EDGE : CI_EXCLUSIVE;
    return op->ancillary && events == COIR_READ && selector->kind->levels ? CI_LEVEL : CI_EDGE;
}

int ci_slot_register(struct ci_selector *selector, struct ci_slot *slot, const struct ci_op *op)
{
    unsigned events =
        slot->registered ? COIR_READ | COIR_WRITE : directions_of(slot, op) | waited_for(slot);
    enum ci_trigger trigger = slot->registered ? CI_EDGE : trigger_of(selector, slot, op, events);
    ci_debug_check(!ci_slot_reports(slot, op), "readiness_slot.h 1");
    int rc = slot->registered ? selector->kind->modify(selector, op->fd, slot->generation, events,
                                                       trigger) /* reports what holds now */
                              : add(selector, slot, op->fd, events, trigger);
    if (rc == 0) {
        slot->events = (uint8_t)events;
        slot->once = false;
        slot->level = trigger == CI_LEVEL;
    } else if (slot->registered) {
        restore(selector, slot, op->fd);
    }
    return rc;
}

void ci_slot_end_level(struct ci_selector *selector, struct ci_slot *slot, coir_fd fd)
{
    slot->level = false;
    if (selector->kind->modify(selector, fd, slot->generation, slot->events, CI_EDGE) < 0)
        restore(selector, slot, fd);
}

int ci_slot_register_once(struct ci_selector *selector, struct ci_slot *slot,
                          const struct ci_op *op)
{
    unsigned wanted = ci_slot_wanted_by(op), events = wanted & (COIR_READ | COIR_WRITE);
    ci_check(!slot->ops, "readiness_slot.h 3");
    int rc = slot->registered
                 ? selector->kind->modify(selector, op->fd, slot->generation, events, CI_ONE_SHOT)
                 : add(selector, slot, op->fd, events, CI_ONE_SHOT);
    if (rc < 0)
        return rc;
    slot->once = true;
    slot->level = false;
    slot->events = 0;
    /* the registration reports whether `events` hold; of the other direction nothing is known */
    slot->ready = (uint8_t)((slot->ready | COIR_READ | COIR_WRITE) & ~wanted);
    return 0;
}

unsigned ci_slot_interest(const struct ci_slot *slot)
{
    unsigned events = 0;
    for (const struct ci_op *op = slot->ops; op; op = op->next)
        events |= op->events;
    return events;
}

int ci_slot_register_foreign(struct ci_selector *selector, struct ci_slot *slot, coir_fd fd)
{
    enum ci_trigger trigger = slot->use == CI_SLOT_WATCHED ? CI_LEVEL : CI_ONE_SHOT;
    int rc = slot->registered ? selector->kind->modify(selector, fd, slot->generation,
                                                       ci_slot_interest(slot), trigger)
                              : -ENOENT;
    if (rc == -ENOENT) {
        rc = selector->kind->add(selector, fd, slot->generation, ci_slot_interest(slot), trigger);
        if (rc == -EEXIST)
            rc = selector->kind->modify(selector, fd, slot->generation, ci_slot_interest(slot),
                                        trigger);
    }
    slot->registered = rc == 0;
    return rc;
}

void ci_slot_unregister(struct ci_selector *selector, struct ci_slot *slot, coir_fd fd)
{
    if (slot->registered)
        selector->kind->remove(selector, fd);
    slot->registered = slot->level = false;
    slot->events = 0;
}

void ci_slot_rearm(struct ci_selector *selector, const struct ci_slot *slot, const struct ci_op *op)
{
    if (slot->use != CI_SLOT_FOREIGN && slot->use != CI_SLOT_WATCHED)
        selector->kind->rearm(selector, op->fd, ci_slot_wanted_by(op));
}

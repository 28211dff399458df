#include "sim/models.h"

#include <errno.h>
#include <string.h>

/* ---- channels ---- */

struct channel_state {
    uint8_t count, capacity, overflow;
    bool closed;
    int16_t items[CHANNEL_ITEMS_MOST];
};

static void init_channel(void *of, const void *context)
{
    struct channel_state *state = of;
    const struct channel_shape *shape = context;
    size_t most = CHANNEL_ITEMS_MOST;
    state->capacity = (uint8_t)(shape->capacity < most ? shape->capacity : most);
    state->overflow = (uint8_t)shape->overflow;
}

/* What is not used stays zero, so that equal states have equal bytes. */
static int16_t take_first(struct channel_state *state)
{
    int16_t item = state->items[0];
    state->count--;
    memmove(state->items, state->items + 1, state->count * sizeof *state->items);
    state->items[state->count] = 0;
    return item;
}

/* -EAGAIN: it has to wait. */
static int send_to(struct channel_state *state, int16_t item)
{
    if (state->closed)
        return -EPIPE;
    if (state->count == (state->capacity ? state->capacity : 1)) {
        switch ((enum coir_overflow)state->overflow) {
        case COIR_OVERFLOW_WAIT: return -EAGAIN;
        case COIR_OVERFLOW_DROP_OLDEST: take_first(state); break;
        case COIR_OVERFLOW_DROP_NEWEST: return 0;
        case COIR_OVERFLOW_CLOSE: state->closed = true; return -EPIPE;
        case COIR_OVERFLOW_KEEP_LATEST:
            while (state->count)
                take_first(state);
            break;
        }
    }
    state->items[state->count++] = item;
    return 0;
}

static bool step_channel(void *of, const struct history_op *op)
{
    struct channel_state *state = of;
    bool empty = !state->count;
    switch ((enum channel_kind)op->kind) {
    case CHANNEL_TRY_SEND:
        if (op->ret == -EAGAIN && !state->capacity)
            return !state->closed; /* the model does not know whether a receiver waits */
        return send_to(state, (int16_t)op->arg) == op->ret;
    case CHANNEL_SEND: return op->ret != -EAGAIN && send_to(state, (int16_t)op->arg) == op->ret;
    case CHANNEL_TRY_RECV:
    case CHANNEL_RECV:
        if (op->ret == -EAGAIN)
            return op->kind == CHANNEL_TRY_RECV && empty && !state->closed;
        return empty ? state->closed && op->ret == -EPIPE : take_first(state) == op->ret;
    case CHANNEL_CLOSE: state->closed = true; return true;
    }
    return false;
}

static const char *const channel_kinds[] = {"send", "try_send", "recv", "try_recv", "close"};
const struct history_model channel_model = {channel_kinds, sizeof(struct channel_state),
                                            init_channel, step_channel};

static const struct history_op *find_receive(const struct history *history, int64_t item)
{
    for (size_t i = 0; i < history->count; i++) {
        const struct history_op *op = &history->ops[i];
        if ((op->kind == CHANNEL_RECV || op->kind == CHANNEL_TRY_RECV) && op->ret == item)
            return op;
    }
    return NULL;
}

bool history_check_meetings(const struct history *history)
{
    for (size_t i = 0; i < history->count; i++) {
        const struct history_op *send = &history->ops[i];
        if (send->kind > CHANNEL_TRY_SEND || send->ret != 0)
            continue;
        const struct history_op *receive = find_receive(history, send->arg);
        if (!receive || receive->invoked > send->returned || send->invoked > receive->returned)
            return false;
    }
    return true;
}

/* ---- a register ---- */

static bool step_register(void *of, const struct history_op *op)
{
    int64_t *value = of, before = *value;
    switch ((enum register_kind)op->kind) {
    case REGISTER_READ: return op->open || before == op->ret;
    case REGISTER_WRITE: *value = op->arg; return true;
    case REGISTER_ADD: *value += op->arg; return op->open || before == op->ret;
    }
    return false;
}

static const char *const register_kinds[] = {"read", "write", "add"};
const struct history_model register_model = {register_kinds, sizeof(int64_t), NULL, step_register};

/* ---- a semaphore ---- */

static void init_semaphore(void *of, const void *context)
{
    *(int64_t *)of = *(const int64_t *)context;
}

static bool step_semaphore(void *of, const struct history_op *op)
{
    int64_t *units = of;
    switch ((enum semaphore_kind)op->kind) {
    case SEMAPHORE_TRY:
        if (op->ret == -EAGAIN)
            return op->arg < 0 || *units < op->arg;
        *units -= op->arg < 0 ? -op->arg : op->arg;
        return op->ret == 0 && *units >= 0;
    case SEMAPHORE_ACQUIRE: return op->ret == 0 && (*units -= op->arg) >= 0;
    case SEMAPHORE_RELEASE: *units += op->arg; return true;
    case SEMAPHORE_UNITS: return *units == op->ret;
    }
    return false;
}

static const char *const semaphore_kinds[] = {"acquire", "try_acquire", "release", "units"};
const struct history_model semaphore_model = {semaphore_kinds, sizeof(int64_t), init_semaphore,
                                              step_semaphore};

/* ---- a latest value ---- */

struct latest_state {
    int64_t version, value, closed;
};

static void init_latest(void *of, const void *context)
{
    (void)context;
    ((struct latest_state *)of)->version = 1;
}

static bool step_latest(void *of, const struct history_op *op)
{
    struct latest_state *state = of;
    switch ((enum latest_kind)op->kind) {
    case LATEST_SET:
        if (!state->closed) {
            state->version++;
            state->value = op->arg;
        }
        return true;
    case LATEST_GET: return op->ret == state->version * 1000 + state->value;
    case LATEST_WAIT:
        if (state->version != op->arg)
            return op->ret == 0;
        return state->closed && op->ret == -EPIPE;
    case LATEST_CLOSE: state->closed = true; return true;
    }
    return false;
}

static const char *const latest_kinds[] = {"set", "get", "wait", "close"};
const struct history_model latest_model = {latest_kinds, sizeof(struct latest_state), init_latest,
                                           step_latest};

/* ---- an event ---- */

static bool step_event(void *of, const struct history_op *op)
{
    int64_t *set = of;
    switch ((enum event_kind)op->kind) {
    case EVENT_SET: *set = 1; return true;
    case EVENT_RESET: *set = 0; return true;
    case EVENT_WAIT: return *set && op->ret == 0;
    case EVENT_IS_SET: return *set == op->ret;
    }
    return false;
}

static const char *const event_kinds[] = {"set", "reset", "wait", "is_set"};
const struct history_model event_model = {event_kinds, sizeof(int64_t), NULL, step_event};

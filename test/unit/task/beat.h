/* A frame that sleeps three times 10 ms; its result is 13, or the error of a sleep. */
#ifndef TEST_UNIT_TASK_BEAT_H
#define TEST_UNIT_TASK_BEAT_H

#include <coir.h>
#include <string.h>

struct beat {
    coir_future future;
    coir_sleep_op pause;
    int count, sent;
    int error;
};

static inline coir_future *beat_poll(coir_future *future)
{
    struct beat *self = coir_frame(future, struct beat);
    COIR_BEGIN(future);
    for (self->count = 0; self->count < 3; self->count++) {
        switch (self->count) {
        case 1: self->sent += 10;
        /* fallthrough */
        default: COIR_AWAIT(future, coir_sleep_for_op(&self->pause, 10 * COIR_MS)); self->sent++;
        }
        if (self->pause.future.result < 0)
            COIR_RETURN(future, self->pause.future.result);
    }
    COIR_RETURN(future, self->sent);
    COIR_END(future);
}

static const coir_future_kind beat_kind = COIR_FUTURE_KIND("beat", beat_poll, NULL);

static inline struct beat *make_beat(struct beat *beat)
{
    memset(beat, 0, sizeof *beat);
    coir_future_init(&beat->future, &beat_kind);
    return beat;
}

#endif

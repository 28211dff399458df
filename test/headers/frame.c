/* A frame, as users write one: compiled by tools/check-headers as C and as C++ of every year. */
#include <coir.h>

struct beat {
    coir_future future;
    coir_sleep_op pause;
    int count;
};

static coir_future *beat_poll(coir_future *future)
{
    struct beat *self = coir_frame(future, struct beat);
    COIR_BEGIN(future);
    for (self->count = 0; self->count < 3; self->count++) {
        switch (self->count) {
        case 1: COIR_AWAIT(future, coir_sleep_for_op(&self->pause, 100 * COIR_MS)); break;
        default: COIR_YIELD(future, self->count);
        }
        if (self->pause.future.result < 0)
            COIR_RETURN(future, self->pause.future.result);
    }
    COIR_END(future);
}

static const coir_future_kind beat_kind = COIR_FUTURE_KIND("beat", beat_poll, 0);

int run_beat(struct beat *beat);
int run_beat(struct beat *beat)
{
    coir_branch one = COIR_BRANCH(coir_future_init(&beat->future, &beat_kind));
    COIR_SCOPE(scope);
    coir_case waits[2] = {coir_case_after(COIR_S), coir_case_at(COIR_NEVER)};
    return coir_select(waits, 2) + coir_any(&one, 1) + coir_scope_wait(scope);
}

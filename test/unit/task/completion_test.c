/* Completions. */
#include <coir.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

struct beat {
    coir_future future;
    coir_sleep_op pause;
    int count, sent;
    int error;
};

static coir_future *beat_poll(coir_future *future)
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

static struct beat *make_beat(struct beat *beat)
{
    memset(beat, 0, sizeof *beat);
    coir_future_init(&beat->future, &beat_kind);
    return beat;
}

struct done {
    struct beat beat;
    coir_completion completion;
    int *result;
};

static void on_done(int64_t result, void *arg)
{
    struct done *done = arg;
    *done->result = (int)result;
    free(done);
}

TEST_SIM(a_completion_calls_back_and_may_free_everything)
{
    COIR_SCOPE(scope);
    int result = 0;
    struct done *done = malloc(sizeof *done);
    done->result = &result;
    CHECK_EQ(coir_completion_start(scope, &done->completion, &make_beat(&done->beat)->future,
                                   on_done, done),
             0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(result, 13);
}

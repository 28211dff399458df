/* Completions. */
#include <coir.h>
#include <stdlib.h>
#include <string.h>

#include "beat.h"
#include "harness.h"
#include "sys/misuse.h"

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

TEST_SIM(a_completion_needs_a_future_that_was_made)
{
    coir_completion completion;
    coir_future unmade = {0};
    ci_misuse_aborts = false;
    CHECK_EQ(coir_completion_start(NULL, &completion, &unmade, on_done, NULL), -EINVAL);
}

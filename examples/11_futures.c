/* Tasks without a stack: a future is a struct, its locals are its fields. Here a thousand of them
 * sleep, and one waits for them all. */
#include <coir.h>
#include <stdio.h>

struct beat {
    coir_future future;
    coir_sleep_op pause;
    int number, count;
};

static int beats;

static coir_future *beat_poll(coir_future *future)
{
    struct beat *self = coir_frame(future, struct beat);
    COIR_BEGIN(future);
    for (self->count = 0; self->count < 3; self->count++) {
        COIR_AWAIT(future, coir_sleep_for_op(&self->pause, self->number % 10 * COIR_MS));
        if (self->pause.future.result < 0)
            COIR_RETURN(future, self->pause.future.result); /* cancelled, or too late */
        beats++;
    }
    COIR_END(future);
}

static const coir_future_kind beat_kind = COIR_FUTURE_KIND("beat", beat_poll, 0);

static int straight_line(void *arg) /* a function that suspends is a future, too */
{
    (void)arg;
    int rc = coir_sleep_for(5 * COIR_MS);
    return rc < 0 ? rc : 42;
}

static int start(void *arg)
{
    (void)arg;
    static struct beat all[1000];
    {
        COIR_SCOPE(scope);
        for (int i = 0; i < 1000; i++) {
            all[i].number = i;
            coir_go_future(scope, coir_future_init(&all[i].future, &beat_kind));
        }
        int rc = coir_scope_wait(scope);
        printf("%d beats, %s\n", beats, coir_strerror(rc));
    }
    coir_call call;
    coir_sleep_op limit;
    coir_branch race[] = {COIR_BRANCH(coir_call_init(&call, straight_line, NULL)),
                          COIR_BRANCH(coir_sleep_for_op(&limit, COIR_S))};
    int winner = coir_any(race, 2);
    printf("number %d won with %d; the other: %s\n", winner, (int)race[winner].future->result,
           coir_strerror(race[!winner].future->result));
    return 0;
}

int main(void)
{
    return coir_main(start, NULL);
}

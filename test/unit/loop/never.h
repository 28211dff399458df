/* Callbacks of a loop that must not be called. */
#ifndef TEST_UNIT_LOOP_NEVER_H
#define TEST_UNIT_LOOP_NEVER_H

#include <coir/loop.h>

#include "harness.h"

static inline void never_event(coir_loop *loop, coir_watch *watch, int events, void *arg)
{
    (void)loop, (void)watch, (void)events, (void)arg;
    CHECK(false);
}

static inline void never_hook(coir_loop *loop, coir_hook *hook, void *arg)
{
    (void)loop, (void)hook, (void)arg;
    CHECK(false);
}

static inline void never_timer(coir_loop *loop, coir_timer *timer, void *arg)
{
    never_hook(loop, NULL, timer ? arg : NULL);
}

#endif

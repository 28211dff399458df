/* Misuse: calls of the program that are wrong in every circumstance (outside of a fiber, on an
 * object that is not open, started twice, without a function). Each returns an error of its own,
 * and is named: the call, what is wrong, and the place it was made from. A debug build writes that
 * to stderr and aborts; any other writes it to the log of the runtime whose worker made the call.
 */
#ifndef CI_SYS_MISUSE_H
#define CI_SYS_MISUSE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

extern bool ci_misuse_aborts; /* in debug builds; tests that ask for the errors turn it off */

/* Where it is written otherwise (task/log.c); NULL: nowhere. False: there is no log here. Without a
 * line it only says that. */
struct coir_runtime;
extern bool (*ci_misuse_log)(const struct coir_runtime *runtime, const char *line);

/* Returns `error`, or aborts. `what` is wrong, and what to do: a literal, or "" where the text of
 * the error says it all; `place` is the return address of the public call, NULL where a future is
 * polled long after the call that made it. What a place does again and again is logged once. */
CI_COLD int ci_misused(int error, const char *what, const char *call, const void *place);

/* In the log of `runtime`; NULL: of that of the calling worker. */
CI_COLD int ci_misused_in(const struct coir_runtime *runtime, int error, const char *what,
                          const char *call, const void *place);

/* Every place is new again: for a simulated world, whose runs are alike. */
void ci_misuse_forget(void);

/* For public functions only: elsewhere they would name a function of coir's and a place in it. The
 * functions that a public one calls get them as parameters `call` and `place`. */
#define CI_CALL __func__
#define CI_PLACE __builtin_return_address(0)
#define CI_MISUSE(error, ...) ci_misused((error), "" __VA_ARGS__, CI_CALL, CI_PLACE)

/* For a public function that returns the result of another: of its errors, `error` is misuse. */
static inline int ci_misuse_if(int error, int rc, const char *what, const char *call,
                               const void *place)
{
    return ci_unlikely(rc == error) ? ci_misused(error, what, call, place) : rc;
}
#define CI_MISUSE_IF(error, rc, ...) ci_misuse_if((error), (rc), "" __VA_ARGS__, CI_CALL, CI_PLACE)

/* For a public function that returns no error: whether it does nothing because of a misuse; the
 * second one because its arguments are wrong. */
#define CI_REFUSED_AS(error, wrong, ...) \
    (ci_unlikely(wrong) && ((void)CI_MISUSE(error, __VA_ARGS__), true))
#define CI_REFUSED(wrong, ...) CI_REFUSED_AS(-EINVAL, wrong, __VA_ARGS__)

#endif

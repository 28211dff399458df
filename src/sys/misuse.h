/* Misuse: calls of the program that are wrong in every circumstance (outside of a fiber, on an
 * object that is not open, started twice, without a function). Each returns an error of its own; a
 * debug build aborts, and names the call and the place it was made from. */
#ifndef CI_SYS_MISUSE_H
#define CI_SYS_MISUSE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

extern bool ci_misuse_aborts; /* in debug builds; tests that ask for the errors turn it off */

/* Returns `error`, or aborts. `place` is the return address of the public call. */
CI_COLD int ci_misused(int error, const char *call, const void *place);

/* For public functions only: elsewhere they would name a function of coir's and a place in it. The
 * functions that a public one calls get them as parameters `call` and `place`. In release builds
 * both are NULL, and cost nothing. */
#define CI_CALL (CI_DEBUG ? __func__ : NULL)
#define CI_PLACE (CI_DEBUG ? __builtin_return_address(0) : NULL)
#define CI_MISUSE(error) ci_misuse(error, CI_CALL, CI_PLACE)
static inline int ci_misuse(int error, const char *call, const void *place)
{
    return CI_DEBUG ? ci_misused(error, call, place) : error;
}

/* For a public function that returns the result of another: of its errors, `error` is misuse. */
static inline int ci_misuse_if(int error, int rc, const char *call, const void *place)
{
    return CI_DEBUG && rc == error ? ci_misused(error, call, place) : rc;
}
#define CI_MISUSE_IF(error, rc) ci_misuse_if(error, rc, CI_CALL, CI_PLACE)

/* For a public function that returns no error: whether it does nothing because its arguments are
 * wrong. */
static inline bool ci_misuse_refused(bool wrong, const char *call, const void *place)
{
    if (ci_likely(!wrong))
        return false;
    if (CI_DEBUG)
        ci_misused(-EINVAL, call, place);
    return true;
}
#define CI_REFUSED(wrong) ci_misuse_refused((wrong), CI_CALL, CI_PLACE)

#endif

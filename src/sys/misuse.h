/* Calls of the program's that cannot be right, whatever else happens: outside of a fiber, on what is not
 * open, started twice, without a function. Each gets an error of its own; in debug builds the program
 * ends there, and says which call it was, and from where. */
#ifndef CI_SYS_MISUSE_H
#define CI_SYS_MISUSE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

extern bool ci_misuse_aborts; /* in debug builds; tests that ask for the errors turn it off */

/* Returns `error`, if at all. `place` is inside of the program's function that made the call. */
CI_COLD int ci_misused(int error, const char *call, const void *place);

/* Where it is used: in a public function, or in what is inlined into one. Other builds do not pay for it. */
#define CI_CALL (CI_DEBUG ? __func__ : NULL)
#define CI_PLACE (CI_DEBUG ? __builtin_return_address(0) : NULL)
#define CI_MISUSE(error) (CI_DEBUG ? ci_misused(error, CI_CALL, CI_PLACE) : (error))

#endif

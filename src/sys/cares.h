/* Whether this build has c-ares. */
#ifndef CI_SYS_CARES_H
#define CI_SYS_CARES_H

#include <stdbool.h>

extern const bool ci_has_cares;

#endif

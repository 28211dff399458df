/* Invariants, asserted in every build. A check costs O(1); a failed one says where and aborts. */
#ifndef CI_BASE_CHECK_H
#define CI_BASE_CHECK_H

#include "base/compiler.h"

CI_COLD CI_NORETURN void ci_check_failed(const char *expr, const char *file, int line);

#define ci_check(expr) (ci_likely(expr) ? (void)0 : ci_check_failed(#expr, __FILE__, __LINE__))

#endif

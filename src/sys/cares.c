#include "sys/cares.h"

#if defined(COIR_CARES)
const bool ci_has_cares = true;
#else
const bool ci_has_cares = false;
#endif

#include "io/name_cares.h"

const struct ci_cares_calls *const ci_cares = NULL;

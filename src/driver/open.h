/* The table of selectors. */
#ifndef CI_DRIVER_OPEN_H
#define CI_DRIVER_OPEN_H

#include "driver/selector.h"

/* A selector by name: 0, -EINVAL for an unknown one, -ENOMEM, -EMFILE, ... */
int ci_selector_open(const char *name, const coir_allocator *allocator, struct ci_selector **ret_selector);

#endif

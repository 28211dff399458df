/* Configurations of runtimes, with their defaults. */
#ifndef CI_TASK_CONFIG_H
#define CI_TASK_CONFIG_H

#include "base/compiler.h"
#include "coir/runtime.h"

/* Copies the program's configuration, and fills in the fields that it left open: from the
 * environment, then from the machine, then with defaults. -EINVAL, with a log line that names the
 * field, its value and its bounds; -COIR_EUNSIZED. */
int ci_config_read(coir_config *ret_config, const coir_config *given);

/* Logs that a setting has none of the values `wanted`. Returns -EINVAL. */
CI_COLD int ci_config_refuse(const coir_config *config, const char *name, const char *value,
                             const char *wanted);

/* Checks the resolver's name, and that name servers are given for c-ares only: 0 or -EINVAL, with a
 * log line. */
int ci_config_check_resolver(const coir_config *config);

/* Whether ci_config_read would accept it. */
int ci_config_check(const coir_config *config);

#endif

#ifndef CI_SIM_NAME_H
#define CI_SIM_NAME_H

#include <sys/socket.h>

#include "sim/world.h"

/* The address of a host by its name, or of "localhost". -COIR_ENAME: there is none. */
int ci_world_resolve(const struct ci_world *world, const char *host,
                     struct sockaddr_storage *ret_address, socklen_t *ret_len);

#endif

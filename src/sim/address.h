/* Addresses of the simulated network: the host with number N is 10.0.0.N and fd00::N, and a
 * loopback address reaches its own host first, then any host of the world. Inside of the world
 * addresses are IPv4; a socket records whether its addresses are IPv6. */
#ifndef CI_SIM_ADDRESS_H
#define CI_SIM_ADDRESS_H

#include "sim/socket.h"

/* The address of a host on its network, in network order. */
struct in_addr ci_sim_address_of(const struct ci_node *node);

/* Converts an address of the program to the world's form, with whether it is IPv6; and back.
 * -EAFNOSUPPORT, -ENETUNREACH. */
int ci_sim_address_in(const struct sockaddr *address, struct sockaddr_in *ret_address,
                      bool *ret_six);
void ci_sim_address_out(const struct sockaddr_in *address, bool six,
                        struct sockaddr_storage *ret_address, socklen_t *ret_len);

/* Whether an IPv4 address is one of the network: of a host, the loopback, every one, a group's, or
 * one that never answers. */
bool ci_sim_address_has_route(const struct sockaddr_in *address);

/* Whether sockets of the host can be bound to the address: it is the host's, of the loopback, every
 * one, or a group's. */
bool ci_sim_address_is_own(const struct ci_node *node, const struct sockaddr_in *address);

/* Reads as ci_sim_address_in what a socket of the host shall be bound to; -EADDRNOTAVAIL if it is
 * not the host's own. */
int ci_sim_address_to_bind(const struct ci_node *node, const struct sockaddr *address,
                           struct sockaddr_in *ret_address, bool *ret_six);

/* Whether the address drops everything that is sent to it, without an answer. */
bool ci_sim_address_is_black_hole(const struct sockaddr_in *address);

/* The number of the host that an address belongs to, seen from the host `from`. */
int ci_sim_address_number(const struct ci_node *from, const struct sockaddr_in *address);

/* The host that has that number. NULL: none. */
const struct ci_node *ci_sim_address_node(const struct ci_world *world, const struct ci_node *from,
                                          const struct sockaddr_in *address);

/* The socket of a kind that an address reaches, seen from another socket, by IPv4 or IPv6: of those
 * that share the port one that is connected to that socket, or the one that its address chooses.
 * NULL: none. */
struct ci_socket *ci_sim_address_find(const struct ci_world *world,
                                      const struct ci_socket_kind *kind,
                                      const struct ci_socket *from, const struct sockaddr_in *to,
                                      bool six);

/* Whether a socket that is to have the port would have a family in common with another one of the
 * kind, and not both share it. Port 0 is free. */
bool ci_sim_address_is_taken(const struct ci_world *world, const struct ci_socket_kind *kind,
                             const struct ci_socket *socket, in_port_t port);

/* A port for a socket that is bound to none: no program has asked for it by its number. */
enum { CI_PORT_FIRST = 40000, CI_PORT_LAST = 65000 };
in_port_t ci_sim_address_new_port(struct ci_world *world);
void ci_sim_address_note_port(struct ci_world *world, in_port_t port);

/* The socket's own address or its peer's. -EBADF, -ENOTCONN. */
int ci_socket_address(struct ci_world *world, coir_fd fd, bool peer,
                      struct sockaddr_storage *ret_address, socklen_t *ret_len);

#endif

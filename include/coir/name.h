/* Names: resolving a host to its addresses.
 *
 * The system is asked (getaddrinfo(3), so /etc/hosts and whatever nsswitch.conf names), on at most
 * coir_config.name_threads_max threads that do nothing else: a slow or dead name server delays
 * neither files nor names whose addresses are known. IPv4 and IPv6 addresses are two questions; a
 * name that /etc/hosts has in one family alone has none of the other, whatever name servers say
 * (but of ::1 there glibc makes 127.0.0.1, too).
 * Equal questions are asked once at a time, also for tasks of several workers. Answers, including
 * that a name is unknown, are kept for as long as they hold, and dropped when /etc/hosts or
 * /etc/resolv.conf change. A task that is cancelled, or reaches a deadline, stops waiting at once.
 * "localhost" is known without asking.
 *
 * With coir_config.resolver = "c-ares" the workers ask name servers themselves: /etc/hosts and DNS
 * alone, no threads, and answers hold for as long as they say. */
#ifndef COIR_NAME_H
#define COIR_NAME_H

#include <coir/udp.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which addresses are looked up. */
enum coir_family { COIR_ANY_FAMILY = 0, COIR_IPV4 = 4, COIR_IPV6 = 6 };

/* Options of a question for addresses. */
typedef struct coir_resolve_options {
    size_t size;             /* sizeof(coir_resolve_options), set by COIR_RESOLVE_OPTIONS */
    enum coir_family family; /* [COIR_ANY_FAMILY] with one alone, the other is not waited for */
} coir_resolve_options;

#define COIR_RESOLVE_OPTIONS                          \
    {                                                 \
        sizeof(coir_resolve_options), COIR_ANY_FAMILY \
    }

/* Finds the addresses that a text means, and returns how many there are. The text is as in
 * coir/tcp.h. The first `max` of the addresses are written, in the order in which they should be
 * tried: IPv6 and IPv4 in turn. Each has the port of the text. There are 32 at most, and at least
 * one. Of ":80" it is [::]:80, or 0.0.0.0:80 where IPv4 is asked for.
 * Suspends: yes.  Threads: worker.
 * Errors: those of an address, -COIR_EADDRESS also for fd: and systemd:, which are sockets;
 * -COIR_ENAME the name is unknown, or has no such address; -COIR_ENAMESERVER no name server
 * answered, or it failed; -EINVAL no text, or ret_addresses is NULL and `max` is not 0; -ENOMEM;
 * -EMFILE and -ENFILE; -EAGAIN no thread could be made; with c-ares, -ENOSPC and others of
 * epoll_ctl(2), where a socket cannot be waited on.
 * Cancel safety: nothing is lost; the question may be answered for others. */
COIR_SUSPENDS int coir_resolve(const char *address, coir_address *ret_addresses, size_t max);

/* Finds the addresses that a text means, as the options say. As coir_resolve.
 * Errors also: -EINVAL an unknown family; -COIR_EUNSIZED; -COIR_ENEWER. */
COIR_SUSPENDS int coir_resolve_with(const char *address, const coir_resolve_options *options,
                                    coir_address *ret_addresses, size_t max);

/* Storage for the future of coir_resolve. */
typedef struct coir_name_op {
    coir_future future;
    uint64_t opaque[12];
} coir_name_op;
COIR_API coir_future *coir_resolve_op(coir_name_op *op, const char *address,
                                      coir_address *ret_addresses, size_t max);

/* The addresses that a text means, as a case of coir_select. As coir_resolve. */
COIR_API coir_case coir_case_resolve(const char *address, coir_address *ret_addresses, size_t max);

#ifdef __cplusplus
}
#endif

#endif

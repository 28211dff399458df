/* Texts for errors. */
#include <errno.h>
#include <string.h>

#include "coir/base.h"

const char *coir_strerror(int error)
{
    if (error < 0)
        error = -error;
    switch (error) {
    case 0: return "no error";
    case COIR_EEND: return "the stream ended too early";
    case COIR_EADDRESS: return "the address cannot be understood";
    case COIR_ENAME: return "the host name is unknown";
    case COIR_EPROTOCOL: return "the peer broke the protocol";
    case COIR_ETOOLARGE: return "a limit was passed";
    case COIR_EFORKED: return "not allowed in a child after fork()";
    case COIR_EENDED: return "the runtime's run has ended";
    default: break;
    }
    return error < COIR_EEND ? strerror(error) : "unknown error"; /* thread-safe in musl, and from glibc 2.32 */
}

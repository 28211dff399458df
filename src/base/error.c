/* Texts of errors: coir's own where it means something particular by an errno, or can say what to
 * do; the C library's otherwise. */
#include <errno.h>
#include <string.h>

#include "base/compiler.h"
#include "coir/base.h"

static const char *tls_error(int error)
{
    switch (error) {
    case COIR_ETLS: return "TLS failed: the peer broke the protocol or shares no version or cipher";
    case COIR_ETLS_TRUNCATED: return "the connection ended in the middle of the TLS stream";
    case COIR_ETLS_REFUSED: return "the peer refused the TLS connection (it sent an alert)";
    case COIR_ETLS_KEY:
        return "the private key is missing, has a password, or belongs to another certificate";
    case COIR_ECERT: return "the certificate cannot be used or verified";
    case COIR_ECERT_HOST: return "the certificate is for another host name";
    case COIR_ECERT_EXPIRED: return "the certificate has expired";
    case COIR_ECERT_NOT_YET: return "the certificate is not valid yet (is the clock right?)";
    case COIR_ECERT_UNTRUSTED: return "the certificate was not issued by a trusted authority";
    case COIR_ECERT_SELF_SIGNED: return "the certificate is self-signed and not trusted";
    case COIR_ECERT_PURPOSE: return "the certificate is not meant for this purpose";
    case COIR_ECERT_REVOKED: return "the certificate was revoked";
    default: return NULL;
    }
}

/* The errors of enum coir_error. */
static const char *own_error(int error)
{
    switch (error) {
    case COIR_EEND: return "the stream ended before all requested bytes had come";
    case COIR_EADDRESS: return "the address is empty, or of a kind that the call does not accept";
    case COIR_ENAME: return "the host name is unknown";
    case COIR_EPROTOCOL: return "the peer broke the protocol";
    case COIR_ETOOLARGE: return "a limit of the configuration was passed";
    case COIR_EFORKED: return "not allowed in a child after fork(), which may only exec or exit";
    case COIR_EENDED: return "the run has ended: nothing more can be started in it";
    case COIR_ELEFT: return "a simulated host ended and left something open";
    case COIR_EUNSIZED:
        return "a struct has no valid size: set it to its initialiser first, as coir_go_options to "
               "COIR_GO_OPTIONS";
    case COIR_ENEWER:
        return "an option is set that this version of coir does not know: link a newer one, or "
               "leave it 0";
    case COIR_ENAMESERVER: return "the name servers did not answer, or failed";
    case COIR_EHOST:
        return "the host of the address is neither a number nor a possible name (IPv6 numbers go "
               "in brackets: [::1]:80)";
    case COIR_EPORT:
        return "the port of the address is missing, or is not a number from 0 to 65535";
    case COIR_EPATH:
        return "the path of the address must begin with / or @, and be at most 107 bytes long";
    case COIR_EPASSED:
        return "the address names no socket that is open in this process, or one of another kind";
    case COIR_EFULL: return "a queue was full: its policy has dropped the item, or ended the queue";
    default: return tls_error(error);
    }
}

/* An errno that a task, a worker or an object returns. */
static const char *meaning_of_task_error(int error)
{
    switch (error) {
    case ESRCH: return "called outside of a fiber, where no task of a runtime runs";
    case EXDEV: return "it belongs to another worker or another runtime";
    case ETIME: return "the deadline has passed";
    case ECANCELED: return "it was cancelled";
    case EDEADLK: return "deadlock: nothing that could wake the waiting tasks is left";
    case EBUSY: return "it is in use: started already, or another task waits for it";
    case EAGAIN: return "not possible right now: it would have to wait, or a limit is reached";
    case EALREADY: return "it was done already";
    case EINPROGRESS: return "it has not ended yet";
    case EPROTONOSUPPORT:
        return "the address asks for a protocol that was not set up (wss: needs a layer for TLS)";
    case EPIPE: return "the other side is closed";
    case EILSEQ: return "the text is not UTF-8";
    case EINVAL: return "an argument or an option is not valid";
    case EBADF: return "it is not open";
    case ENOTSUP: return "not supported here"; /* on Linux also EOPNOTSUPP */
    case EOVERFLOW: return "the number is too large to be counted";
    case ESPIPE: return "it has no offsets: it is not a regular file or a disk";
    case ENOMEM: return "out of memory";
    default: return NULL;
    }
}

/* An errno that the system returns: networks and limits. */
static const char *meaning_of_system_error(int error)
{
    switch (error) {
    case EAFNOSUPPORT:
        return "the addresses are of unlike families, or the system has not this one";
    case EADDRINUSE: return "the address is in use by another program";
    case EADDRNOTAVAIL: return "the address is not one of this machine";
    case ENOTTY: return "the descriptor is no terminal";
    case ENODEV: return "there is no such device or network interface";
    case EACCES: return "permission denied";
    case ECONNREFUSED: return "the connection was refused: nothing listens there";
    case ECONNRESET: return "the peer broke the connection off";
    case ENOTCONN: return "it is not connected";
    case ETIMEDOUT: return "the peer did not answer in time";
    case EDESTADDRREQ: return "it has no peer: name one to send to";
    case ETOOMANYREFS: return "too many descriptors are in flight between processes";
    case EMSGSIZE: return "the message is too large to be sent at once";
    case EMFILE: return "the process has too many files open (raise its limit: ulimit -n)";
    case ENFILE: return "the system has too many files open";
    case ENOBUFS: return "out of buffers";
    case ENODATA: return "nothing is kept there";
    case EISDIR: return "the path leads to a directory, which this call cannot be used on";
    case EFBIG:
        return "the file would become longer than the process or the file system allows (ulimit "
               "-f)";
    case EDQUOT: return "the quota of blocks or files of this user or group is used up";
    case ENOTEMPTY: return "the directory is not empty";
    case ENOTDIR: return "a part of the path is not a directory";
    case ENOEXEC: return "it is no program of this system (does a script lack its #! line?)";
    case ECHILD: return "how the child has ended was told to another part of the program";
    default: return NULL;
    }
}

/* That of glibc, where there is one: strerror is in the program's language there, and for a number
 * that is none in memory which it uses again. */
extern const char *text_in_english(int error) __asm__("strerrordesc_np");

static const char *meaning_in_c(int error)
{
    return CI_HAS_STRERRORDESC ? text_in_english(error) : strerror(error);
}

const char *coir_strerror(int64_t given)
{
    if (given == 0)
        return "no error";
    int error = given > INT32_MIN && given <= INT32_MAX ? (int)given : INT32_MAX;
    if (error < 0)
        error = -error;
    const char *text = own_error(error);
    if (!text)
        text = meaning_of_task_error(error);
    if (!text)
        text = meaning_of_system_error(error);
    if (text)
        return text;
    text = error > 0 && error < COIR_EEND ? meaning_in_c(error) : NULL;
    return text ? text : "unknown error";
}

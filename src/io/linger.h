/* The close of a TCP connection that loses nothing of what was written to it.
 *
 * close(2) resets the connection where bytes of the peer are unread, and so does the system later
 * where more of them arrive. A reset loses what the peer's system has not acknowledged. So the side
 * that closes first reads what comes, for nothing, until its own bytes have arrived or the peer has
 * ended the connection. Of other streams the close loses nothing. */
#ifndef CI_IO_LINGER_H
#define CI_IO_LINGER_H

#include "io/io.h"

struct ci_linger {
    bool input_ended; /* nothing has to be read: to be set, too, when the peer's end was read */
    bool output_ended;
    size_t discarded;
};

void ci_linger_init(struct ci_linger *linger, const coir_stream *stream);

/* Whether a reset would lose something. A system call, where the peer has not ended. */
bool ci_linger_at_risk(const struct ci_linger *linger, const coir_stream *stream);

/* Reads what has arrived. */
void ci_linger_discard(struct ci_linger *linger, coir_stream *stream);

/* When everything was written: ends the output. True: a close now loses nothing. No event tells of
 * that, but for the end of the input: ask again after a pause. */
bool ci_linger_is_over(struct ci_linger *linger, coir_stream *stream);

#endif

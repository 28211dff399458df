/* The write queue of a stream, for the stream: see write_queue.c. */
#ifndef CI_IO_WRITE_QUEUE_H
#define CI_IO_WRITE_QUEUE_H

#include "coir/write_queue.h"

/* The queue that writes to a stream; NULL: there is none. */
coir_write_queue *ci_write_queue_of(const coir_stream *stream);

/* The stream of a queue is being closed: the queue ends, and does not touch the stream any more. */
void ci_write_queue_leave(coir_write_queue *queue);

#endif

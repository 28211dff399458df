#include "io/linger.h"

/* What is discarded: by one read; before other tasks run; of one connection in all. */
enum { READ_SIZE = 4096, TURN_MOST = 64 << 10, MOST = 64 << 20 };

void ci_linger_init(struct ci_linger *linger, const coir_stream *stream)
{
    *linger = (struct ci_linger){.input_ended = !stream->is_socket || stream->is_unix};
}

bool ci_linger_at_risk(const struct ci_linger *linger, const coir_stream *stream)
{
    struct ci_driver *driver = ci_worker_current->loop.driver;
    return !linger->input_ended && driver->kind->unacknowledged(driver, stream->fd) != 0;
}

void ci_linger_discard(struct ci_linger *linger, coir_stream *stream)
{
    char unused[READ_SIZE];
    for (int i = 0; i < TURN_MOST / READ_SIZE && !linger->input_ended; i++) {
        ssize_t n = coir_try_read(stream, unused, sizeof unused);
        if (n == -EAGAIN)
            return;
        linger->discarded += n > 0 ? (size_t)n : 0;
        linger->input_ended = n <= 0 || linger->discarded >= MOST;
    }
}

bool ci_linger_is_over(struct ci_linger *linger, coir_stream *stream)
{
    if (!linger->input_ended && !linger->output_ended)
        linger->output_ended = coir_shutdown_write(stream) == 0;
    return !ci_linger_at_risk(linger, stream);
}

/* The flight recorder: the newest events of every worker (coir/trace.h), kept all the time, and
 * written to a file when something goes wrong.
 *
 *   coir_recorder_options options = COIR_RECORDER_OPTIONS;
 *   options.crash = true;
 *   options.slow_turn = 10 * COIR_MS;
 *   coir_recorder_start_with(&options);
 *
 * A file is PATH.PID.RECORDER.N.json, and opens in https://ui.perfetto.dev: a process, recorder and
 * number of its own each. A thread of the recorder makes it; the workers go on meanwhile, and what
 * they overwrite in that time is not in it. */
#ifndef COIR_RECORDER_H
#define COIR_RECORDER_H

#include <coir/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a recorder keeps, and when it writes. Initialised with COIR_RECORDER_OPTIONS; 0 is what is
 * in brackets. */
typedef struct coir_recorder_options {
    size_t size; /* sizeof(coir_recorder_options), set by COIR_RECORDER_OPTIONS */
    /* [65,536, at most 2^20; rounded up to a power of two from 64 on] events per worker, of 32
     * bytes, the 17 oldest of which are not written: a turn of a task takes two to four. To write
     * them takes 200 bytes more for each event of one worker, which are reserved, and are not
     * touched before */
    size_t events_max;
    /* ["coir-flight"] the beginning of the names of files, of at most 200 bytes; copied */
    const char *path;
    /* [false] also on a fatal signal: SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGSYS and SIGABRT. The
     * handlers that were there before are called afterwards. Only the first such signal of a
     * process is recorded, so it is not for programs that live on after a fault. It gives the
     * threads of workers signal stacks, as coir_config.report_overflow does */
    bool crash;
    coir_time slow_turn;    /* [COIR_NEVER] also when a turn of a task has taken longer */
    coir_time slow_request; /* [COIR_NEVER] also when the handler of an HTTP request has */
    /* [10; COIR_UNLIMITED] files it writes, besides that of a fatal signal; one that it could not
     * write, because the disk was full, is removed and does not count */
    size_t files_max;
    /* [10 s] between two files; what is asked for earlier is not written */
    coir_time interval_min;
} coir_recorder_options;

#define COIR_RECORDER_OPTIONS                                  \
    {                                                          \
        sizeof(coir_recorder_options), 0, 0, false, 0, 0, 0, 0 \
    }

/* Starts the flight recorder of the calling runtime; it writes only when coir_recorder_write asks
 * for it. A runtime has one, and no other trace meanwhile; coir_trace_write writes what it keeps,
 * too. It ends with the runtime, or by coir_recorder_stop.
 * Suspends: yes, until the workers have begun.  Threads: worker.
 * Errors: -EBUSY there is one, or a trace; -EOPNOTSUPP in the simulator; -ENOMEM; -EAGAIN its
 * thread could not be started; those of coir_call_on: if the next call says -EBUSY, some workers
 * record, and coir_recorder_stop ends that.
 * Cancel safety: it has not started then. */
COIR_SUSPENDS int coir_recorder_start(void);

/* Starts the flight recorder of the calling runtime, with options. As coir_recorder_start.
 * Errors: those of coir_recorder_start; -EINVAL events_max, a path that is too long, a negative
 * time; -COIR_EUNSIZED; -COIR_ENEWER. */
COIR_SUSPENDS int coir_recorder_start_with(const coir_recorder_options *options);

/* Asks for a file. `reason` stands in it, and is copied (63 bytes). The recorder's thread writes
 * it, and logs its name.
 * Suspends: no.  Threads: worker.
 * Errors: -ENOENT no recorder runs; -EAGAIN interval_min has not passed, or a file is being
 * written; -ENOSPC files_max were written; -EINVAL no reason. */
COIR_API int coir_recorder_write(const char *reason);

/* Stops the flight recorder of the calling runtime. A file that is being written is finished first.
 * Without a recorder it does nothing.
 * Suspends: yes, until the workers have ended it.  Threads: worker.
 * Errors: those of coir_call_on: some workers still record, and it may be called again.
 * Cancel safety: it is stopped all the same. */
COIR_SUSPENDS int coir_recorder_stop(void);

#ifdef __cplusplus
}
#endif

#endif

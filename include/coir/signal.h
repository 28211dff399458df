/* Signals of the process as ordinary events. While they are open, the signals go to them first,
 * then to the handlers that were there; their default effects are off. coir_config.stop_signals,
 * which coir_main sets, hears SIGINT and SIGTERM beside them. */
#ifndef COIR_SIGNAL_H
#define COIR_SIGNAL_H

#include <coir/select.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A set of open signals. It is made by coir_signals_open. */
typedef struct coir_signals coir_signals;

/* Opens signals: from now on they go to coir_signals_wait. Numbers are 1 to 63, but for SIGKILL
 * and the like. Several may be open for the same signal: each gets it. Each time that the
 * system delivers a signal is counted, from now on; two that the system has merged are one.
 * Suspends: no.  Threads: worker.  Owns: *ret_signals is the caller's to close.
 * Errors: -EINVAL no number, or one that cannot be caught; -EMFILE; -ENOMEM; -ENOBUFS 32 are open;
 * -ENOTSUP in the simulator. */
COIR_API int coir_signals_open(const int *numbers, size_t count, coir_signals **ret_signals);

/* Closes signals: they have their old effect again. No task may be waiting for them: then they stay
 * open. Takes NULL.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_signals_close(coir_signals *signals);

/* Waits for one of the open signals, and returns its number. What came before the wait is there. Of
 * several tasks that wait, each signal goes to one.
 * Suspends: yes.  Threads: worker.
 * Errors: -EBUSY another task of the worker waits for them; -EINVAL no signals.
 * Cancel safety: an error means that none was taken. */
COIR_SUSPENDS int coir_signals_wait(coir_signals *signals);

/* Storage for the future of a wait for signals. */
typedef struct coir_signals_op {
    coir_future future;
    uint64_t opaque[20];
} coir_signals_op;
COIR_API coir_future *coir_signals_wait_op(coir_signals_op *op, coir_signals *signals);

/* A signal, as a case of coir_select; its result is the number. As coir_signals_wait. */
COIR_API coir_case coir_case_signal(coir_signals *signals);

#ifdef __cplusplus
}
#endif

#endif

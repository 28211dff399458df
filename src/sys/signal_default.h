/* The default effects of signals. While there are guards (sys/signal.h), a handler that calls them
 * stands for SIG_DFL; whoever looks at the action of a signal takes it for SIG_DFL. */
#ifndef CI_SYS_SIGNAL_DEFAULT_H
#define CI_SYS_SIGNAL_DEFAULT_H

#include "sys/signal.h"

bool ci_signal_is_default(const struct sigaction *action);

/* Installs the default effect of a signal, or the handler that stands for it. */
void ci_signal_put_default(int number);

/* For a handler in whose place that would be: does what it does. */
void ci_signal_do_default(int number, const siginfo_t *info);

/* For other handlers of SIGCONT: calls `resume` of all guards. */
void ci_signal_resume(void);

/* As ci_signal_guard and ci_signal_unguard, which hold the lock under which handlers are
 * installed. */
int ci_signal_add_guard(struct ci_signal_guard *guard);
void ci_signal_remove_guard(struct ci_signal_guard *guard);

#endif

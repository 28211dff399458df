/* Which thread is inside of a loop's turn: a thread-local whose address tells threads apart costs
 * less than a system call for the thread's id. */
#include "loop/loop.h"

CI_THREAD_LOCAL char ci_loop_thread_mark;

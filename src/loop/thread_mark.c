/* Which thread is inside of a loop's turn: a thread-local whose address tells threads apart costs
 * less than asking the system who one is. */
#include "loop/loop.h"

CI_THREAD_LOCAL char ci_loop_thread_mark;

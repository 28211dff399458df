/* The runtimes of the process. */
#include "task/runtime.h"

struct ci_list ci_runtimes = {&ci_runtimes, &ci_runtimes};
struct ci_lock ci_runtimes_lock;

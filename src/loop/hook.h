/* Callbacks of the program around each turn of a loop (coir_hook). */
#ifndef CI_LOOP_HOOK_H
#define CI_LOOP_HOOK_H

#include "base/list.h"
#include "coir/loop.h"

/* Calls the hooks of one kind that were started before this turn. A hook may stop itself or any
 * other. */
void ci_hooks_call(coir_loop *loop, struct ci_list *hooks);

#endif

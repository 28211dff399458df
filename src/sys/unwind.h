/* The frames of a stack that nobody runs on, from the registers that were saved when it was left.
 * Nothing of the program is run; memory is read between the bounds of the stack only, so it is
 * harmless if the stack has been damaged. A function without a table (sys/frame_table.h) is taken
 * for one with a frame pointer, if that leads to a return to code of the program or a library;
 * otherwise the walk ends there. */
#ifndef CI_SYS_UNWIND_H
#define CI_SYS_UNWIND_H

#include "sys/context.h"
#include "sys/frame_table.h"

/* Writes up to `most` frames, innermost first, and returns how many: the first is the address at
 * which the context goes on, the others are those to which calls return. The stack lies from `low`
 * to `high`. */
int ci_unwind(const struct ci_frame_tables *tables, const struct ci_context *context,
              const void *low, const void *high, void **frames, int most);

/* The caller's own context, as if it had been left here. */
CI_INLINE void ci_unwind_here(struct ci_context *context)
{
    ci_context_jump(context, context);
}

#endif

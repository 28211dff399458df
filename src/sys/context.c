#include "sys/context.h"

CI_UNTRACED void ci_context_switch_noted(struct ci_context *from, struct ci_context *to)
{
    ci_stack_view_leave(from->view, to->view, false);
    ci_context_jump(from, to);
    ci_stack_view_enter(from->view);
}

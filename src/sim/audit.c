#include "sim/audit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sim/node.h"
#include "sim/trace.h"

void ci_world_leave(struct ci_world *world, const struct ci_node *node, const char *format, ...)
{
    if (node->crashed)
        return;
    char what[128];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    ci_world_trace(world, node, "left open: %s", what);
    size_t len = strlen(world->left);
    snprintf(world->left + len, sizeof world->left - len, "%s%s: %s",
             world->left_count++ ? "; " : "", node->name, what);
}

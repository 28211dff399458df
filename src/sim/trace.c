#include "sim/trace.h"

#include <stdarg.h>
#include <stdio.h>

#include "sim/node.h"

void ci_world_trace(struct ci_world *world, const struct ci_node *node, const char *format, ...)
{
    char *line = world->line;
    int head =
        snprintf(line, sizeof world->line, "%lld.%09lld %s ", (long long)(world->now / COIR_S),
                 (long long)(world->now % COIR_S), node ? node->name : "-");
    va_list args;
    va_start(args, format);
    vsnprintf(line + head, sizeof world->line - (size_t)head, format, args);
    va_end(args);
    for (const char *c = line; *c; c++)
        world->trace_hash = (world->trace_hash ^ (unsigned char)*c) * 0x100000001b3u;
    if (world->trace)
        world->trace(line, world->trace_arg);
}

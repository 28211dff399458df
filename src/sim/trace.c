#include "sim/trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "sim/node.h"

void ci_world_mix(struct ci_world *world, uint64_t word)
{
    world->trace_hash = (world->trace_hash ^ word) * 0x100000001b3u;
    world->trace_hash ^= world->trace_hash >> 29;
}

void ci_world_mix_text(struct ci_world *world, const char *text)
{
    uint64_t word;
    size_t len = strlen(text);
    for (; len >= sizeof word; text += sizeof word, len -= sizeof word) {
        memcpy(&word, text, sizeof word);
        ci_world_mix(world, word);
    }
    word = len; /* so that the lengths of two texts count */
    for (; len; len--)
        word = word << 8 | (unsigned char)*text++;
    ci_world_mix(world, word);
}

/* The format and what it is for; nothing is formatted, for hardly any run is looked at. */
static void mix_line(struct ci_world *world, const char *format, va_list args)
{
    ci_world_mix_text(world, format);
    while (*format) {
        if (*format++ != '%')
            continue;
        size_t size = sizeof(int);
        for (; *format == '*' || *format == 'z'; format++) {
            if (*format == 'z')
                size = sizeof(size_t);
            else
                ci_world_mix(world, (uint64_t)va_arg(args, int));
        }
        char conversion = *format++;
        ci_check(conversion == 's' || conversion == 'd' || conversion == 'u', "sim/trace.h 1");
        if (conversion == 's')
            ci_world_mix_text(world, va_arg(args, const char *));
        else if (size == sizeof(size_t))
            ci_world_mix(world, va_arg(args, size_t));
        else
            ci_world_mix(world, (uint64_t)va_arg(args, int));
    }
}

static void tell(struct ci_world *world, const char *name, const char *format, va_list args)
{
    char *line = world->line;
    int head = snprintf(line, sizeof world->line, "%lld.%09lld %s ",
                        (long long)(world->now / COIR_S), (long long)(world->now % COIR_S), name);
    vsnprintf(line + head, sizeof world->line - (size_t)head, format, args);
    world->trace(line, world->trace_arg);
}

void ci_world_trace(struct ci_world *world, const struct ci_node *node, const char *format, ...)
{
    const char *name = node ? node->name : "-";
    va_list args;
    ci_world_mix(world, (uint64_t)world->now);
    ci_world_mix_text(world, name);
    va_start(args, format);
    mix_line(world, format, args);
    va_end(args);
    if (!world->trace)
        return;
    va_start(args, format);
    tell(world, name, format, args);
    va_end(args);
}

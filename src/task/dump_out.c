#include "task/dump_out.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/character.h"
#include "sys/write_all.h"

enum { PIECE = 2 * CI_DUMP_SYMBOL };

/* ---- text ---- */

void ci_dump_out_flush(struct ci_dump_out *out)
{
    if (!out->error)
        out->error = ci_write_all(out->fd, out->buffer, out->len);
    out->len = 0;
}

void ci_put(struct ci_dump_out *out, const char *format, ...)
{
    if (CI_DUMP_BUFFER - out->len < PIECE)
        ci_dump_out_flush(out);
    va_list args;
    va_start(args, format);
    int len = vsnprintf(out->buffer + out->len, PIECE, format, args);
    va_end(args);
    out->len += len < PIECE ? (size_t)len : PIECE - 1;
}

static void put_character(struct ci_dump_out *out, char c)
{
    if (out->len == CI_DUMP_BUFFER)
        ci_dump_out_flush(out);
    out->buffer[out->len++] = c;
}

void ci_put_plain(struct ci_dump_out *out, const char *text)
{
    for (size_t len; *text; text += len ? len : 1) {
        len = ci_character_len(text);
        bool plain = ci_character_is_plain(text, len);
        for (size_t i = 0; plain && i < len; i++)
            put_character(out, text[i]);
        if (!plain)
            put_character(out, '?');
    }
}

void ci_put_string(struct ci_dump_out *out, const char *text)
{
    ci_put(out, "\"");
    while (*text) {
        char spelled[CI_CHARACTER_JSON];
        size_t len = ci_character_to_json(&text, spelled);
        for (size_t i = 0; i < len; i++)
            put_character(out, spelled[i]);
    }
    ci_put(out, "\"");
}

/* ---- symbols ---- */

/* ci_symbol_write puts a number before each line. */
static char *lines_of(const void *address, bool exact)
{
    struct ci_traced traced = {.count = 1, .exact = exact, .frames = {(void *)(uintptr_t)address}};
    static const char number[] = "    #0 ";
    char text[CI_DUMP_SYMBOL];
    ci_symbol_write(&traced, text, sizeof text);
    char *lines = malloc(strlen(text) + 1), *to = lines;
    if (!lines)
        return NULL;
    *to = '\0';
    for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        const char *from =
            strncmp(line, number, sizeof number - 1) == 0 ? line + sizeof number - 1 : line;
        memcpy(to, from, (size_t)(end + 1 - from));
        to += end + 1 - from;
        *to = '\0';
    }
    return lines;
}

const char *ci_symbol_of(struct ci_dump_out *out, const void *address, bool exact)
{
    size_t i = (size_t)((uintptr_t)address * 0x9e3779b97f4a7c15u >> 20) & (out->symbol_count - 1);
    struct ci_dump_symbol *symbol = &out->symbols[i];
    while (symbol->lines && (symbol->address != address || symbol->exact != exact)) {
        i = (i + 1) & (out->symbol_count - 1);
        symbol = &out->symbols[i];
    }
    if (!symbol->lines)
        *symbol = (struct ci_dump_symbol){address, exact, lines_of(address, exact)};
    if (!symbol->lines)
        out->error = -ENOMEM;
    return symbol->lines ? symbol->lines : "";
}

int ci_dump_out_init(struct ci_dump_out *out)
{
    const struct ci_snapshot *snapshot = out->snapshot;
    size_t most = snapshot->lines.count + 2 * snapshot->tasks.count + snapshot->findings.count +
                  snapshot->workers.count * CI_THREAD_TRACE_FRAMES;
    for (out->symbol_count = 64; out->symbol_count < 2 * most;)
        out->symbol_count *= 2;
    out->symbols = calloc(out->symbol_count, sizeof *out->symbols);
    if (out->symbols)
        return 0;
    out->symbol_count = 0;
    return -ENOMEM;
}

void ci_dump_out_done(struct ci_dump_out *out)
{
    for (size_t i = 0; i < out->symbol_count; i++)
        free(out->symbols[i].lines);
    free(out->symbols);
}

const char *ci_program_id(struct ci_dump_out *out)
{
    if (!*out->build_id)
        ci_build_id(out->build_id);
    return out->build_id;
}

const char *ci_variable_at(struct ci_dump_out *out, const void *object)
{
    return ci_symbol_variable(object, out->variable, sizeof out->variable) ? out->variable : "";
}

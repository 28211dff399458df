/* What coir-top shows: lines of text. */
#ifndef TOP_FRAME_H
#define TOP_FRAME_H

#include <stdio.h>

#include "metrics.h"

/* Writes what has happened between two looks at a server. `rows`: the most lines. */
void frame_write(FILE *out, const char *where, const struct metrics *before,
                 const struct metrics *now, int rows);

/* Writes the beginning of a text, `rows` lines of `columns` bytes at most. */
void frame_write_text(FILE *out, const char *text, int rows, int columns);

#endif

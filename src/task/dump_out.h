/* What a dump is written through: a buffer, escaped text, and the names of addresses, each looked
 * up once. */
#ifndef CI_TASK_DUMP_OUT_H
#define CI_TASK_DUMP_OUT_H

#include "sys/symbol.h"
#include "task/snapshot.h"

enum { CI_DUMP_BUFFER = 1 << 16, CI_DUMP_SYMBOL = 1 << 12 };

struct ci_dump_symbol {
    const void *address;
    bool exact;
    char *lines; /* a function a line, innermost first where some were inlined */
};

struct ci_dump_out {
    const struct ci_snapshot *snapshot;
    coir_fd fd;
    int error;
    size_t len;
    char buffer[CI_DUMP_BUFFER];
    struct ci_dump_symbol *symbols; /* a hash table of `symbol_count`, a power of two */
    size_t symbol_count;
    char variable[CI_SNAPSHOT_NAME], build_id[CI_BUILD_ID];
};

/* `fd` and `snapshot` are set. 0 or -ENOMEM. */
int ci_dump_out_init(struct ci_dump_out *out);
void ci_dump_out_done(struct ci_dump_out *out);

/* Writes what is in the buffer; an error stays in `error`. */
void ci_dump_out_flush(struct ci_dump_out *out);

/* Less than two symbols at a time; more is cut. */
void ci_put(struct ci_dump_out *out, const char *format, ...) COIR_PRINTF(2, 3);
/* Text of the program, on one line; the same as a string of JSON. */
void ci_put_plain(struct ci_dump_out *out, const char *text);
void ci_put_string(struct ci_dump_out *out, const char *text);

/* The functions at an address, a line each, innermost first; `exact`: not a return address. */
const char *ci_symbol_of(struct ci_dump_out *out, const void *address, bool exact);
/* The name of the variable at an address, or "", until the next call. */
const char *ci_variable_at(struct ci_dump_out *out, const void *address);
/* The build id of the program, or "". */
const char *ci_program_id(struct ci_dump_out *out);

#endif

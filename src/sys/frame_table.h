/* Where a function keeps its caller's registers: the tables that compilers write for exceptions
 * (DWARF 5, section 6.4), which are part of a program that is stripped, too. They are
 * read where they lie: nothing is allocated, and no lock is taken once they are listed. */
#ifndef CI_SYS_FRAME_TABLE_H
#define CI_SYS_FRAME_TABLE_H

#include "base/compiler.h"

/* By the numbers of DWARF; registers for vectors are left out. */
#if defined(__x86_64__)
enum { CI_REGISTERS = 17, CI_REGISTER_FP = 6, CI_REGISTER_SP = 7 };
#elif defined(__aarch64__)
enum { CI_REGISTERS = 32, CI_REGISTER_FP = 29, CI_REGISTER_SP = 31 };
#else
enum { CI_REGISTERS = 32, CI_REGISTER_FP = 8, CI_REGISTER_SP = 2 };
#endif

enum { CI_FRAME_MODULES = 256 };

struct ci_frame_module {
    uintptr_t begin, end;  /* of its code */
    const uint8_t *header; /* of its table of functions; NULL: it has none */
};

struct ci_frame_tables {
    int count;
    struct ci_frame_module modules[CI_FRAME_MODULES];
    struct ci_frame_rows *rows; /* those that were read; NULL: none is kept */
};

/* Lists the program and its libraries. A library that is unloaded later must not have functions on
 * the stacks that are walked. `rows` is NULL then. */
void ci_frame_tables_list(struct ci_frame_tables *tables);

/* The module whose code is at `pc`; NULL: none. */
const struct ci_frame_module *ci_frame_module_at(const struct ci_frame_tables *tables,
                                                 uintptr_t pc);

/* How a register of the caller is found. CFA: the stack pointer before the call. */
enum ci_frame_rule {
    CI_FRAME_SAME,
    CI_FRAME_UNDEFINED,
    CI_FRAME_AT,            /* lies at CFA + offset */
    CI_FRAME_IS,            /* is CFA + offset */
    CI_FRAME_REGISTER,      /* is in register `offset` */
    CI_FRAME_AT_EXPRESSION, /* lies at the value of an expression */
    CI_FRAME_IS_EXPRESSION  /* is the value of an expression */
};

struct ci_frame_value {
    enum ci_frame_rule rule;
    int64_t offset;
    const uint8_t *expression; /* its length, LEB128, and its bytes */
};

/* What holds at one instruction. */
struct ci_frame_row {
    uint64_t cfa_register;
    struct ci_frame_value cfa; /* IS: the register's value + offset; or IS_EXPRESSION */
    struct ci_frame_value registers[CI_REGISTERS];
    uint64_t return_register;
    bool is_signal; /* the caller was interrupted there: its address is no return address */
    bool is_signed; /* the return address is (aarch64) */
};

/* Rows by their instructions, for stacks of which many are alike. Zero at first. */
enum { CI_FRAME_ROWS_BITS = 6 };
struct ci_frame_rows {
    struct ci_frame_row_known {
        uintptr_t pc; /* 0: none */
        struct ci_frame_row row;
    } known[1 << CI_FRAME_ROWS_BITS];
};

/* False: there is no table for the instruction, or one that is not understood. */
bool ci_frame_row_at(const struct ci_frame_tables *tables, uintptr_t pc,
                     struct ci_frame_row *ret_row);

/* ---- for those who read expressions ---- */

uint64_t ci_frame_unsigned(const uint8_t **at);
int64_t ci_frame_signed(const uint8_t **at);

#endif

#include "sys/unwind.h"

#include <string.h>

struct cursor {
    const char *low, *high;
    uintptr_t pc, cfa;
    uint64_t known; /* bit N: of register N */
    uintptr_t registers[CI_REGISTERS];
};

/* Sanitizers do not know the frames of others, among whose variables the registers lie. */
static CI_UNINSTRUMENTED bool load(const struct cursor *cursor, uintptr_t address, uintptr_t *ret)
{
    uintptr_t low = (uintptr_t)cursor->low, high = (uintptr_t)cursor->high;
    if (address < low || address >= high || high - address < sizeof address ||
        address % sizeof address)
        return false;
    *ret = *(const volatile uintptr_t *)address; /* not by memcpy, which they replace */
    return true;
}

static void set(struct cursor *cursor, uint64_t number, uintptr_t value)
{
    cursor->registers[number] = value;
    cursor->known |= (uint64_t)1 << number;
}

static bool get(const struct cursor *cursor, uint64_t number, uintptr_t *ret)
{
    if (number >= CI_REGISTERS || !(cursor->known >> number & 1))
        return false;
    *ret = cursor->registers[number];
    return true;
}

/* ---- expressions (DWARF 5, 2.5) ---- */

enum {
    DEREFERENCE = 0x06,
    CONST_1 = 0x08,
    CONST_1S = 0x09,
    DUPLICATE = 0x12,
    AND = 0x1a,
    MINUS = 0x1c,
    PLUS = 0x22,
    PLUS_CONST = 0x23,
    SHIFT_LEFT = 0x24,
    GREATER_EQUAL = 0x2a,
    LITERAL = 0x30,
    BASED = 0x70,
    NAMES = 32, /* of literals and registers */
    DEPTH = 8
};

struct values {
    uintptr_t stack[DEPTH];
    int count;
};

static bool push(struct values *values, uintptr_t value)
{
    if (values->count == DEPTH)
        return false;
    values->stack[values->count++] = value;
    return true;
}

static bool combine(struct values *values, uint8_t code)
{
    if (values->count < 2)
        return false;
    uintptr_t right = values->stack[--values->count], *left = &values->stack[values->count - 1];
    switch (code) {
    case AND: *left &= right; return true;
    case MINUS: *left -= right; return true;
    case PLUS: *left += right; return true;
    case SHIFT_LEFT: *left = right < 64 ? *left << right : 0; return true;
    case GREATER_EQUAL: *left = (intptr_t)*left >= (intptr_t)right; return true;
    default: return false;
    }
}

static bool step_expression(const struct cursor *cursor, struct values *values, const uint8_t **at)
{
    uint8_t code = *(*at)++;
    uintptr_t value;
    if (code >= LITERAL && code < LITERAL + NAMES)
        return push(values, code - LITERAL);
    if (code >= BASED && code < BASED + NAMES) {
        int64_t offset = ci_frame_signed(at);
        return get(cursor, code - BASED, &value) && push(values, value + (uintptr_t)offset);
    }
    uintptr_t *top = values->count ? &values->stack[values->count - 1] : NULL;
    switch (code) {
    case CONST_1: return push(values, *(*at)++);
    case CONST_1S: return push(values, (uintptr_t)(int8_t) * (*at)++);
    case DEREFERENCE: return top && load(cursor, *top, top);
    case DUPLICATE: return top && push(values, *top);
    case PLUS_CONST: value = (uintptr_t)ci_frame_unsigned(at); return top && (*top += value, true);
    default: return combine(values, code);
    }
}

/* `first`: the value that it begins with, or NULL. */
static bool evaluate(const struct cursor *cursor, const uint8_t *at, const uintptr_t *first,
                     uintptr_t *ret)
{
    struct values values = {{0}, 0};
    uint64_t len = ci_frame_unsigned(&at);
    const uint8_t *end = at + len;
    if (first)
        push(&values, *first);
    while (at < end)
        if (!step_expression(cursor, &values, &at))
            return false;
    if (values.count == 0)
        return false;
    *ret = values.stack[values.count - 1];
    return true;
}

/* ---- from a frame to its caller's ---- */

static bool find_cfa(const struct cursor *cursor, const struct ci_frame_row *row, uintptr_t *ret)
{
    uintptr_t base;
    if (row->cfa.rule == CI_FRAME_IS_EXPRESSION)
        return evaluate(cursor, row->cfa.expression, NULL, ret);
    if (row->cfa.rule != CI_FRAME_IS || !get(cursor, row->cfa_register, &base))
        return false;
    *ret = base + (uintptr_t)row->cfa.offset;
    return true;
}

static bool find_value(const struct cursor *cursor, const struct ci_frame_value *value,
                       uint64_t number, uintptr_t cfa, uintptr_t *ret)
{
    switch (value->rule) {
    case CI_FRAME_SAME: return get(cursor, number, ret);
    case CI_FRAME_UNDEFINED: return false;
    case CI_FRAME_AT: return load(cursor, cfa + (uintptr_t)value->offset, ret);
    case CI_FRAME_IS: *ret = cfa + (uintptr_t)value->offset; return true;
    case CI_FRAME_REGISTER: return get(cursor, (uint64_t)value->offset, ret);
    case CI_FRAME_AT_EXPRESSION:
        return evaluate(cursor, value->expression, &cfa, ret) && load(cursor, *ret, ret);
    case CI_FRAME_IS_EXPRESSION: return evaluate(cursor, value->expression, &cfa, ret);
    }
    return false;
}

static uintptr_t without_signature(uintptr_t address)
{
#if defined(__aarch64__)
    register uintptr_t signed_address __asm__("x30") = address;
    __asm__("hint #7" : "+r"(signed_address)); /* xpaclri */
    return signed_address;
#else
    return address;
#endif
}

static bool step_by_row(struct cursor *cursor, const struct ci_frame_row *row)
{
    struct cursor caller = {.low = cursor->low, .high = cursor->high};
    uintptr_t value;
    if (!find_cfa(cursor, row, &caller.cfa) || row->return_register >= CI_REGISTERS)
        return false;
    for (uint64_t i = 0; i < CI_REGISTERS; i++)
        if (find_value(cursor, &row->registers[i], i, caller.cfa, &value))
            set(&caller, i, value);
    if (!get(&caller, row->return_register, &caller.pc))
        return false;
    if (row->is_signed)
        caller.pc = without_signature(caller.pc);
    if (row->registers[CI_REGISTER_SP].rule == CI_FRAME_SAME)
        set(&caller, CI_REGISTER_SP, caller.cfa);
    *cursor = caller;
    return true;
}

/* Frame pointer and return address lie together: below the CFA (RISC-V), or where the frame pointer
 * points. */
#if defined(__riscv)
enum { BELOW_POINTER = 2 * sizeof(uintptr_t) };
#else
enum { BELOW_POINTER = 0 };
#endif

/* False: the register holds something else, as there is no return to code where it points. */
static bool load_pair(const struct ci_frame_tables *tables, const struct cursor *cursor,
                      uintptr_t at, uintptr_t *ret_fp, uintptr_t *ret_pc)
{
    return load(cursor, at, ret_fp) && load(cursor, at + sizeof(uintptr_t), ret_pc) &&
           ci_frame_module_at(tables, *ret_pc);
}

/* Whether frame pointers lead from `at` to the begin of the stack, where they are 0. */
static bool is_chain(const struct ci_frame_tables *tables, const struct cursor *cursor,
                     uintptr_t at)
{
    uintptr_t fp, pc;
    while (load_pair(tables, cursor, at, &fp, &pc)) {
        if (!fp)
            return true;
        if (fp - BELOW_POINTER <= at)
            return false;
        at = fp - BELOW_POINTER;
    }
    return false;
}

/* A module without any table (musl's linker writes none) is most likely without frame pointers too:
 * then the register may lead anywhere, so the whole chain has to be one. */
static bool step_by_pointer(const struct ci_frame_tables *tables, struct cursor *cursor)
{
    uintptr_t fp, pc, at;
    if (!get(cursor, CI_REGISTER_FP, &at))
        return false;
    at -= BELOW_POINTER;
    const struct ci_frame_module *module = ci_frame_module_at(tables, cursor->pc);
    if (!load_pair(tables, cursor, at, &fp, &pc) ||
        (module && !module->header && !is_chain(tables, cursor, at)))
        return false;
    cursor->pc = pc;
    cursor->cfa = at + 2 * sizeof(uintptr_t);
    cursor->known = 0;
    set(cursor, CI_REGISTER_FP, fp);
    set(cursor, CI_REGISTER_SP, cursor->cfa);
    return true;
}

/* False: this was the outermost frame, or what lies above it is not known. */
static bool step(const struct ci_frame_tables *tables, struct cursor *cursor, bool *exact)
{
    struct ci_frame_row row;
    uintptr_t before = cursor->cfa;
    bool known = ci_frame_row_at(tables, cursor->pc - !*exact, &row);
    if (!(known ? step_by_row(cursor, &row) : step_by_pointer(tables, cursor)))
        return false;
    *exact = known && row.is_signal;
    return cursor->pc && cursor->cfa > before && cursor->cfa <= (uintptr_t)cursor->high;
}

int ci_unwind(const struct ci_frame_tables *tables, const struct ci_context *context,
              const void *low, const void *high, void **frames, int most)
{
    struct cursor cursor = {.low = low, .high = high, .pc = (uintptr_t)context->pc};
    bool exact = true;
    int count = 0;
    set(&cursor, CI_REGISTER_SP, (uintptr_t)context->sp);
    set(&cursor, CI_REGISTER_FP, (uintptr_t)context->fp);
    if (cursor.registers[CI_REGISTER_SP] < (uintptr_t)low ||
        cursor.registers[CI_REGISTER_SP] > (uintptr_t)high)
        return 0;
    do
        frames[count++] = (void *)cursor.pc;
    while (count < most && step(tables, &cursor, &exact));
    return count;
}

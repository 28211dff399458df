#include "sys/frame_table.h"

#include <string.h>

#if defined(__ELF__)
#include <link.h>
#endif

/* ---- bytes ---- */

uint64_t ci_frame_unsigned(const uint8_t **at)
{
    uint64_t value = 0;
    unsigned shift = 0;
    do
        value |= shift < 64 ? (uint64_t)(**at & 0x7f) << shift : 0;
    while (shift += 7, *(*at)++ & 0x80);
    return value;
}

int64_t ci_frame_signed(const uint8_t **at)
{
    const uint8_t *from = *at;
    uint64_t value = ci_frame_unsigned(at);
    unsigned bits = 7 * (unsigned)(*at - from);
    bool negative = (*at)[-1] & 0x40;
    return (int64_t)(negative && bits < 64 ? value | ~(uint64_t)0 << bits : value);
}

#define READ(at, type) read_##type(at)
#define READER(type)                            \
    static type read_##type(const uint8_t **at) \
    {                                           \
        type value;                             \
        memcpy(&value, *at, sizeof value);      \
        *at += sizeof value;                    \
        return value;                           \
    }
READER(uint16_t)
READER(int16_t)
READER(uint32_t)
READER(int32_t)
READER(uint64_t)

/* How an address is written: its form in the low bits, and what it counts from. */
enum {
    FORM_PLAIN = 0,
    FORM_ULEB = 1,
    FORM_U2 = 2,
    FORM_U4 = 3,
    FORM_U8 = 4,
    FORM_SLEB = 9,
    FORM_S2 = 10,
    FORM_S4 = 11,
    FORM_S8 = 12,
    FORM = 15,
    FROM_HERE = 0x10,
    FROM_DATA = 0x30,
    FROM = 0x70,
    INDIRECT = 0x80,
    OMITTED = 0xff
};

/* Reads an address; false: it is written in a way that does not occur in these tables. */
static bool read_address(const uint8_t **at, uint8_t encoding, uintptr_t data, uintptr_t *ret)
{
    uintptr_t from = (encoding & FROM) == FROM_HERE   ? (uintptr_t)*at
                     : (encoding & FROM) == FROM_DATA ? data
                                                      : 0;
    uintptr_t value;
    switch (encoding & FORM) {
    case FORM_PLAIN:
    case FORM_U8:
    case FORM_S8: value = (uintptr_t)READ(at, uint64_t); break;
    case FORM_ULEB: value = (uintptr_t)ci_frame_unsigned(at); break;
    case FORM_SLEB: value = (uintptr_t)ci_frame_signed(at); break;
    case FORM_U2: value = READ(at, uint16_t); break;
    case FORM_S2: value = (uintptr_t)(intptr_t)READ(at, int16_t); break;
    case FORM_U4: value = READ(at, uint32_t); break;
    case FORM_S4: value = (uintptr_t)(intptr_t)READ(at, int32_t); break;
    default: return false;
    }
    *ret = value ? from + value : 0;
    return true;
}

/* ---- finding the entry of a function ---- */

#if defined(__ELF__)
static int list_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct ci_frame_tables *tables = arg;
    struct ci_frame_module module = {UINTPTR_MAX, 0, NULL};
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t begin = (uintptr_t)info->dlpi_addr + (uintptr_t)part->p_vaddr;
        if (part->p_type == PT_GNU_EH_FRAME)
            module.header = (const uint8_t *)begin;
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
            continue;
        module.begin = begin < module.begin ? begin : module.begin;
        begin += (uintptr_t)part->p_memsz;
        module.end = begin > module.end ? begin : module.end;
    }
    if (module.end && tables->count < CI_FRAME_MODULES)
        tables->modules[tables->count++] = module;
    return 0;
}

void ci_frame_tables_list(struct ci_frame_tables *tables)
{
    tables->count = 0;
    tables->rows = NULL;
    dl_iterate_phdr(list_module, tables);
}
#else
void ci_frame_tables_list(struct ci_frame_tables *tables)
{
    tables->count = 0;
    tables->rows = NULL;
}
#endif

const struct ci_frame_module *ci_frame_module_at(const struct ci_frame_tables *tables, uintptr_t pc)
{
    for (int i = 0; i < tables->count; i++)
        if (pc >= tables->modules[i].begin && pc < tables->modules[i].end)
            return &tables->modules[i];
    return NULL;
}

/* The header: version, three encodings, and a table of functions by address, each with its
 * entry. */
enum { VERSION = 1, TABLE_ENCODING = FROM_DATA | FORM_S4 };

struct function {
    int32_t begin, entry; /* from the header */
};

/* The entry of the last function that begins at `pc` or before; NULL: none. */
static const uint8_t *search(const uint8_t *header, uintptr_t pc)
{
    const uint8_t *at = header + 4;
    uintptr_t frames, count;
    if (header[0] != VERSION || header[3] != TABLE_ENCODING || header[2] == OMITTED ||
        !read_address(&at, header[1], (uintptr_t)header, &frames) ||
        !read_address(&at, header[2], (uintptr_t)header, &count))
        return NULL;
    int64_t wanted = (int64_t)(pc - (uintptr_t)header);
    size_t low = 0, high = count;
    struct function function;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        memcpy(&function, at + middle * sizeof function, sizeof function);
        if (function.begin <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return NULL;
    memcpy(&function, at + (low - 1) * sizeof function, sizeof function);
    return header + function.entry;
}

/* Programs that are linked statically may have no header: then libgcc was told of their tables. */
struct bases {
    void *text, *data, *function;
};
extern const void *_Unwind_Find_FDE(void *pc, struct bases *bases) __attribute__((weak));

static const uint8_t *find(const struct ci_frame_tables *tables, uintptr_t pc)
{
    const struct ci_frame_module *module = ci_frame_module_at(tables, pc);
    if (module && module->header)
        return search(module->header, pc);
    struct bases bases;
    return _Unwind_Find_FDE ? _Unwind_Find_FDE((void *)pc, &bases) : NULL;
}

/* ---- reading an entry ---- */

/* Common to the entries of many functions. */
struct common {
    uint64_t code_align, return_register;
    int64_t data_align;
    uint8_t encoding;
    bool has_extra, is_signal;
    const uint8_t *program, *end;
};

/* Returns the end of what begins at *at, behind its length; NULL: the end of the table. */
static const uint8_t *read_length(const uint8_t **at)
{
    uint64_t len = READ(at, uint32_t);
    if (len == UINT32_MAX)
        len = READ(at, uint64_t);
    return len ? *at + len : NULL;
}

/* What the letters behind the 'z' stand for, from `at` on. */
static bool read_extra(struct common *common, const char *letters, const uint8_t *at)
{
    uintptr_t personality;
    for (; *letters; letters++)
        switch (*letters) {
        case 'R': common->encoding = *at++; break;
        case 'L': at++; break;
        case 'P': {
            uint8_t encoding = *at++;
            if (!read_address(&at, encoding & (uint8_t)~INDIRECT, 0, &personality))
                return false;
            break;
        }
        case 'S': common->is_signal = true; break;
        case 'B': break; /* return addresses are signed with the other key */
        default: return false;
        }
    return true;
}

static bool read_common(const uint8_t *at, struct common *common)
{
    *common = (struct common){.end = read_length(&at)};
    if (!common->end || READ(&at, uint32_t) != 0)
        return false;
    uint8_t version = *at++;
    const char *letters = (const char *)at;
    at += strlen(letters) + 1;
    common->code_align = ci_frame_unsigned(&at);
    common->data_align = ci_frame_signed(&at);
    common->return_register = version == 1 ? *at++ : ci_frame_unsigned(&at);
    common->has_extra = *letters == 'z';
    if (!common->has_extra) {
        common->program = at;
        return *letters == '\0';
    }
    uint64_t len = ci_frame_unsigned(&at);
    common->program = at + len;
    return read_extra(common, letters + 1, at);
}

struct entry {
    struct common common;
    uintptr_t begin;
    const uint8_t *program, *end;
};

/* False: it is no entry for `pc`. */
static bool read_entry(const uint8_t *at, uintptr_t pc, struct entry *entry)
{
    uintptr_t len;
    entry->end = read_length(&at);
    if (!entry->end)
        return false;
    const uint8_t *common = at;
    common -= READ(&at, uint32_t);
    if (!read_common(common, &entry->common) ||
        !read_address(&at, entry->common.encoding, 0, &entry->begin) ||
        !read_address(&at, entry->common.encoding & FORM, 0, &len) || pc < entry->begin ||
        pc - entry->begin >= len)
        return false;
    if (entry->common.has_extra) {
        uint64_t extra = ci_frame_unsigned(&at);
        at += extra;
    }
    entry->program = at;
    return true;
}

/* ---- running an entry's program ---- */

enum {
    NOP = 0x00,
    SET_LOCATION = 0x01,
    ADVANCE_1 = 0x02,
    ADVANCE_2 = 0x03,
    ADVANCE_4 = 0x04,
    OFFSET_OF = 0x05,
    RESTORE_OF = 0x06,
    UNDEFINED = 0x07,
    SAME_VALUE = 0x08,
    REGISTER = 0x09,
    REMEMBER = 0x0a,
    RECALL = 0x0b,
    CFA = 0x0c,
    CFA_REGISTER = 0x0d,
    CFA_OFFSET = 0x0e,
    CFA_EXPRESSION = 0x0f,
    EXPRESSION = 0x10,
    OFFSET_SIGNED = 0x11,
    CFA_SIGNED = 0x12,
    CFA_OFFSET_SIGNED = 0x13,
    VALUE_OFFSET = 0x14,
    VALUE_OFFSET_SIGNED = 0x15,
    VALUE_EXPRESSION = 0x16,
    SIGNED_RETURN = 0x2d,
    ARGUMENTS_SIZE = 0x2e,
    ADVANCE = 1, /* the upper two bits; the operand is in the others */
    OFFSET = 2,
    RESTORE = 3,
    REMEMBERED = 4 /* rows at a time: compilers use one */
};

struct run {
    const struct common *common;
    uintptr_t at, pc;
    struct ci_frame_row *row, initial;
    struct ci_frame_row remembered[REMEMBERED];
    int depth;
};

static void set(struct run *run, uint64_t number, enum ci_frame_rule rule, int64_t offset)
{
    if (number < CI_REGISTERS)
        run->row->registers[number] = (struct ci_frame_value){rule, offset, NULL};
}

static void restore(struct run *run, uint64_t number)
{
    if (number < CI_REGISTERS)
        run->row->registers[number] = run->initial.registers[number];
}

static void set_expression(struct run *run, const uint8_t **at, enum ci_frame_rule rule)
{
    uint64_t number = ci_frame_unsigned(at);
    if (number < CI_REGISTERS)
        run->row->registers[number] = (struct ci_frame_value){rule, 0, *at};
    uint64_t len = ci_frame_unsigned(at);
    *at += len;
}

static void advance(struct run *run, uint64_t count)
{
    run->at += (uintptr_t)(count * run->common->code_align);
}

/* One of those that say where the stack pointer was. False: it is another one. */
static bool step_cfa(struct run *run, uint8_t code, const uint8_t **at)
{
    struct ci_frame_row *row = run->row;
    if (code == CFA_EXPRESSION) {
        row->cfa = (struct ci_frame_value){CI_FRAME_IS_EXPRESSION, 0, *at};
        uint64_t len = ci_frame_unsigned(at);
        *at += len;
        return true;
    }
    if (code != CFA && code != CFA_SIGNED && code != CFA_REGISTER && code != CFA_OFFSET &&
        code != CFA_OFFSET_SIGNED)
        return false;
    row->cfa.rule = CI_FRAME_IS;
    if (code == CFA || code == CFA_SIGNED || code == CFA_REGISTER)
        row->cfa_register = ci_frame_unsigned(at);
    if (code == CFA || code == CFA_OFFSET)
        row->cfa.offset = (int64_t)ci_frame_unsigned(at);
    else if (code != CFA_REGISTER)
        row->cfa.offset = ci_frame_signed(at) * run->common->data_align;
    return true;
}

/* An instruction with an offset from the CFA. */
static void step_offset(struct run *run, uint64_t number, enum ci_frame_rule rule, int64_t offset)
{
    set(run, number, rule, offset * run->common->data_align);
}

/* False: it is not understood. */
static bool step_other(struct run *run, uint8_t code, const uint8_t **at)
{
    uint64_t number;
    switch (code) {
    case NOP: return true;
    case ARGUMENTS_SIZE: ci_frame_unsigned(at); return true;
    case SIGNED_RETURN: run->row->is_signed = !run->row->is_signed; return true;
    case SET_LOCATION: return read_address(at, run->common->encoding, 0, &run->at);
    case ADVANCE_1: advance(run, *(*at)++); return true;
    case ADVANCE_2: advance(run, READ(at, uint16_t)); return true;
    case ADVANCE_4: advance(run, READ(at, uint32_t)); return true;
    case REMEMBER:
        if (run->depth == REMEMBERED)
            return false;
        run->remembered[run->depth++] = *run->row;
        return true;
    case RECALL:
        if (run->depth == 0)
            return false;
        *run->row = run->remembered[--run->depth];
        return true;
    case EXPRESSION: set_expression(run, at, CI_FRAME_AT_EXPRESSION); return true;
    case VALUE_EXPRESSION: set_expression(run, at, CI_FRAME_IS_EXPRESSION); return true;
    default: break;
    }
    number = ci_frame_unsigned(at);
    switch (code) {
    case RESTORE_OF: restore(run, number); break;
    case UNDEFINED: set(run, number, CI_FRAME_UNDEFINED, 0); break;
    case SAME_VALUE: set(run, number, CI_FRAME_SAME, 0); break;
    case REGISTER: set(run, number, CI_FRAME_REGISTER, (int64_t)ci_frame_unsigned(at)); break;
    case OFFSET_OF: step_offset(run, number, CI_FRAME_AT, (int64_t)ci_frame_unsigned(at)); break;
    case OFFSET_SIGNED: step_offset(run, number, CI_FRAME_AT, ci_frame_signed(at)); break;
    case VALUE_OFFSET: step_offset(run, number, CI_FRAME_IS, (int64_t)ci_frame_unsigned(at)); break;
    case VALUE_OFFSET_SIGNED: step_offset(run, number, CI_FRAME_IS, ci_frame_signed(at)); break;
    default: return false;
    }
    return true;
}

/* Runs the instructions until they speak of what lies behind `pc`. */
static bool run_program(struct run *run, const uint8_t *at, const uint8_t *end)
{
    while (at < end && run->at <= run->pc) {
        uint8_t code = *at++, operand = code & 0x3f;
        switch (code >> 6) {
        case ADVANCE: advance(run, operand); break;
        case RESTORE: restore(run, operand); break;
        case OFFSET: step_offset(run, operand, CI_FRAME_AT, (int64_t)ci_frame_unsigned(&at)); break;
        default:
            if (!step_cfa(run, code, &at) && !step_other(run, code, &at))
                return false;
        }
    }
    return true;
}

static bool read_row(const struct ci_frame_tables *tables, uintptr_t pc,
                     struct ci_frame_row *ret_row)
{
    struct entry entry;
    const uint8_t *at = find(tables, pc);
    if (!at || !read_entry(at, pc, &entry))
        return false;
    *ret_row = (struct ci_frame_row){.return_register = entry.common.return_register,
                                     .is_signal = entry.common.is_signal};
    struct run run = {.common = &entry.common, .at = 0, .pc = pc, .row = ret_row};
    if (!run_program(&run, entry.common.program, entry.common.end))
        return false;
    run.initial = *ret_row;
    run.at = entry.begin;
    return run_program(&run, entry.program, entry.end);
}

static struct ci_frame_row_known *known_at(const struct ci_frame_tables *tables, uintptr_t pc)
{
    return tables->rows
               ? &tables->rows->known[pc * 0x9e3779b97f4a7c15u >> (64 - CI_FRAME_ROWS_BITS)]
               : NULL;
}

bool ci_frame_row_at(const struct ci_frame_tables *tables, uintptr_t pc,
                     struct ci_frame_row *ret_row)
{
    struct ci_frame_row_known *known = known_at(tables, pc);
    if (known && pc && known->pc == pc) {
        *ret_row = known->row;
        return true;
    }
    if (!read_row(tables, pc, ret_row))
        return false;
    if (known)
        *known = (struct ci_frame_row_known){pc, *ret_row};
    return true;
}

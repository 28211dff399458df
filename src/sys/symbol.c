#include "sys/symbol.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#if defined(__ELF__)
#include <elf.h>
#include <link.h>
#endif

struct text {
    char *bytes;
    size_t size, len;
    bool full;
};

static void put(struct text *text, const char *format, ...) COIR_PRINTF(2, 3);

/* A whole line, or none. */
static void put(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t left = text->size - text->len;
    int len = vsnprintf(text->bytes + text->len, left, format, args);
    va_end(args);
    text->full |= len < 0 || (size_t)len >= left;
    text->len += text->full ? 0 : (size_t)len;
    text->bytes[text->len] = '\0';
}

/* The address in its file, as addr2line wants it: files that are not loaded where they want to be
 * count from their beginning. */
static uintptr_t in_file(const Dl_info *info, uintptr_t address)
{
#if defined(__ELF__)
    const Elf64_Ehdr *head = info->dli_fbase;
    if (head->e_type == ET_EXEC)
        return address;
#endif
    return address - (uintptr_t)info->dli_fbase;
}

/* ---- what the dynamic linker knows ---- */

#if defined(__ELF__)
struct loaded {
    uintptr_t address, offset;
    const char *file;
};

static int find_file(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct loaded *loaded = arg;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum && !loaded->file; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD ||
            loaded->address - info->dlpi_addr - part->p_vaddr >= part->p_memsz)
            continue;
        loaded->file = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "the program";
        loaded->offset = loaded->address - info->dlpi_addr;
    }
    return loaded->file != NULL;
}

/* A static program has no dynamic linker to ask. */
static void put_unknown(struct text *text, unsigned number, uintptr_t address)
{
    struct loaded loaded = {.address = address};
    if (dl_iterate_phdr(find_file, &loaded))
        put(text, "    #%u ? (%s+0x%" PRIxPTR ")\n", number, loaded.file, loaded.offset);
    else
        put(text, "    #%u 0x%" PRIxPTR "\n", number, address);
}
#else
static void put_unknown(struct text *text, unsigned number, uintptr_t address)
{
    put(text, "    #%u 0x%" PRIxPTR "\n", number, address);
}
#endif

static void put_address(struct text *text, unsigned number, uintptr_t address)
{
    Dl_info info;
    if (!dladdr((const void *)address, &info) || !info.dli_fname)
        put_unknown(text, number, address);
    else
        put(text, "    #%u %s (%s+0x%" PRIxPTR ")\n", number, info.dli_sname ? info.dli_sname : "?",
            info.dli_fname, in_file(&info, address));
}

/* ---- debugging information ---- */

#if defined(COIR_BACKTRACE)
#include <backtrace.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

const bool ci_has_symbols = true;

struct frame {
    struct text *text;
    unsigned number;
    bool found;
};

/* A function, innermost first where some were inlined. */
static int put_function(void *arg, uintptr_t address, const char *file, int line,
                        const char *function)
{
    struct frame *frame = arg;
    (void)address;
    if (!function)
        return 0;
    if (file)
        put(frame->text, "    #%u %s at %s:%d\n", frame->number, function, file, line);
    else
        put(frame->text, "    #%u %s\n", frame->number, function);
    frame->found = true;
    return 0;
}

/* A function without debugging information. */
static void put_symbol(void *arg, uintptr_t address, const char *name, uintptr_t value,
                       uintptr_t size)
{
    (void)value, (void)size;
    Dl_info info;
    struct frame *frame = arg;
    if (!name || !dladdr((const void *)address, &info) || !info.dli_fname)
        return;
    put(frame->text, "    #%u %s (%s+0x%" PRIxPTR ")\n", frame->number, name, info.dli_fname,
        in_file(&info, address));
    frame->found = true;
}

/* What libbacktrace knows of the process, which cannot be freed. It reads the program and its
 * libraries once; where no descriptor was left for that, it would know nothing for ever, so another
 * one is made later. */
static struct backtrace_state *state;
static int states;                                       /* made so far */
static bool missed_a_file;                               /* of `state` */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards these, and what state reads */

enum { STATES_MOST = 16, DESCRIPTORS = 4 /* at a time, at most */ };

/* The address itself is written then. */
static void on_error(void *arg, const char *message, int number)
{
    (void)arg, (void)message;
    missed_a_file |= number == EMFILE || number == ENFILE;
}

static bool can_open_files(void)
{
    int files[DESCRIPTORS], count = 0;
    while (count < DESCRIPTORS &&
           (files[count] = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)) >= 0)
        count++;
    for (int i = 0; i < count; i++)
        close(files[i]);
    return count == DESCRIPTORS;
}

/* With the lock held. */
static void make_state(void)
{
    if (state && (!missed_a_file || states == STATES_MOST || !can_open_files()))
        return;
    missed_a_file = false;
    states++;
    state = backtrace_create_state(NULL, 1, on_error, NULL);
}

static bool put_frame(struct text *text, unsigned number, uintptr_t address)
{
    struct frame frame = {text, number, false};
    pthread_mutex_lock(&lock);
    make_state();
    if (state)
        backtrace_pcinfo(state, address, put_function, on_error, &frame);
    if (state && !frame.found)
        backtrace_syminfo(state, address, put_symbol, on_error, &frame);
    pthread_mutex_unlock(&lock);
    return frame.found;
}

struct variable {
    char *name;
    size_t size;
    bool found;
};

static void put_variable(void *arg, uintptr_t address, const char *name, uintptr_t value,
                         uintptr_t size)
{
    struct variable *variable = arg;
    variable->found = name && address - value < size;
    if (variable->found)
        snprintf(variable->name, variable->size, "%s", name);
}

bool ci_symbol_variable(const void *address, char *name, size_t size)
{
    struct variable variable = {name, size, false};
    pthread_mutex_lock(&lock);
    make_state();
    if (state)
        backtrace_syminfo(state, (uintptr_t)address, put_variable, on_error, &variable);
    pthread_mutex_unlock(&lock);
    return variable.found;
}
#else
const bool ci_has_symbols = false;

static bool put_frame(struct text *text, unsigned number, uintptr_t address)
{
    (void)text, (void)number, (void)address;
    return false;
}

bool ci_symbol_variable(const void *address, char *name, size_t size)
{
    (void)address, (void)name, (void)size;
    return false;
}
#endif

size_t ci_symbol_write(const struct ci_traced *traced, char *bytes, size_t size)
{
    struct text text = {.bytes = bytes, .size = size};
    bytes[0] = '\0';
    for (int i = 0; i < traced->count && !text.full; i++) {
        /* a call returns behind itself, which may be another line, or another function */
        uintptr_t address = (uintptr_t)traced->frames[i] - (i > 0 || !traced->exact);
        if (!put_frame(&text, (unsigned)i, address))
            put_address(&text, (unsigned)i, address);
    }
    return text.len;
}

/* ---- the build id ---- */

#if defined(__ELF__)

/* The first object is the program. */
static int find_build_id(struct dl_phdr_info *info, size_t size, void *arg)
{
    char *text = arg;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const char *at = (const char *)info->dlpi_addr + part->p_vaddr, *end = at + part->p_memsz;
        while (part->p_type == PT_NOTE && end - at >= (ptrdiff_t)sizeof(ElfW(Nhdr))) {
            const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)(const void *)at;
            const char *name = at + sizeof *note;
            const uint8_t *id = (const uint8_t *)name + ((note->n_namesz + 3) & ~3u);
            at = (const char *)id + ((note->n_descsz + 3) & ~3u);
            if (note->n_type != NT_GNU_BUILD_ID || note->n_namesz != 4 ||
                memcmp(name, "GNU", 4) != 0)
                continue;
            for (size_t j = 0; j < note->n_descsz && 2 * j + 3 <= CI_BUILD_ID; j++)
                snprintf(text + 2 * j, 3, "%02x", id[j]);
        }
    }
    return 1;
}

void ci_build_id(char text[CI_BUILD_ID])
{
    text[0] = '\0';
    dl_iterate_phdr(find_build_id, text);
}
#else
void ci_build_id(char text[CI_BUILD_ID])
{
    text[0] = '\0';
}
#endif

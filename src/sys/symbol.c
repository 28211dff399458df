#include "sys/symbol.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#if defined(__ELF__)
#include <elf.h>
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

static void put_address(struct text *text, unsigned number, uintptr_t address)
{
    Dl_info info;
    if (!dladdr((const void *)address, &info) || !info.dli_fname)
        put(text, "    #%u 0x%" PRIxPTR "\n", number, address);
    else
        put(text, "    #%u %s (%s+0x%" PRIxPTR ")\n", number, info.dli_sname ? info.dli_sname : "?",
            info.dli_fname, in_file(&info, address));
}

/* ---- debugging information ---- */

#if defined(COIR_BACKTRACE)
#include <backtrace.h>
#include <pthread.h>

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

static void on_error(void *arg, const char *message, int number)
{
    (void)arg, (void)message, (void)number; /* the address itself is written then */
}

/* What libbacktrace knows of the process, which cannot be freed. */
static struct backtrace_state *state;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* it reads a file when it needs it */

static void make_state(void)
{
    state = backtrace_create_state(NULL, 1, on_error, NULL);
}

static bool put_frame(struct text *text, unsigned number, uintptr_t address)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct frame frame = {text, number, false};
    pthread_once(&once, make_state);
    pthread_mutex_lock(&lock);
    if (state)
        backtrace_pcinfo(state, address, put_function, on_error, &frame);
    if (state && !frame.found)
        backtrace_syminfo(state, address, put_symbol, on_error, &frame);
    pthread_mutex_unlock(&lock);
    return frame.found;
}
#else
const bool ci_has_symbols = false;

static bool put_frame(struct text *text, unsigned number, uintptr_t address)
{
    (void)text, (void)number, (void)address;
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

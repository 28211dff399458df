/* Attributes and builtins under names of our own. The only header above sys/ and driver/ that may
 * look at compiler macros. */
#ifndef CI_BASE_COMPILER_H
#define CI_BASE_COMPILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if !defined(__LP64__)
#error "coir needs a 64-bit target"
#endif

#define ci_likely(x) __builtin_expect(!!(x), 1)
#define ci_unlikely(x) __builtin_expect(!!(x), 0)

#define CI_NOINLINE __attribute__((noinline))
#define CI_INLINE static inline __attribute__((always_inline))
#define CI_COLD __attribute__((cold, noinline))
#define CI_NORETURN __attribute__((noreturn))
/* Of a variable of the library's own: read without the table of addresses. */
#define CI_HIDDEN __attribute__((visibility("hidden")))
#define CI_UNUSED __attribute__((unused))
#define CI_CACHE_ALIGNED __attribute__((aligned(64)))
#define CI_THREAD_LOCAL __thread __attribute__((tls_model("initial-exec")))

/* Fetches a cache line for writing, where the first access to it is a load: else a line that
 * another core has written would be fetched twice. */
#if defined(__x86_64__) /* gcc has it only where the least processor is said to have it */
#define CI_PREFETCH_WRITE(p) __asm__("prefetchw %0" : : "m"(*(p)))
#else
#define CI_PREFETCH_WRITE(p) __builtin_prefetch((p), 1)
#endif

/* strerrordesc_np, of glibc from 2.32 on. No weak reference tells that: a static program would not
 * get the function by it. */
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 32)
#define CI_HAS_STRERRORDESC 1
#endif
#endif
#if !defined(CI_HAS_STRERRORDESC)
#define CI_HAS_STRERRORDESC 0
#endif

/* The struct that embeds `ptr` as its member. */
#define ci_container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define ci_countof(array) (sizeof(array) / sizeof((array)[0]))

#if defined(__SANITIZE_ADDRESS__)
#define CI_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CI_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define CI_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CI_TSAN 1
#endif
#endif
#ifndef CI_ASAN
#define CI_ASAN 0
#endif
#ifndef CI_TSAN
#define CI_TSAN 0
#endif

/* Debug builds: misuse aborts (sys/misuse.h), and ci_debug_check checks. */
#if !defined(NDEBUG) || CI_ASAN || CI_TSAN
#define CI_DEBUG 1
#else
#define CI_DEBUG 0
#endif

/* For functions that are left by a switch: TSan would keep their entry on its shadow stack. */
#if CI_TSAN && defined(__clang__)
#define CI_UNTRACED __attribute__((disable_sanitizer_instrumentation))
#else
#define CI_UNTRACED
#endif

/* For functions whose doings are not those of the thread that sanitizers take them for. */
#if defined(__clang__)
#define CI_UNINSTRUMENTED \
    __attribute__((disable_sanitizer_instrumentation, no_sanitize("address", "undefined")))
#else
#define CI_UNINSTRUMENTED \
    __attribute__((no_sanitize_address, no_sanitize_thread, no_sanitize_undefined))
#endif

#endif

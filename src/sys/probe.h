/* Probes that other programs attach to (USDT: bpftrace, perf, SystemTap): a nop each, found by the
 * notes of the ELF file.
 *
 * The kernel counts in `ci_probe_listeners` how many are attached. It is the semaphore of all
 * probes, so one look at it says whether any of them is wanted. */
#ifndef CI_SYS_PROBE_H
#define CI_SYS_PROBE_H

#include "base/compiler.h"

#ifdef COIR_USDT
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

extern volatile unsigned short ci_probe_listeners;

static inline bool ci_probes_wanted(void)
{
    return ci_unlikely(ci_probe_listeners != 0);
}

/* At file scope, once in the program, in the file that has the probes: the count, in the section
 * where the tools expect it, and each probe. */
#define CI_PROBE_LISTENERS \
    __attribute__((section(".probes"))) volatile unsigned short ci_probe_listeners
#define CI_PROBE_DECLARE(name)                                                                    \
    extern __attribute__((visibility("hidden"))) volatile unsigned short coir_##name##_semaphore; \
    __asm__(".set coir_" #name "_semaphore, ci_probe_listeners")

#define CI_PROBE2(name, a, b) STAP_PROBE2(coir, name, a, b)
#define CI_PROBE3(name, a, b, c) STAP_PROBE3(coir, name, a, b, c)
#define CI_PROBE4(name, a, b, c, d) STAP_PROBE4(coir, name, a, b, c, d)
#define CI_PROBE5(name, a, b, c, d, e) STAP_PROBE5(coir, name, a, b, c, d, e)

#else

static inline bool ci_probes_wanted(void)
{
    return false;
}

#define CI_PROBE_LISTENERS struct ci_no_probe
#define CI_PROBE_DECLARE(name) struct ci_no_probe
#define CI_PROBE2(name, a, b) ((void)(a), (void)(b))
#define CI_PROBE3(name, a, b, c) ((void)(a), (void)(b), (void)(c))
#define CI_PROBE4(name, a, b, c, d) ((void)(a), (void)(b), (void)(c), (void)(d))
#define CI_PROBE5(name, a, b, c, d, e) ((void)(a), (void)(b), (void)(c), (void)(d), (void)(e))

#endif
#endif

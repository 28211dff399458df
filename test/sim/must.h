/* What must hold in a scenario, whatever goes wrong: else it says so and dies, which fails its
 * seed. */
#ifndef TEST_SIM_MUST_H
#define TEST_SIM_MUST_H

#include <coir.h>
#include <stdio.h>

#define MUST(condition) ((condition) ? (void)0 : must_have_held(__FILE__, __LINE__, #condition, 0))
#define MUST_BE(got, want) must_be(__FILE__, __LINE__, #got, (long long)(got), (long long)(want))

__attribute__((cold, noreturn)) static inline void must_have_held(const char *file, int line,
                                                                  const char *what, long long got)
{
    static char text[1024]; /* fprintf to stderr takes more of a fiber's stack */
    fflush(NULL);           /* the trace */
    size_t len = (size_t)snprintf(text, sizeof text, "%s:%d: %s", file, line, what);
    if (len < sizeof text)
        snprintf(text + len, sizeof text - len, got ? " is %lld%s%s\n" : " does not hold\n", got,
                 got < 0 ? ": " : "", got < 0 ? coir_strerror((int)got) : "");
    fputs(text, stderr);
    fflush(stderr); /* a scenario may have given it a buffer */
    __builtin_trap();
}

static inline void must_be(const char *file, int line, const char *what, long long got,
                           long long want)
{
    if (got != want)
        must_have_held(file, line, what, got);
}

#endif

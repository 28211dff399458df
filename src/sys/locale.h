/* Text that programs read has its numbers as the C locale writes them, whatever the program has set
 * (setlocale, uselocale): a point, no comma. */
#ifndef CI_SYS_LOCALE_H
#define CI_SYS_LOCALE_H

#include <locale.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

struct ci_locale {
    locale_t plain, before;
};

/* For the calling thread, until ci_locale_leave. Out of memory, which no C library on Linux takes
 * for it: it stays as it is. */
static inline struct ci_locale ci_locale_enter(void)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return (struct ci_locale){plain, uselocale(plain)};
}

static inline void ci_locale_leave(struct ci_locale locale)
{
    uselocale(locale.before);
    if (locale.plain)
        freelocale(locale.plain);
}

#endif

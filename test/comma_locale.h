/* A locale of the calling thread in which numbers have a comma. */
#ifndef TEST_COMMA_LOCALE_H
#define TEST_COMMA_LOCALE_H

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "harness.h"

/* LC_NUMERIC as localedef of glibc makes it of a comma, and a point between thousands. */
static const char comma_numeric[] =
    "\x14\x11\x03 \x06\0\0\0 \0\0\0\"\0\0\0$\0\0\0(\0\0\0,\0\0\0000\0\0\0,\0.\0\3\3\0\0,\0\0\0.\0\0"
    "\0UTF-8";

/* False: this C library reads no such file, so it has no such locale; or LeakSanitizer would report
 * that glibc never frees what it reads LOCPATH into. */
static inline bool comma_locale_begin(void)
{
    if (CI_ASAN)
        return false;
    char dir[] = "/tmp/coir-locale-XXXXXX", name[64], sample[8];
    CHECK(mkdtemp(dir));
    setenv("LOCPATH", dir, 1);
    snprintf(name, sizeof name, "%s/comma", dir);
    mkdir(name, 0700);
    strcat(name, "/LC_NUMERIC");
    FILE *file = fopen(name, "w");
    CHECK(file && fwrite(comma_numeric, sizeof comma_numeric, 1, file) == 1 && fclose(file) == 0);
    locale_t comma = newlocale(LC_NUMERIC_MASK, "comma", (locale_t)0);
    unlink(name);
    *strrchr(name, '/') = '\0';
    rmdir(name);
    rmdir(dir);
    if (!comma)
        return false;
    uselocale(comma);
    snprintf(sample, sizeof sample, "%.1f", 1.5);
    return strcmp(sample, "1,5") == 0;
}

#endif

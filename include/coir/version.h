/* Which coir this is: the numbers follow https://semver.org. While MAJOR is 0 a new MINOR may break programs; the shared library's
 * name carries both until then (libcoir.so.0.2). These macros are the one place where the version is written: the build reads them. */
#ifndef COIR_VERSION_H
#define COIR_VERSION_H

#include <coir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define COIR_VERSION_MAJOR 0
#define COIR_VERSION_MINOR 2
#define COIR_VERSION_PATCH 0

/* One number that grows with the version, of the headers that a program is compiled with: #if COIR_VERSION >= 2003 is 0.2.3 or later. */
#define COIR_VERSION (COIR_VERSION_MAJOR * 1000000 + COIR_VERSION_MINOR * 1000 + COIR_VERSION_PATCH)

/* The COIR_VERSION of the library that the program runs with, which may be newer than the headers it was compiled with.
 * Suspends: no.  Threads: any. */
COIR_API int coir_version(void);

#ifdef __cplusplus
}
#endif

#endif

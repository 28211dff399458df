/* The version of coir, numbered as https://semver.org says. While MAJOR is 0, a new MINOR may
 * break programs, and the shared library's name carries both (libcoir.so.0.2). The version is
 * written nowhere else: the build reads these macros. */
#ifndef COIR_VERSION_H
#define COIR_VERSION_H

#include <coir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The parts of the headers' version. */
#define COIR_VERSION_MAJOR 0
#define COIR_VERSION_MINOR 2
#define COIR_VERSION_PATCH 0

/* The version of the headers as one number that grows: COIR_VERSION >= 2003 means 0.2.3 or
 * later. */
#define COIR_VERSION (COIR_VERSION_MAJOR * 1000000 + COIR_VERSION_MINOR * 1000 + COIR_VERSION_PATCH)

/* The COIR_VERSION of the library that the program runs with, which may be newer than the headers.
 * Suspends: no.  Threads: any.
 * Errors: none. */
COIR_API int coir_version(void);

#ifdef __cplusplus
}
#endif

#endif

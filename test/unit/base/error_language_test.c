/* Texts of errors are English, in whatever language the program is. */
#include <errno.h>
#include <string.h>

#include "coir/base.h"
#include "harness.h"

#if defined(__GLIBC__)
/* In the place of the C library's, as LC_MESSAGES may have it. */
char *strerror(int error)
{
    static char text[] = "Datei oder Verzeichnis nicht gefunden";
    CHECK(error > 0);
    return text;
}
#endif

TEST(texts_are_english)
{
    CHECK_EQ(strcmp(coir_strerror(-ENOENT), "No such file or directory"), 0);
}

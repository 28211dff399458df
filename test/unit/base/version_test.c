/* The version of the library is that of its headers. */
#include <coir/version.h>

#include "harness.h"

TEST(the_library_tells_the_version_of_its_headers)
{
    CHECK(coir_version() == COIR_VERSION);
    CHECK(COIR_VERSION_MINOR < 1000 && COIR_VERSION_PATCH < 1000);
}

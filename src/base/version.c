#include "coir/version.h"

int coir_version(void)
{
    return COIR_VERSION;
}

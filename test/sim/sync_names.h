/* Making the names of a host's files last over a loss of power. */
#ifndef TEST_SIM_SYNC_NAMES_H
#define TEST_SIM_SYNC_NAMES_H

#include <coir/file.h>
#include <fcntl.h>

/* Of the files in the host's working directory. */
static inline int sync_names(void)
{
    coir_file *dir;
    int rc = coir_file_open(".", O_RDONLY | O_DIRECTORY, 0, &dir);
    if (rc < 0)
        return rc;
    rc = coir_file_sync(dir);
    coir_file_close(dir);
    return rc;
}

#endif

/* Keeping the numbers 0 to 2, as the C library does for programs with more rights than their user.
 */
#include "sys/stdio.h"

#include <fcntl.h>
#include <unistd.h>

#include "sys/result.h"

int ci_stdio_reserve(void)
{
    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        /* it gets the lowest number, which is `fd`; not the direction that is used */
        int rc = (int)ci_result(
            open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC));
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Misuse of TLS is named in the log of the calling worker's runtime. This library has its own copy
 * of sys/misuse.c, and logs by a public function. */
#include "sys/misuse.h"

#include "coir/runtime.h"

static bool log_line(const struct coir_runtime *runtime, const char *line)
{
    (void)runtime;
    if (line)
        coir_log(COIR_LOG_ERROR, "%s", line);
    return coir_runtime_current();
}

__attribute__((constructor)) static void log_tls_misuse(void)
{
    if (!ci_misuse_log) /* the copy is coir's own where both are linked as one */
        ci_misuse_log = log_line;
}

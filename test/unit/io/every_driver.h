/* A test on a runtime of each driver. */
#ifndef TEST_UNIT_IO_EVERY_DRIVER_H
#define TEST_UNIT_IO_EVERY_DRIVER_H

#include <coir.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

static inline int run_body(void *body)
{
    void (*run)(void);
    memcpy(&run, body, sizeof run);
    run();
    return 0;
}

/* Runs on each driver in turn, whatever COIR_DRIVER says; `config` names none. */
static inline void run_on_every_driver(coir_config config, void (*body)(void))
{
    static const char *const drivers[] = {"io_uring", "epoll", "poll"};
    unsetenv("COIR_WORKERS");
    unsetenv("COIR_DRIVER");
    for (int i = 0; i < 3; i++) {
        coir_runtime *runtime;
        config.driver = drivers[i];
        if (coir_runtime_new(&config, &runtime) < 0) {
            CHECK_EQ(i, 0); /* io_uring does not work here */
            continue;
        }
        CHECK_EQ(coir_runtime_run(runtime, run_body, &body), 0);
        coir_runtime_free(runtime);
    }
}

#endif

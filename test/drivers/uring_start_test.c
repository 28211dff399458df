/* What start completes at once: attempts that must not wait, reads of what is there. */
#include <errno.h>

#include "env.h"

CONFORM(a_try_sees_what_comes_later)
{
    char buf[16];
    struct ci_op try_read = {
        .fd = env.server, .kind = CI_OP_READ, .buf = buf, .len = sizeof buf, .no_wait = true};
    for (int round = 0; round < 3; round++) {
        CHECK_EQ(run(try_read), -EAGAIN); /* no operation waits, and none has waited before */
        CHECK_EQ(write_some(env.client, "late", 4), 4);
        int n;
        while ((n = run(try_read)) == -EAGAIN)
            pass();
        CHECK_EQ(n, 4);
    }
    close_fd(env.client);
    close_fd(env.server);
}

CONFORM(an_operation_that_must_not_wait_says_so)
{
    char buf[16];
    CHECK_EQ(run((struct ci_op){
                 .fd = env.server, .kind = CI_OP_READ, .buf = buf, .len = 16, .no_wait = true}),
             -EAGAIN);
    CHECK_EQ(write_some(env.client, "abc", 3), 3);
    CHECK(wait_events(env.server, COIR_READ) & COIR_READ);
    CHECK_EQ(run((struct ci_op){
                 .fd = env.server, .kind = CI_OP_READ, .buf = buf, .len = 16, .no_wait = true}),
             3);
    close_fd(env.client);
    close_fd(env.server);
}

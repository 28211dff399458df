/* A broken stream: every operation on it fails with the error it was broken with. */
#include <coir.h>
#include <errno.h>

#include "harness.h"
#include "io/io.h"
#include "pair.h"

static struct {
    coir_stream *far, *near;
} t;

static int read_one(void *arg)
{
    char byte;
    (void)arg;
    return (int)coir_read(t.near, &byte, 1);
}

static void expect_broken(void)
{
    char byte;
    CHECK_EQ(coir_read(t.near, &byte, 1), -ECONNABORTED);
    CHECK_EQ(coir_try_read(t.near, &byte, 1), -ECONNABORTED);
    CHECK_EQ(coir_write(t.near, "x", 1), -ECONNABORTED);
    CHECK_EQ(coir_stream_wait(t.near, COIR_READ), -ECONNABORTED);
    CHECK_EQ(coir_shutdown_write(t.near), -ECONNABORTED);
    CHECK_EQ(coir_stream_detach(t.near), -ECONNABORTED);
}

static void break_while_it_is_read(void)
{
    char byte, name[64];
    COIR_HANDLE(reader);
    COIR_SERVING_SCOPE(scope);
    coir_go_options go = COIR_GO_OPTIONS;
    go.handle = reader;
    connect_pair(&t.far, &t.near);
    COIR_DEADLINE(coir_in(30 * COIR_S));
    CHECK_EQ(coir_go_with(scope, &go, read_one, NULL), 0);
    for (int i = 0; i < 3; i++)
        coir_yield();
    ci_stream_break(t.near, -ECONNABORTED);
    ci_stream_break(t.near, -EIO); /* the first stays */
    CHECK_EQ(coir_join(reader), -ECONNABORTED);
    expect_broken();
    CHECK(coir_stream_peer(t.near, name, sizeof name) > 0);
    coir_close(t.near);
    CHECK_EQ(coir_read(t.far, &byte, 1), -ECONNRESET);
    coir_close(t.far);
}

TEST_REAL(whoever_reads_a_stream_that_breaks_is_told_and_its_peer_is_reset)
{
    break_while_it_is_read();
}

TEST_SIM(so_it_is_in_the_simulated_world)
{
    break_while_it_is_read();
}

TEST_SIM(a_stream_in_memory_breaks_too_and_its_peer_reads_the_end)
{
    char byte;
    CHECK_EQ(coir_duplex(0, &t.far, &t.near), 0);
    CHECK_EQ(coir_write(t.far, "x", 1), 1);
    ci_stream_break(t.near, -ECONNABORTED);
    expect_broken();
    coir_close(t.near);
    CHECK_EQ(coir_read(t.far, &byte, 1), 0);
    coir_close(t.far);
}

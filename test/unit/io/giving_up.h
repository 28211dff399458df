/* Connecting by name, cancelled at any moment: nothing is left open. Every name "here..." must
 * resolve to this machine. */
#ifndef TEST_GIVING_UP_H
#define TEST_GIVING_UP_H

#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/listener.h"
#include "open_files.h"
#include "plain.h"

enum { CONNECTS = 10000 };
static struct {
    coir_listener *listener;
    char name[2][64];
    int connected;
} giving_up;

static inline int connect_to(void *arg)
{
    coir_stream *stream = NULL;
    int rc = coir_tcp_connect(arg, &stream);
    CHECK_EQ(rc == 0, stream != NULL);
    giving_up.connected += rc == 0;
    coir_close(stream);
    return rc == -ECANCELED || rc == -ECONNREFUSED || rc == -ETIMEDOUT ? 0 : rc;
}

/* A new name has to be asked for; one that is known, not. */
static inline void give_up_after(int yields, int i)
{
    COIR_SCOPE(scope);
    snprintf(giving_up.name[1], sizeof giving_up.name[1], "here%d.test%s", i,
             strrchr(giving_up.name[0], ':'));
    CHECK_EQ(coir_go(scope, connect_to, giving_up.name[i % 2]), 0);
    for (int turn = 0; turn < yields; turn++)
        CHECK_EQ(i % 3 ? coir_yield() : coir_sleep_for(1), 0);
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
}

static inline int accept_all(void *arg)
{
    coir_stream *stream;
    char byte;
    int rc;
    (void)arg;
    while ((rc = coir_accept(giving_up.listener, &stream)) == 0) {
        rc = (int)coir_read(stream, &byte, 1); /* a reset before the client closes is an error */
        CHECK(rc == 0 || rc == -ECANCELED);
        coir_close(stream);
    }
    return rc == -ECANCELED ? 0 : rc;
}

/* `count` says how many descriptors are open. */
static inline void give_up_connecting(int (*count)(void))
{
    char local[64];
    CHECK_EQ(coir_tcp_listen(":0", &giving_up.listener), 0);
    plain_reset_on_close(giving_up.listener->fd);
    CHECK(coir_listener_local(giving_up.listener, local, sizeof local) > 0);
    snprintf(giving_up.name[0], sizeof giving_up.name[0], "here.test%s", strrchr(local, ':'));
    CHECK_EQ(connect_to(giving_up.name[0]), 0);
    int before = count();
    {
        COIR_SCOPE(server);
        CHECK_EQ(coir_go(server, accept_all, NULL), 0);
        for (int i = 0; i < CONNECTS; i++)
            give_up_after(i % 11, i);
        coir_scope_cancel(server);
        CHECK_EQ(coir_scope_wait(server), 0);
    }
    CHECK_EQ(count(), before);
    CHECK(giving_up.connected > 1 && giving_up.connected < CONNECTS);
    coir_listener_close(giving_up.listener);
}

#endif

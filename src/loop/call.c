/* Plain calls that other threads send to a loop, with and without waiting for the result. */
#include <errno.h>

#include "loop/loop.h"
#include "sys/fork.h"
#include "sys/gate.h"
#include "sys/misuse.h"

/* Whether `call`, made at `place`, may send a function to the loop: 0 or a negative error. */
static int may_send(const struct coir_loop *loop, bool has_fn, const char *call, const void *place)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!loop || !has_fn)
        return ci_misused(-EINVAL, "loop or fn is NULL", call, place);
    if (!loop->standalone)
        return ci_misused(-EINVAL, "the loop is a worker's; use coir_runtime_post", call, place);
    return 0;
}

/* What is called may stop the loop, and its program free it, before this has returned. */
static void send_to(struct coir_loop *loop, struct ci_message *message)
{
    ci_fetch_add(&loop->keepers, 1);
    ci_loop_send(loop, message);
    ci_fetch_sub(&loop->keepers, 1);
}

struct posted {
    struct ci_message message;
    void (*fn)(void *arg);
    void *arg;
    struct coir_loop *loop;
};

static void make_posted(struct ci_message *message)
{
    struct posted *posted = ci_container_of(message, struct posted, message);
    struct posted copy = *posted;
    ci_free(copy.loop->allocator, posted, sizeof *posted);
    ci_loop_note_call(copy.loop, copy.fn);
    copy.fn(copy.arg);
}

int coir_loop_post(coir_loop *loop, void (*fn)(void *arg), void *arg)
{
    int rc = may_send(loop, fn != NULL, CI_CALL, CI_PLACE);
    if (rc < 0)
        return rc;
    struct posted *posted = ci_alloc(loop->allocator, sizeof *posted);
    if (!posted)
        return -ENOMEM;
    *posted = (struct posted){{NULL, make_posted}, fn, arg, loop};
    send_to(loop, &posted->message);
    return 0;
}

/* On its caller's stack, which waits. */
struct call {
    struct ci_message message;
    int (*fn)(void *arg);
    void *arg;
    struct coir_loop *loop;
    int result;
    struct ci_gate made;
};

static void make_call(struct ci_message *message)
{
    struct call *call = ci_container_of(message, struct call, message);
    ci_loop_note_call(call->loop, call->fn);
    call->result = call->fn(call->arg);
    ci_gate_open(&call->made);
}

int coir_loop_call(coir_loop *loop, int (*fn)(void *arg), void *arg)
{
    int rc = may_send(loop, fn != NULL, CI_CALL, CI_PLACE);
    if (rc < 0)
        return rc;
    if (ci_load_relaxed(&loop->turning) == ci_thread_mark())
        return CI_MISUSE(-EDEADLK, "a callback of the loop would wait for itself");
    struct call call = {.message.deliver = make_call, .fn = fn, .arg = arg, .loop = loop};
    ci_gate_init(&call.made);
    send_to(loop, &call.message);
    ci_gate_wait(&call.made);
    ci_gate_done(&call.made);
    return call.result;
}

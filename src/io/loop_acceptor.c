/* Accepting with callbacks (coir/loop_tcp.h). What loop_socket.h says of calls and of ends holds
 * here too. */
#include <errno.h>

#include "base/time.h"
#include "io/listener.h"
#include "io/loop_socket.h"
#include "sys/fork.h"
#include "sys/misuse.h"

enum { BACKLOG = 4096, ACCEPTS_MAX = 16 /* in a row, before the loop goes on */ };

struct coir_acceptor {
    struct ci_resident resident;
    coir_loop *loop;
    coir_fd fd;
    uint32_t serial;
    struct ci_op op;
    bool ended; /* the operation has: its result is not handled yet */
    bool calling, closed;
    struct ci_timer pause; /* after an error */
    uint32_t refused;      /* errors of connections in a row */
    coir_acceptor_fn *fn;
    void *arg;
};

static void end(coir_acceptor *acceptor)
{
    acceptor->ended = true;
    if (!acceptor->closed)
        ci_loop_make_ready(acceptor->loop, &acceptor->resident);
}

static void on_done(struct ci_op *op)
{
    end(ci_container_of(op, coir_acceptor, op));
}

static void start(coir_acceptor *acceptor)
{
    acceptor->op = (struct ci_op){
        .kind = CI_OP_ACCEPT,
        .fd = acceptor->fd,
        .len = acceptor->serial,
        .done = on_done,
    };
    if (ci_driver_start(acceptor->loop->driver, &acceptor->op))
        end(acceptor);
}

static void on_pause(struct ci_timer *timer)
{
    start(ci_container_of(timer, coir_acceptor, pause));
}

static bool begin_pause(coir_acceptor *acceptor)
{
    ci_loop_start_timer_after(acceptor->loop, &acceptor->pause, ci_accept_pause);
    return false;
}

/* Handles a connection or an error. False: it pauses, or is closed. */
static bool take(coir_acceptor *acceptor)
{
    coir_loop *loop = acceptor->loop;
    coir_socket *socket = NULL;
    int result = acceptor->op.result, fd = result;
    acceptor->ended = false;
    if (ci_accept_is_of_client(result))
        return !ci_accept_refused_again(&acceptor->refused) || begin_pause(acceptor);
    acceptor->refused = 0;
    if (fd >= 0 && (result = ci_loop_socket_new(loop, fd, &socket)) < 0)
        ci_driver_close(loop->driver, fd);
    ci_loop_note_call(loop, acceptor->fn);
    acceptor->fn(acceptor, socket, result, acceptor->arg);
    if (acceptor->closed || result == 0)
        return !acceptor->closed;
    return begin_pause(acceptor);
}

static void acceptor_call(struct ci_resident *resident)
{
    coir_acceptor *acceptor = ci_container_of(resident, coir_acceptor, resident);
    acceptor->calling = true;
    for (int i = 0; i < ACCEPTS_MAX && acceptor->ended && take(acceptor); i++)
        start(acceptor);
    if (!acceptor->ended)
        ci_list_remove(&acceptor->resident.ready);
    acceptor->calling = false;
    if (acceptor->closed)
        ci_free(acceptor->loop->allocator, acceptor, sizeof *acceptor);
}

static void close_now(coir_acceptor *acceptor)
{
    struct ci_driver *driver = acceptor->loop->driver;
    acceptor->closed = true;
    if (ci_timer_started(&acceptor->pause))
        ci_wheel_cancel(&acceptor->loop->wheel, &acceptor->pause);
    driver->kind->close_named(driver, acceptor->fd);
    /* a connection that was not told yet, or came while the accept was being cancelled */
    if (acceptor->ended && acceptor->op.result >= 0)
        ci_driver_close(driver, acceptor->op.result);
    ci_loop_remove_resident(acceptor->loop, &acceptor->resident);
    ci_check(!acceptor->op.pending, "loop_socket.h 2");
    if (!acceptor->calling)
        ci_free(acceptor->loop->allocator, acceptor, sizeof *acceptor);
}

static void close_resident(struct ci_resident *resident)
{
    close_now(ci_container_of(resident, coir_acceptor, resident));
}

static coir_fd listen_on(coir_loop *loop, const char *address)
{
    struct ci_driver *driver = loop->driver;
    struct ci_where where;
    int rc = ci_loop_tcp_find(loop, address, &where);
    if (rc < 0)
        return rc;
    struct ci_listen listen = {
        .address = (struct sockaddr *)&where.address,
        .address_len = where.len,
        .backlog = BACKLOG,
    };
    rc = driver->kind->listen(driver, &listen);
    if (!where.any || (rc != -EAFNOSUPPORT && rc != -EADDRNOTAVAIL))
        return rc;
    ci_address_become_ipv4(&where); /* the system has no IPv6 */
    listen.address_len = where.len;
    return driver->kind->listen(driver, &listen);
}

int coir_acceptor_open(coir_loop *loop, const char *address, coir_acceptor_fn *fn, void *arg,
                       coir_acceptor **ret_acceptor)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!loop || !address || !fn || !ret_acceptor)
        return CI_MISUSE(-EINVAL, "loop, address, fn or ret_acceptor is NULL");
    if (CI_IS_FOREIGN(loop))
        return -EXDEV;
    coir_fd fd = listen_on(loop, address);
    if (fd < 0)
        return fd;
    coir_acceptor *acceptor = ci_alloc_zero(loop->allocator, sizeof *acceptor);
    if (!acceptor) {
        loop->driver->kind->close_named(loop->driver, fd);
        return -ENOMEM;
    }
    acceptor->resident.call = acceptor_call;
    acceptor->resident.close = close_resident;
    ci_loop_add_resident(loop, &acceptor->resident);
    acceptor->loop = loop;
    acceptor->fd = fd;
    acceptor->serial = ci_listener_serial();
    ci_timer_init(&acceptor->pause, on_pause);
    acceptor->fn = fn;
    acceptor->arg = arg;
    start(acceptor);
    *ret_acceptor = acceptor;
    return 0;
}

int coir_acceptor_local(const coir_acceptor *acceptor, char *text, size_t size)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!acceptor || !text)
        return CI_MISUSE(-EINVAL, "acceptor or text is NULL");
    struct ci_driver *driver = acceptor->loop->driver;
    struct sockaddr_storage address;
    socklen_t len;
    int rc = driver->kind->address(driver, acceptor->fd, false, &address, &len);
    return rc < 0 ? rc : ci_address_format(&address, text, size);
}

void coir_acceptor_close(coir_acceptor *acceptor)
{
    if (!acceptor || ci_forked() || acceptor->closed || CI_IS_FOREIGN(acceptor->loop))
        return;
    close_now(acceptor);
}

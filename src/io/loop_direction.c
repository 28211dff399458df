/* One direction of a connection with callbacks: an operation and its timeout (loop_socket.h 2). */
#include <errno.h>

#include "io/loop_socket.h"

void ci_direction_stop_timer(struct ci_direction *direction)
{
    if (ci_timer_started(&direction->timer))
        ci_wheel_cancel(&direction->socket->loop->wheel, &direction->timer);
}

static void end(struct ci_direction *direction)
{
    coir_socket *socket = direction->socket;
    ci_direction_stop_timer(direction);
    direction->ended = true;
    if (!socket->closed)
        ci_loop_make_ready(socket->loop, &socket->resident);
}

static void on_done(struct ci_op *op)
{
    end(ci_container_of(op, struct ci_direction, op));
}

void ci_direction_cancel(struct ci_direction *direction)
{
    if (ci_driver_cancel(direction->socket->loop->driver, &direction->op))
        end(direction);
}

static void on_timer(struct ci_timer *timer)
{
    struct ci_direction *direction = ci_container_of(timer, struct ci_direction, timer);
    direction->late = true;
    ci_direction_cancel(direction);
}

static void start_timer(struct ci_direction *direction)
{
    if (direction->timeout != COIR_NEVER)
        ci_loop_start_timer_after(direction->socket->loop, &direction->timer, direction->timeout);
}

void ci_direction_start(struct ci_direction *direction, const struct ci_op *op)
{
    ci_check(!direction->op.pending && !direction->ended, "loop_socket.h 2");
    direction->op = *op;
    direction->op.fd = direction->socket->fd;
    direction->op.done = on_done;
    direction->late = false;
    if (ci_driver_start(direction->socket->loop->driver, &direction->op))
        end(direction);
    else
        start_timer(direction);
}

int ci_direction_result(struct ci_direction *direction)
{
    direction->ended = false;
    int result = direction->op.result;
    return direction->late && result == -ECANCELED ? -ETIMEDOUT : result;
}

void ci_direction_init(struct ci_direction *direction, coir_socket *socket)
{
    direction->socket = socket;
    direction->timeout = COIR_NEVER;
    ci_timer_init(&direction->timer, on_timer);
}

void ci_direction_set_timeout(struct ci_direction *direction, coir_time timeout)
{
    direction->timeout = timeout;
    ci_direction_stop_timer(direction);
    if (direction->op.pending && !direction->late)
        start_timer(direction);
}

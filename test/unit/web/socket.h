/* A server of one kind of WebSocket connection, which a test chooses. */
#ifndef TEST_UNIT_WEB_SOCKET_H
#define TEST_UNIT_WEB_SOCKET_H

#include "wire.h"

static coir_ws_options options = COIR_WS_OPTIONS;
static int (*serve_socket)(coir_ws *ws);
static int result, code; /* what it has returned, and of the close */

static inline int handle(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws *ws;
    int rc = coir_ws_accept_with(req, res, &options, &ws);
    if (rc < 0)
        return rc;
    result = serve_socket(ws);
    code = coir_ws_close_code(ws);
    return 0;
}

/* For serve_socket: returns how the connection has ended. */
static inline int receive_all_messages(coir_ws *ws)
{
    coir_ws_message *message;
    coir_ws_op op;
    int rc;
    CHECK_EQ(coir_ws_result(ws), -EINPROGRESS);
    while ((rc = (int)coir_await(coir_ws_recv_op(&op, ws, &message))) > 0)
        coir_ws_message_unref(message);
    CHECK_EQ(coir_ws_recv(ws, &message), rc);
    CHECK_EQ(coir_ws_result(ws), rc);
    return rc;
}

#endif

/* The rows of deadline_test.c for what makes WebSocket connections of requests. */
#ifndef TEST_DEADLINE_WEBSOCKET_H
#define TEST_DEADLINE_WEBSOCKET_H

#include <coir/ws.h>

static coir_ws *made;

static inline int never_called(coir_ws *ws, coir_ws_message *message, void *arg)
{
    (void)ws, (void)message, (void)arg;
    return -EINVAL;
}

/* clang-format off */
#define WEBSOCKET_WEB_ROWS(X)                                                              \
    X(coir_ws_accept, ENDS, coir_ws_accept(t.request, t.response, &made))                  \
    X(coir_ws_accept_with, ENDS, coir_ws_accept_with(t.request, t.response, NULL, &made))  \
    X(coir_ws_handle, ENDS, coir_ws_handle(t.request, t.response, never_called, NULL))     \
    X(coir_ws_handle_with, ENDS,                                                           \
      coir_ws_handle_with(t.request, t.response, NULL, never_called, NULL, &made))
/* clang-format on */

#endif

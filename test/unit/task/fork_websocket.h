/* What fork_test.c asks of WebSocket: calls that need nothing, and the names of those that need a
 * connection, which test/unit/web/ws_test.c makes. */
#ifndef TEST_FORK_WEBSOCKET_H
#define TEST_FORK_WEBSOCKET_H

#include <coir/ws.h>

#define WEBSOCKET_CALLS(R)                                                                  \
    R(coir_ws_message_new, coir_ws_message_new(COIR_WS_TEXT, "a", 1, RET(coir_ws_message))) \
    R(coir_ws_connect, coir_ws_connect("ws://127.0.0.1:1", RET(coir_ws)))                   \
    R(coir_ws_connect_with, coir_ws_connect_with("ws://127.0.0.1:1", NULL, RET(coir_ws)))

#define WEBSOCKET_NAMES                                                                        \
    "coir_ws_accept", "coir_ws_accept_with", "coir_ws_handle_with", "coir_ws_recv",            \
        "coir_ws_recv_op", "coir_case_ws_recv", "coir_ws_recv_part", "coir_ws_send",           \
        "coir_ws_try_send", "coir_ws_send_text", "coir_ws_send_binary", "coir_ws_send_part",   \
        "coir_ws_ping", "coir_ws_flush", "coir_ws_close", "coir_ws_free", "coir_ws_protocol",  \
        "coir_ws_close_code", "coir_ws_close_reason", "coir_ws_result", "coir_ws_message_ref", \
        "coir_ws_message_unref", "coir_ws_message_type", "coir_ws_message_data",               \
        "coir_ws_message_len", "coir_ws_handle"

/* What needs a request. */
#define NAMES_OF_A_HANDLER                                                                         \
    "coir_request_header", "coir_request_param", "coir_request_query_value", "coir_request_alloc", \
        "coir_request_context", "coir_request_host", "coir_request_length", "coir_request_method", \
        "coir_request_path", "coir_request_query", "coir_request_stream", "coir_request_body",     \
        "coir_request_set_end_cancels", "coir_request_read", "coir_respond", "coir_respond_text",  \
        "coir_response_begin", "coir_response_flush", "coir_response_write",                       \
        "coir_response_add_header", "coir_fastcgi_pass", "coir_sse_begin", "coir_sse_send",        \
        "coir_sse_send_text", "coir_sse_comment", "coir_sse_last_id", "coir_case_drain"

#endif

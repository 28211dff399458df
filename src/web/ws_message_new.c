/* Messages that a program makes: of the calling worker's memory, or of malloc on a plain thread. */
#include <errno.h>
#include <string.h>

#include "proto/utf8.h"
#include "task/current.h"
#include "web/worker.h"

static int make(enum coir_ws_type type, const void *data, size_t len, coir_ws_message **ret_message)
{
    struct ci_http_worker *http = NULL;
    struct ci_utf8 utf8 = {0};
    if (type == COIR_WS_TEXT && (!ci_utf8_check(&utf8, data, len) || !ci_utf8_is_whole(&utf8)))
        return -EILSEQ;
    if (ci_worker_current && !(http = ci_http_worker_of(ci_worker_current)))
        return -ENOMEM;
    coir_ws_message *message = ci_ws_message_take(http ? &http->messages : NULL, len);
    if (!message)
        return -ENOMEM;
    if (len)
        memcpy(ci_ws_message_payload(message), data, len);
    struct ci_ws_head head = {.len = len, .opcode = (uint8_t)type, .fin = true};
    ci_ws_message_finish(message, &head);
    *ret_message = message;
    return 0;
}

int coir_ws_message_new(enum coir_ws_type type, const void *data, size_t len,
                        coir_ws_message **ret_message)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if ((!data && len) || !ret_message || (type != COIR_WS_TEXT && type != COIR_WS_BINARY))
        return CI_MISUSE(-EINVAL, "data or ret_message is NULL, or type is none");
    return make(type, data, len, ret_message);
}

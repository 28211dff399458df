/* Server-sent events (HTML Living Standard, 9.2): an answer that goes on, as a sequence of events.
 * In a browser EventSource receives them, and connects again when the answer ends.
 *
 *   rc = coir_sse_begin(req, res);
 *   while (rc == 0) {
 *       coir_case waits[] = {coir_case_recv(news, &line), coir_case_after(15 * COIR_S),
 *                            coir_case_drain(req)};
 *       switch (coir_select(waits, 3)) {
 *       case 0: if (waits[0].result < 0) return 0;                 (the subscription is closed)
 *               rc = coir_sse_send_text(res, line.text); break;
 *       case 1: rc = coir_sse_comment(res, "");          break;   (keeps the connection alive)
 *       case 2: return 0;                                          (the server stops)
 *       default: return -ECANCELED;                                (the client has left)
 *       }
 *   }
 *
 * What happens when a client is too slow is the policy of what it is served from: a subscription
 * that loses items, or is closed (coir_subscribe). A client that takes nothing is dropped after the
 * server's write_timeout. */
#ifndef COIR_SSE_H
#define COIR_SSE_H

#include <coir/web.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Begins an answer that is a sequence of events, and sends its head. From now on a client that
 * closes its direction cancels the handler (coir_request_set_end_cancels).
 * Suspends: yes.  Threads: owner.
 * Errors: those of coir_response_begin and coir_response_flush.
 * Cancel safety: an unknown part has been sent; the connection ends after the handler. */
COIR_SUSPENDS int coir_sse_begin(coir_request *req, coir_response *res);

/* An event. Texts are UTF-8. Initialise it with COIR_SSE_EVENT. */
typedef struct coir_sse_event {
    size_t size;      /* sizeof(coir_sse_event), set by COIR_SSE_EVENT */
    const char *name; /* [none: "message"] of the event, one line */
    /* [none] what a client sends when it connects again, one line: see coir_sse_last_id */
    const char *id;
    const char *data; /* [none: the client takes id and retry, and has no event] any lines */
    coir_time retry;  /* [as it was] after which the client connects again, in whole milliseconds */
} coir_sse_event;

#define COIR_SSE_EVENT                     \
    {                                      \
        sizeof(coir_sse_event), 0, 0, 0, 0 \
    }

/* Sends an event, and returns when the system has taken all of it.
 * Suspends: yes, while the client does not take what was sent.  Threads: owner.
 * Errors: -EINVAL no response or event, not begun, a name or an id of several lines, or a negative
 * retry; -COIR_EUNSIZED; -COIR_ENEWER; those of coir_response_write.
 * Cancel safety: an unknown part has been sent; the connection ends after the handler. */
COIR_SUSPENDS int coir_sse_send(coir_response *res, const coir_sse_event *event);

/* Sends an event that is data alone. As coir_sse_send. */
COIR_SUSPENDS int coir_sse_send_text(coir_response *res, const char *data);

/* Sends a comment, which clients ignore: it keeps proxies from closing a silent connection, and
 * shows whether the client is there. As coir_sse_send. */
COIR_SUSPENDS int coir_sse_comment(coir_response *res, const char *text);

/* The id of the last event that the client had when it lost its connection, or NULL.
 * Suspends: no.  Threads: owner. */
COIR_API const char *coir_sse_last_id(const coir_request *req);

#ifdef __cplusplus
}
#endif

#endif

/* Warnings about handlers that fail or misuse the interface. What a client can cause alone is not
 * logged. */
#include "web/report.h"

#include <stdio.h>
#include <string.h>

enum { PATH_SHOWN = 100, WHAT_MOST = 160 };

static void say_what(char *what, const coir_response *res, int rc, int ended)
{
    if (rc > 0)
        snprintf(what, WHAT_MOST,
                 "its handler returned %d, where 0 or a negative error has a meaning (a status is "
                 "given to coir_respond)",
                 rc);
    else if (rc < 0)
        snprintf(what, WHAT_MOST, "its handler failed: %s (error %u)", coir_strerror(rc),
                 ci_error_number(rc));
    else if (!res->begun)
        snprintf(what, WHAT_MOST,
                 "its handler returned 0 without an answer (coir_respond, coir_response_begin)");
    else if (res->remaining > 0)
        snprintf(what, WHAT_MOST,
                 "its answer is %lld bytes shorter than coir_response_begin was told",
                 (long long)res->remaining);
    else
        snprintf(what, WHAT_MOST, "its answer could not be ended: %s", coir_strerror(ended));
}

void ci_request_report(const coir_request *req, int rc, int ended)
{
    const struct ci_exchange *exchange = req->exchange;
    const struct ci_http1_head *head = &exchange->head;
    bool clients_fault = exchange->out.error || req->body_error || coir_task_interrupted();
    if (rc <= 0 && clients_fault)
        return;
    const char *bytes = ci_http_input_request(&exchange->in),
               *answer = req->response->begun ? "" : "; the client gets 500";
    char peer[64], what[WHAT_MOST];
    say_what(what, req->response, rc, ended);
    if (coir_stream_peer(exchange->in.stream, peer, sizeof peer) < 0)
        strcpy(peer, "a peer that is gone");
    ci_warn(ci_worker_current, "%.*s %.*s from %s: %s%s (task %s)", (int)head->method.len,
            bytes + head->method.at, head->path.len < PATH_SHOWN ? (int)head->path.len : PATH_SHOWN,
            bytes + head->path.at, peer, what, answer, coir_task_name());
}

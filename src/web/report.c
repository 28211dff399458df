/* See report.h. */
#include "web/report.h"

#include <stdio.h>

#include "coir/fiber.h"
#include "task/log.h"

enum { PATH_SHOWN = 100, WHAT_MAX = 160 };

/* What the handler did, and how to do it right. */
static void describe(char *what, const coir_response *res, int rc, int ended)
{
    if (rc > 0)
        snprintf(
            what, WHAT_MAX,
            "its handler returned %d; return 0 or a negative error (a status is an argument of "
            "coir_respond)",
            rc);
    else if (rc < 0)
        snprintf(what, WHAT_MAX, "its handler failed: %s (error %u)", coir_strerror(rc),
                 ci_error_number(rc));
    else if (!res->begun)
        snprintf(what, WHAT_MAX,
                 "its handler returned 0 without an answer: call coir_respond or "
                 "coir_response_begin");
    else if (res->remaining > 0)
        snprintf(what, WHAT_MAX,
                 "its answer is %lld bytes shorter than the length given to coir_response_begin",
                 (long long)res->remaining);
    else
        snprintf(what, WHAT_MAX, "its answer could not be ended: %s", coir_strerror(ended));
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
    char peer[CI_PEER_MAX], what[WHAT_MAX];
    describe(what, req->response, rc, ended);
    ci_warn(ci_worker_current, "%.*s %.*s from %s: %s%s (task %s)", (int)head->method.len,
            bytes + head->method.at, head->path.len < PATH_SHOWN ? (int)head->path.len : PATH_SHOWN,
            bytes + head->path.at, ci_peer_text(exchange->in.stream, peer), what, answer,
            coir_task_name());
}

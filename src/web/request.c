/* The public calls that read the head of a request. */
#include <errno.h>
#include <string.h>

#include "coir/event.h"
#include "proto/url_decode.h"
#include "task/completed.h"
#include "web/exchange.h"

static const char *bytes_of(const struct ci_exchange *exchange)
{
    return ci_http_input_request(&exchange->in);
}

/* Whether an argument is NULL although it must not be: the getters cannot return errors, and return
 * the value for an absent field. */
#define MISSING(object) CI_REFUSED(!(object), #object " is NULL")

/* What is missing for want of memory looks absent, which may mean much: so it spoils the answer. */
static const char *copy_of(const coir_request *req, const char *bytes, size_t len)
{
    const char *copy = ci_arena_copy(&req->exchange->arena, bytes, len);
    req->exchange->starved |= !copy;
    return copy ? copy : "";
}

/* A span of the head as a string of its own. */
static const char *text(const coir_request *req, struct ci_span span)
{
    return copy_of(req, bytes_of(req->exchange) + span.at, span.len);
}

const char *coir_request_method(const coir_request *req)
{
    return MISSING(req) ? "" : text(req, req->exchange->head.method);
}

const char *coir_request_path(const coir_request *req)
{
    const struct ci_http_target *target = MISSING(req) ? NULL : &req->exchange->target;
    return target ? copy_of(req, target->path, target->path_len) : "";
}

const char *coir_request_query(const coir_request *req)
{
    const struct ci_http_target *target = MISSING(req) ? NULL : &req->exchange->target;
    return target ? copy_of(req, target->query, target->query_len) : "";
}

const char *coir_request_host(const coir_request *req)
{
    return MISSING(req) ? "" : text(req, req->exchange->head.host);
}

void *coir_request_context(const coir_request *req)
{
    return MISSING(req) ? NULL : req->exchange->server->options->context;
}

const coir_stream *coir_request_stream(const coir_request *req)
{
    return MISSING(req) ? NULL : req->exchange->in.stream;
}

const char *coir_request_header(const coir_request *req, const char *name)
{
    if (MISSING(req) || MISSING(name))
        return NULL;
    const struct ci_http1_field *field =
        ci_http1_find(&req->exchange->head, bytes_of(req->exchange), name, strlen(name));
    return field ? text(req, field->value) : NULL;
}

/* NULL: a bad escape, or no memory. `plus`: "+" is a space, as in queries of forms. */
static const char *decoded(const coir_request *req, const char *from, size_t len, bool plus)
{
    char *value = ci_arena_alloc(&req->exchange->arena, len + 1);
    req->exchange->starved |= !value;
    return value && ci_url_decode(value, from, len, plus) ? value : NULL;
}

const char *coir_request_param(const coir_request *req, const char *name)
{
    if (MISSING(req) || MISSING(name))
        return NULL;
    const struct ci_match *match = &req->exchange->match;
    size_t len = strlen(name);
    const char *path = req->exchange->target.path;
    for (int i = 0; i < match->param_count; i++) {
        const struct ci_param *param = &match->params[i];
        if (param->name.len == len &&
            memcmp(match->route->pattern + param->name.at, name, len) == 0)
            return decoded(req, path + param->value.at, param->value.len, false);
    }
    return NULL;
}

/* The query is a list of name=value or name, separated by "&" (the form encoding of HTML); names
 * are compared as they were sent. */
const char *coir_request_query_value(const coir_request *req, const char *name)
{
    if (MISSING(req) || MISSING(name))
        return NULL;
    const char *at = req->exchange->target.query, *end = at + req->exchange->target.query_len;
    size_t len = strlen(name);
    while (at < end) {
        const char *stop = memchr(at, '&', (size_t)(end - at));
        if (!stop)
            stop = end;
        const char *equals = memchr(at, '=', (size_t)(stop - at)),
                   *key_end = equals ? equals : stop;
        if ((size_t)(key_end - at) == len && memcmp(at, name, len) == 0)
            return decoded(req, equals ? equals + 1 : stop,
                           equals ? (size_t)(stop - equals - 1) : 0, true);
        at = stop + 1;
    }
    return NULL;
}

void *coir_request_alloc(coir_request *req, size_t size)
{
    return MISSING(req) ? NULL : ci_arena_alloc(&req->exchange->arena, size);
}

int64_t coir_request_length(const coir_request *req)
{
    if (MISSING(req))
        return -EINVAL;
    const struct ci_http1_head *head = &req->exchange->head;
    return head->chunked ? -1 : head->content_length > 0 ? head->content_length : 0;
}

coir_case coir_case_drain(coir_request *req)
{
    if (!req)
        return ci_completed_case(CI_MISUSE(-EINVAL, "req is NULL"));
    return coir_case_event(&req->exchange->server->drains);
}

void coir_request_set_end_cancels(coir_request *req, bool cancels)
{
    if (CI_EXCHANGE_REFUSED(req) == 0)
        ci_hangup_set_end_cancels(&req->exchange->hangup, cancels);
}

/* What the server of the model does: its handlers, for the fuzzer and for the simulation. */
#include <coir.h>
#include <coir/web.h>
#include <errno.h>
#include <stdlib.h>

#include "connections/fuzz.h"

/* Numbers of the path. False: there is no memory to say them in; that has been answered. */
static bool numbers(coir_request *req, coir_response *res, unsigned *ret_n, unsigned *ret_seed)
{
    const char *n = coir_request_param(req, "n"),
               *seed = ret_seed ? coir_request_param(req, "seed") : "";
    if (!n || !seed) {
        coir_respond_text(res, 503, "no memory");
        return false;
    }
    *ret_n = (unsigned)strtoul(n, NULL, 10);
    if (ret_seed)
        *ret_seed = (unsigned)strtoul(seed, NULL, 10);
    return true;
}

static int say_number(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    unsigned n;
    return numbers(req, res, &n, NULL) ? coir_respond_text(res, 200, "%u", n) : 0;
}

static int say_late(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    unsigned n;
    if (!numbers(req, res, &n, NULL))
        return 0;
    int rc = coir_sleep_for((coir_time)n * COIR_MS);
    return rc < 0 ? rc : coir_respond_text(res, 200, "%u", n);
}

static int write_pattern(coir_response *res, unsigned seed, size_t len, size_t piece)
{
    char bytes[8192];
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < len;) {
        size_t n = len - at < piece ? len - at : piece;
        for (size_t i = 0; i < n; i++)
            bytes[i] = pattern(seed, at + i);
        rc = coir_response_write(res, bytes, n);
        at += n;
    }
    return rc;
}

static size_t piece_of(unsigned seed)
{
    static const size_t pieces[] = {8192, 997, 4096, 64, 5000};
    return pieces[seed % 5];
}

static int send_known(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    unsigned seed, len;
    if (!numbers(req, res, &len, &seed))
        return 0;
    int rc = coir_response_begin(res, 200, "text/plain", (int64_t)len);
    return rc < 0 ? rc : write_pattern(res, seed, len, piece_of(seed));
}

static int send_unknown(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    unsigned seed, len;
    if (!numbers(req, res, &len, &seed))
        return 0;
    int rc = coir_response_begin(res, 200, "text/plain", -1);
    return rc < 0 ? rc : write_pattern(res, seed, len, piece_of(seed));
}

/* Half of what was announced. */
static int send_half(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    unsigned seed, len;
    if (!numbers(req, res, &len, &seed))
        return 0;
    int rc = coir_response_begin(res, 200, "text/plain", (int64_t)len);
    rc = rc < 0 ? rc : write_pattern(res, seed, len / 2, piece_of(seed));
    return rc < 0 ? rc : -EIO;
}

static int send_nothing(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    return coir_response_begin(res, 204, NULL, 0);
}

static int give_up(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    (void)res;
    return -EIO;
}

static int take_body(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char bytes[5000];
    uint64_t hash = HASH_BEGIN;
    size_t len = 0;
    ssize_t n;
    while ((n = coir_request_read(req, bytes, sizeof bytes)) > 0) {
        hash = hash_more(hash, bytes, (size_t)n);
        len += (size_t)n;
    }
    if (n < 0)
        return (int)n;
    return coir_respond_text(res, 200, "%zu %016llx", len, (unsigned long long)hash);
}

static int echo(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char bytes[8192];
    ssize_t n = coir_request_read(req, bytes, sizeof bytes);
    int rc = n < 0 ? (int)n : coir_response_begin(res, 200, "text/plain", coir_request_length(req));
    while (rc == 0 && n > 0) {
        rc = coir_response_write(res, bytes, (size_t)n);
        if (rc == 0 && (n = coir_request_read(req, bytes, sizeof bytes)) < 0)
            rc = (int)n;
    }
    return rc;
}

int handlers_route(coir_router *router)
{
    static const struct {
        const char *method, *pattern;
        coir_handler_fn *handler;
    } routes[] = {
        {"GET", "/n/{n}", say_number},
        {"GET", "/late/{n}", say_late},
        {"GET", "/known/{n}/{seed}", send_known},
        {"GET", "/unknown/{n}/{seed}", send_unknown},
        {"GET", "/half/{n}/{seed}", send_half},
        {"GET", "/nothing", send_nothing},
        {"GET", "/fail", give_up},
        {"POST", "/body", take_body},
        {"POST", "/echo", echo},
        {"POST", "/ignore/{n}", say_number},
    };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof routes / sizeof *routes; i++)
        rc = coir_route(router, routes[i].method, routes[i].pattern, routes[i].handler, NULL);
    return rc;
}

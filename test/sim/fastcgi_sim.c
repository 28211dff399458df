/* Pages that are answered by a FastCGI application, under every fault: the application's host
 * crashes and starts again, and it may itself die, be slow, or lie, at any byte.
 *
 * What must hold:
 * 1. Every request has one outcome: an answer, an error of the server's, or a connection that ends;
 *    also one whose client sends half of the body.
 * 2. An answer that says 200 and is whole is the right one.
 * 3. A POST reaches the application at most once, a GET at most twice.
 * 4. When the faults are over every client is answered, and nothing is left open (the audit).
 * 5. Below /site/, a path leads to the script that it names, with the rest of the path, to an
 *    answer of the server's own, or nowhere; in no case to another file.
 * 6. A page that the application sends a client to inside of the server (X-Accel-Redirect) is that
 *    page. */
#include <coir/dir.h>
#include <coir/fastcgi.h>
#include <coir/file.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "chaos.h"
#include "fastcgi_peer.h"
#include "scenario.h"
#include "sim/must.h"

enum { CLIENTS = 4, BODY_MOST = 40000, REQUESTS_MOST = 3000 };

static struct chaos chaos;
static coir_host *web;
static unsigned requests;
static bool has_site; /* its files are on the disk */
static uint8_t runs[REQUESTS_MOST];

/* ---- a directory of scripts ---- */

static const char *const files[] = {"/srv/index.php", "/srv/a b.php", "/srv/picture.png",
                                    "/srv/.hidden.php", "/srv/dir/index.php"};

static const struct page {
    const char *path;
    int status;
    const char *script, *rest; /* for 200: what the application is asked for */
} pages[] = {
    {"/site/", 200, "/srv/index.php", NULL},
    {"/site/a%20b.php/x/../y?q=1", 200, "/srv/a b.php", "/x/../y"},
    {"/site/dir/", 200, "/srv/dir/index.php", NULL},
    {"/site/dir?q=1", 301, NULL, NULL},
    {"/site/picture.png", 404, NULL, NULL},
    {"/site/.hidden.php", 404, NULL, NULL},
    {"/site/dir%2findex.php", 404, NULL, NULL},
    {"/site/dir/none.php", 404, NULL, NULL},
};
enum { PAGES = sizeof pages / sizeof *pages };

static int make_file(const char *path)
{
    coir_file *file;
    int rc = coir_file_open(path, O_RDWR | O_CREAT, 0600, &file);
    if (rc == 0)
        coir_file_close(file);
    return rc;
}

/* What a bad machine refuses is made when it serves the next time. */
static void make_site(void)
{
    int rc = coir_dir_mkdir(NULL, "/srv", 0700);
    if (rc == 0 || rc == -EEXIST)
        rc = coir_dir_mkdir(NULL, "/srv/dir", 0700);
    bool made = rc == 0 || rc == -EEXIST;
    for (size_t i = 0; made && i < sizeof files / sizeof *files; i++)
        made = make_file(files[i]) == 0;
    has_site = made;
}

/* ---- the application ---- */

/* How many bytes it sends before it dies; UINT64_MAX: it does not. */
static uint64_t life(void)
{
    if (chaos.over || chaos_below(&chaos, 4))
        return UINT64_MAX;
    return chaos_below(&chaos, 2) ? 0 : chaos_below(&chaos, 2 * BODY_MOST);
}

static int write_some(const struct fcgi_request *request, const void *data, size_t len,
                      uint64_t *left)
{
    size_t n = len < *left ? len : (size_t)*left;
    int rc = n ? fcgi_write(request, 6, data, n, 1 + chaos_below(&chaos, 9000)) : 0;
    *left -= *left == UINT64_MAX ? 0 : n;
    return rc < 0 ? rc : n < len ? -EPIPE : 0;
}

/* Sends the body back as it comes. */
static int send_back(struct fcgi_request *request, unsigned number, uint64_t left)
{
    size_t at = 0;
    ssize_t n;
    while ((n = fcgi_read_body(request)) > 0) {
        MUST(bytes_are(request->content, number, at, (size_t)n));
        at += (size_t)n;
        int rc = write_some(request, request->content, (size_t)n, &left);
        if (rc < 0)
            return rc;
        if (!chaos.over && chaos_below(&chaos, 10) == 0)
            coir_sleep_for((coir_time)chaos_below(&chaos, COIR_S));
    }
    return (int)n;
}

static int lie(const struct fcgi_request *request)
{
    unsigned char bytes[300];
    size_t len = 1 + chaos_below(&chaos, sizeof bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (unsigned char)chaos_below(&chaos, chaos_below(&chaos, 2) ? 8 : 256);
    return coir_write_all(request->stream, bytes, len);
}

static bool same(const char *value, const char *want)
{
    return value && want ? strcmp(value, want) == 0 : value == want;
}

/* 5 */
static void check_script(const struct fcgi_request *request)
{
    int count;
    const char *value = fcgi_value_of(request, "HTTP_X_PAGE", &count);
    if (!value)
        return;
    const struct page *page = &pages[atoi(value)];
    MUST(page->status == 200);
    MUST(same(fcgi_value_of(request, "SCRIPT_FILENAME", &count), page->script));
    MUST(same(fcgi_value_of(request, "PATH_INFO", &count), page->rest));
    MUST(same(fcgi_value_of(request, "OF_OUR_OWN", &count), "x=y"));
}

static int answer_one(struct fcgi_request *request)
{
    char head[200];
    int count;
    const char *value = fcgi_value_of(request, "HTTP_X_NUMBER", &count);
    unsigned number = value ? (unsigned)atoi(value) : 0;
    MUST(count == 1 && number < requests);
    value = fcgi_value_of(request, "CONTENT_LENGTH", &count);
    bool post = value != NULL;
    size_t len = value ? (size_t)atoi(value) : 5;
    MUST(++runs[number] <= (post ? 1 : 2)); /* 3 */
    check_script(request);
    if (chaos_below(&chaos, 4) == 0 &&
        fcgi_write(request, 7, "a warning\n\tof two lines\n", 25, 7) < 0)
        return -EPIPE;
    if (!chaos.over && chaos_below(&chaos, 8) == 0)
        return lie(request);
    if (!chaos.over && chaos_below(&chaos, 8) == 0)
        coir_sleep_for((coir_time)chaos_below(&chaos, 3 * COIR_S));
    if (!post && fcgi_value_of(request, "HTTP_X_INSIDE", &count)) {
        int rc = (int)fcgi_read_body(request);
        if (rc == 0)
            rc = fcgi_write_text(request, "X-Accel-Redirect: /inside?q\r\nContent-Type: a/b\r\n"
                                          "X-Lost: z\r\n\r\nignored");
        return rc < 0 ? rc : fcgi_finish(request);
    }
    uint64_t left = life();
    int n = snprintf(head, sizeof head, "Content-Length: %zu\r\nContent-Type: a/b\r\n\r\n", len),
        rc = write_some(request, head, (size_t)n, &left);
    if (rc == 0 && post)
        rc = send_back(request, number, left);
    else if (rc == 0 && (rc = (int)fcgi_read_body(request)) == 0)
        rc = write_some(request, "hello", 5, &left);
    return rc < 0 ? rc : fcgi_finish(request);
}

static int run_application(coir_stream *stream, void *arg)
{
    (void)arg;
    struct fcgi_request *request = malloc(sizeof *request);
    while (request && fcgi_accept(request, stream) == 0 && answer_one(request) == 0 &&
           request->keeps)
        continue;
    free(request);
    return 0;
}

static int serve_here(void *arg)
{
    (void)arg;
    int rc = chaos_explains(coir_serve_tcp("0.0.0.0:9000", run_application, NULL));
    return rc < 0 ? rc : -ECANCELED; /* ends the look at it */
}

/* Until it fails, or goes away: then who has a connection to it is refused another. */
static void serve_for_a_while(void)
{
    COIR_SCOPE(scope);
    int rc = coir_go(scope, serve_here, NULL);
    while (rc == 0 && (chaos.over || chaos_below(&chaos, 20)))
        rc = coir_sleep_for((coir_time)(100 + chaos_below(&chaos, 400)) * COIR_MS);
    coir_scope_cancel(scope);
    coir_scope_wait(scope);
}

static int serve_application(void *arg)
{
    (void)arg;
    do
        serve_for_a_while();
    while (coir_sleep_for((coir_time)chaos_below(&chaos, chaos.over ? 100 : 1000) * COIR_MS) == 0);
    return -ECANCELED;
}

/* ---- the web server ---- */

static int pass_on(coir_request *req, coir_response *res, void *arg)
{
    coir_fastcgi_script script = COIR_FASTCGI_SCRIPT;
    script.filename = "/srv/page.php";
    script.name = "/page.php";
    return coir_fastcgi_pass(arg, req, res, &script);
}

static int be_inside(coir_request *req, coir_response *res, void *arg)
{
    (void)req, (void)arg;
    return coir_respond_text(res, 200, "inside"); /* 6 */
}

static int route_all(coir_router *router, coir_router *inside, coir_fastcgi *client)
{
    int rc = coir_route(inside, "GET", "/inside", be_inside, NULL);
    if (rc == 0)
        rc = coir_route_fastcgi(router, "/site/{path...}", client, "/srv");
    if (rc == 0)
        rc = coir_route(router, "GET", "/", pass_on, client);
    return rc < 0 ? rc : coir_route(router, "POST", "/", pass_on, client);
}

static int serve_once(void)
{
    static const char *const variables[] = {"OF_OUR_OWN=x=y", NULL};
    coir_fastcgi *client;
    coir_router *router = NULL, *inside = NULL;
    coir_fastcgi_options options = COIR_FASTCGI_OPTIONS;
    coir_serve_http_options serves = COIR_SERVE_HTTP_OPTIONS;
    serves.address = "0.0.0.0:80";
    serves.body_timeout = 5 * COIR_S;
    options.address = "server:9000";
    options.connections_max = 1 + chaos_below(&chaos, chaos_below(&chaos, 3) ? 1 : 4);
    options.idle_timeout = (coir_time)(1 + chaos_below(&chaos, 2000)) * COIR_MS;
    options.answer_timeout = 2 * COIR_S;
    options.connect_timeout = 2 * COIR_S;
    options.one_request = chaos_below(&chaos, 4) == 0;
    options.variables = variables;
    options.server_name = chaos_below(&chaos, 2) ? "web" : NULL;
    options.chunked_max = BODY_MOST;
    make_site();
    int rc = coir_router_new(&inside);
    if (rc < 0)
        return rc;
    options.internal = inside;
    if ((rc = coir_fastcgi_new_with(&options, &client)) == 0) {
        if ((rc = coir_router_new(&router)) == 0 && (rc = route_all(router, inside, client)) == 0)
            rc = coir_serve_http_with(&serves, router);
        coir_router_free(router);
        coir_fastcgi_free(client);
    }
    coir_router_free(inside);
    return rc;
}

static int serve_pages(void *arg)
{
    (void)arg;
    return chaos_keep_serving(serve_once);
}

/* It may have had no memory for its first task. */
static int start_pages(void)
{
    if (web && !coir_host_is_down(web))
        return 0;
    web = coir_sim_host(chaos.sim, "web", serve_pages, NULL);
    return coir_sleep_for(COIR_S);
}

static coir_host *start_application(struct chaos *of)
{
    return coir_sim_host(of->sim, "server", serve_application, NULL);
}

/* ---- the clients ---- */

struct visit {
    coir_stream *stream;
    unsigned number;
    bool post, chunked, inside;
    bool stalls;             /* in the middle of its body */
    const struct page *page; /* of the site; or NULL */
    size_t len;
};

static int put_head(const struct visit *visit, char *head, size_t size)
{
    const char *version = visit->chunked ? "1.1\r\nHost: web:80\r\nConnection: close" : "1.0";
    char page[30] = "", length[50] = "";
    if (visit->page)
        snprintf(page, sizeof page, "X-Page: %d\r\n", (int)(visit->page - pages));
    if (visit->post && visit->chunked)
        snprintf(length, sizeof length, "Transfer-Encoding: chunked\r\n");
    else if (visit->post)
        snprintf(length, sizeof length, "Content-Length: %zu\r\n", visit->len);
    return snprintf(head, size, "%s %s HTTP/%s\r\nX-Number: %u\r\n%s%s%s\r\n",
                    visit->post ? "POST" : "GET", visit->page ? visit->page->path : "/", version,
                    visit->number, page, visit->inside ? "X-Inside: 1\r\n" : "", length);
}

static int ask(void *arg)
{
    const struct visit *visit = arg;
    char head[300], piece[3000];
    size_t sent = visit->stalls ? visit->len / 2 : visit->len;
    int rc = coir_write_all(visit->stream, head, (size_t)put_head(visit, head, sizeof head));
    for (size_t at = 0; rc == 0 && visit->post && at < sent;) {
        size_t len = 1 + chaos_below(&chaos, sizeof piece);
        len = len < sent - at ? len : sent - at;
        bytes_make(piece, visit->number, at, len);
        if (visit->chunked)
            rc = coir_write_all(visit->stream, head,
                                (size_t)snprintf(head, sizeof head, "%zx\r\n", len));
        rc = rc < 0 ? rc : coir_write_all(visit->stream, piece, len);
        if (rc == 0 && visit->chunked)
            rc = coir_write_all(visit->stream, "\r\n", 2);
        at += len;
    }
    if (rc == 0 && visit->post && visit->chunked && !visit->stalls)
        rc = coir_write_all(visit->stream, "0\r\n\r\n", 5);
    return rc == -ECANCELED || rc == -ETIME ? rc : 0; /* the answer says why */
}

/* The whole of what has come: 0, it is the answer; -EPROTO, it is an error, or was cut off. */
static int judge(const struct visit *visit, const char *bytes, size_t len)
{
    const char *body = strstr(bytes, "\r\n\r\n"), *length = strstr(bytes, "Content-Length: ");
    int status = 0;
    if (!body)
        return -EPROTO;
    MUST(sscanf(bytes, "HTTP/1.1 %d", &status) == 1 && length && length < body);
    bool own = visit->page && visit->page->status != 200;
    MUST(status == (own ? visit->page->status : 200) || status == 500 ||
         (status >= 502 && status <= 504) || status == 408 || status == 400); /* 1, 5 */
    if (own)
        return status == visit->page->status ? 0 : -EPROTO;
    size_t want = (size_t)atol(length + 16), got = len - (size_t)(body + 4 - bytes);
    if (status != 200 || got < want)
        return -EPROTO;
    const char *text = visit->inside ? "inside" : "hello";                  /* 6 */
    MUST(got == want && want == (visit->post ? visit->len : strlen(text))); /* 2 */
    MUST(visit->post ? bytes_are(body + 4, visit->number, 0, want)
                     : memcmp(body + 4, text, want) == 0);
    return 0;
}

static int hear(void *arg)
{
    const struct visit *visit = arg;
    size_t len = 0, room = BODY_MOST + 2000;
    char *bytes = malloc(room);
    ssize_t n = bytes ? 1 : -ENOMEM;
    while (n > 0 && len < room - 1)
        if ((n = coir_read(visit->stream, bytes + len, room - 1 - len)) > 0)
            len += (size_t)n;
    int rc = n < 0 ? (int)n : -EPROTO;
    if (n == 0) {
        bytes[len] = '\0';
        rc = judge(visit, bytes, len);
    }
    free(bytes);
    return rc;
}

static struct visit draw_visit(void)
{
    struct visit now = {.number = requests++, .post = chaos_below(&chaos, 2)};
    MUST(requests < REQUESTS_MOST);
    now.len = chaos_below(&chaos, 3) ? 1 + chaos_below(&chaos, BODY_MOST) : 0;
    now.chunked = now.post && chaos_below(&chaos, 3) == 0;
    now.stalls = now.post && chaos_below(&chaos, 8) == 0;
    now.inside = !now.post && chaos_below(&chaos, 4) == 0;
    return now;
}

static int visit_once(void)
{
    struct visit now = draw_visit();
    int rc = start_pages();
    if (has_site && !now.post && !now.inside && chaos_below(&chaos, 2))
        now.page = &pages[chaos_below(&chaos, PAGES)];
    if (rc == 0)
        rc = coir_tcp_connect("web:80", &now.stream);
    if (rc < 0)
        return rc;
    rc = chaos_both(ask, hear, &now);
    coir_close(now.stream);
    return rc == -EPROTO && now.stalls ? 0 : rc;
}

static int visit(int client)
{
    bool well = chaos.over;
    int rc;
    (void)client;
    COIR_DEADLINE(coir_in(30 * COIR_S));
    do
        rc = visit_once();
    while (well && rc == -EPROTO);     /* those that stall have all turns of the application */
    MUST(rc != -ETIME || !chaos.over); /* 1 */
    return rc;
}

int scenario(coir_sim *sim)
{
    chaos = (struct chaos){.restart = start_application};
    web = NULL;
    has_site = false;
    requests = 0;
    memset(runs, 0, sizeof runs);
    return chaos_run(&chaos, sim, visit, CLIENTS);
}

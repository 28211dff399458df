/* Which script a path leads to, and that no path leads elsewhere: on a real directory. */
#include <sys/stat.h>
#include <unistd.h>

#include "fastcgi.h"
#include "sys/misuse.h"

/* Answers what it was asked for. */
static int tell(struct fcgi_request *request)
{
    char text[1000] = "Content-Type: text/plain\r\n\r\n";
    static const char *const names[] = {"SCRIPT_NAME", "PATH_INFO", "SCRIPT_FILENAME",
                                        "REQUEST_METHOD"};
    int count;
    while (fcgi_read_body(request) > 0)
        continue;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = fcgi_value_of(request, names[i], &count);
        strcat(strcat(text, value ? value : "-"), "|");
    }
    int rc = fcgi_write_text(request, text);
    return rc < 0 ? rc : fcgi_finish(request);
}

static char root[200];

static void make(const char *path, bool directory)
{
    char whole[400];
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    if (directory) {
        CHECK_EQ(mkdir(whole, 0700), 0);
        return;
    }
    FILE *file = fopen(whole, "w");
    CHECK(file != NULL);
    fclose(file);
}

static void link_to(const char *target, const char *path)
{
    char whole[400];
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    CHECK_EQ(symlink(target, whole), 0);
}

static void make_files(void)
{
    strcpy(root, "/tmp/coir-site-XXXXXX");
    CHECK(mkdtemp(root) != NULL);
    make("www", true);
    make("www/index.php", false);
    make("www/a b.php", false);
    make("www/image.jpg", false);
    make("www/.hidden.php", false);
    make("www/.git", true);
    make("www/.git/x.php", false);
    make("www/blog", true);
    make("www/blog/index.php", false);
    make("www/blog/empty", true);
    make("www/dir.php", true);
    make("www/dir.php/x.php", false);
    make("www/.php", false);
    make("outside.php", false);
    link_to("../outside.php", "www/link.php");
    link_to("..", "www/up");
    link_to("www", "current");
}

static const struct {
    const char *path, *want; /* what the script gets; or the status that begins the answer */
} cases[] = {
    {"/app/", "/app/index.php|-|ROOT/index.php|GET|"},
    {"/app/index.php", "/app/index.php|-|ROOT/index.php|GET|"},
    {"/app/index.php/a%20b/c", "/app/index.php|/a b/c|ROOT/index.php|GET|"},
    {"/app/index.php/", "/app/index.php|/|ROOT/index.php|GET|"},
    {"/app/index.php//x/../.y", "/app/index.php|//x/../.y|ROOT/index.php|GET|"},
    {"/app/a%20b.php", "/app/a b.php|-|ROOT/a b.php|GET|"},
    {"/app/blog/", "/app/blog/index.php|-|ROOT/blog/index.php|GET|"},
    {"/app/dir.php/x.php/y", "/app/dir.php/x.php|/y|ROOT/dir.php/x.php|GET|"},
    {"/%61pp/index.php", "/app/index.php|-|ROOT/index.php|GET|"},
    {"/app/blog", "Location: /app/blog/\r\n"},
    {"/app/blog?a=b", "Location: /app/blog/?a=b\r\n"},
    {"/app/dir.php", "Location: /app/dir.php/\r\n"},
    {"/app/blog/empty/", "HTTP/1.1 404"},
    {"/app/none.php", "HTTP/1.1 404"},
    {"/app/none/index.php", "HTTP/1.1 404"},
    {"/app/image.jpg", "HTTP/1.1 404"},
    {"/app/image.jpg/.php", "HTTP/1.1 404"},
    {"/app/image.jpg/x.php", "HTTP/1.1 404"},
    {"/app/.php", "HTTP/1.1 404"},
    {"/app/.hidden.php", "HTTP/1.1 404"},
    {"/app/.git/x.php", "HTTP/1.1 404"},
    {"/app/../outside.php", "HTTP/1.1 404"},
    {"/app/%2e%2e/outside.php", "HTTP/1.1 404"},
    {"/app/blog/../index.php", "HTTP/1.1 404"},
    {"/app/./index.php", "HTTP/1.1 404"},
    {"/app//index.php", "HTTP/1.1 404"},
    {"/app/blog%2findex.php", "HTTP/1.1 404"},
    {"/app/..%2foutside.php", "HTTP/1.1 404"},
    {"/app/index.php%00.jpg", "HTTP/1.1 400"},
    {"/app/link.php", "HTTP/1.1 404"},
    {"/app/up/outside.php", "HTTP/1.1 404"},
    {"/app/up/www/index.php", "HTTP/1.1 404"},
    {"/app/INDEX.PHP", "HTTP/1.1 404"},
    {"/app", "HTTP/1.1 404"},
};

/* `want`, with the directory in the place of ROOT. */
static const char *wanted(const char *want, const char *under)
{
    static char text[500];
    const char *at = strstr(want, "ROOT");
    if (!at)
        return want;
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - want), want, under, at + 4);
    return text;
}

static char under[300];

static void ask_all(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[300];
        snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", cases[i].path);
        if (!strstr(ask(text), wanted(cases[i].want, under)))
            test_fail(__FILE__, __LINE__, "%s: not %s, but %s", cases[i].path, cases[i].want,
                      answer);
    }
    ask("POST /app/index.php HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
    CHECK(strstr(answer, "|POST|") != NULL);
    ask("DELETE /app/index.php HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(strstr(answer, "|DELETE|") != NULL);
    ask("HEAD /app/index.php HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(status(answer) == 200 && strstr(answer, "\r\n\r\n")[4] == '\0');
    ask("GET http://a HTTP/1.1\r\nHost: a\r\n\r\n"); /* whose path is "/" */
    CHECK(strstr(answer, "\n/index.php|-|") != NULL);
    ask("GET http://a?q HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(strstr(answer, "\n/index.php|-|") != NULL);
}

static int serve_site(void *arg)
{
    coir_router *router;
    CHECK_EQ(coir_router_new(&router), 0);
    CHECK_EQ(coir_route_fastcgi(router, "/app/{path...}", fcgi, arg), 0);
    CHECK_EQ(coir_route_fastcgi(router, "/{path...}", fcgi, arg), 0);
    int rc = serve_router(router, NULL);
    coir_router_free(router);
    return rc;
}

static void run_site(const char *directory)
{
    static char address[64];
    make_files();
    snprintf(under, sizeof under, "%s/%s", root, directory);
    snprintf(address, sizeof address, "unix:@coir-site-%d", (int)getpid());
    fcgi_options.address = address;
    application = tell;
    CHECK_EQ(coir_fastcgi_new_with(&fcgi_options, &fcgi), 0);
    {
        COIR_SCOPE(scope);
        coir_go(scope, serve_application, NULL);
        coir_go(scope, serve_site, under);
        ask_all();
        coir_scope_cancel(scope);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    coir_fastcgi_free(fcgi);
    char command[300];
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK_EQ(system(command), 0);
}

TEST_REAL(paths_lead_to_scripts_below_the_root_alone)
{
    run_site("www");
}

TEST_REAL(the_root_may_be_a_link)
{
    run_site("current");
}

static void route_wrongly(void)
{
    coir_router *router;
    ci_misuse_aborts = false;
    CHECK_EQ(coir_router_new(&router), 0);
    CHECK_EQ(coir_route_fastcgi(router, "/app/", fcgi, "/srv"), -EINVAL);
    CHECK_EQ(coir_route_fastcgi(router, "/app/{path}", fcgi, "/srv"), -EINVAL);
    CHECK_EQ(coir_route_fastcgi(router, "app/{path...}", fcgi, "/srv"), -EINVAL);
    CHECK_EQ(coir_route_fastcgi(router, "/app/{path...}", fcgi, ""), -EINVAL);
    CHECK_EQ(coir_route_fastcgi(NULL, "/app/{path...}", fcgi, "/srv"), -EINVAL);
    CHECK_EQ(coir_route_fastcgi(router, NULL, fcgi, "/srv"), -EINVAL);
    CHECK_EQ(coir_route_fastcgi(router, "/app/{path...}", NULL, "/srv"), -EINVAL);
    CHECK_EQ(coir_route_fastcgi(router, "/app/{path...}", fcgi, NULL), -EINVAL);
    CHECK_EQ(coir_route_fastcgi(router, "/app/{path...}", fcgi, "/srv///"), 0);
    CHECK_EQ(coir_route_fastcgi(router, "/app/{path...}", fcgi, "/srv"), -EEXIST);
    coir_router_free(router);
}

TEST_SIM(bad_sites_are_refused)
{
    CHECK_EQ(coir_fastcgi_new("127.0.0.1:9000", &fcgi), 0);
    route_wrongly();
    coir_fastcgi_free(fcgi);
}

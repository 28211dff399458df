/* Every variable that a script gets: what it says, that it is there once, and which are not there.
 */
#include "fastcgi.h"

static const struct {
    const char *name, *value; /* NULL: it is not there */
} * expected;
static int wrong;

static int compare(struct fcgi_request *request)
{
    int count;
    for (int i = 0; expected[i].name; i++) {
        const char *value = fcgi_value_of(request, expected[i].name, &count),
                   *want = expected[i].value;
        if (want ? !value || count != 1 || strcmp(value, want) != 0 : value != NULL) {
            fprintf(stderr, "%s is %s, not %s (%d times)\n", expected[i].name,
                    value ? value : "absent", want ? want : "absent", count);
            wrong++;
        }
    }
    return say_hello(request);
}

static const char *request_text;

static void ask_once(void)
{
    CHECK_EQ(status(ask(request_text)), 200);
    CHECK_EQ(wrong, 0);
    CHECK_EQ(passed, 1);
}

#define TEST_VARIABLES(title, text, ...)     \
    TEST_SIM(title)                          \
    {                                        \
        static const struct {                \
            const char *name, *value;        \
        } all[] = {__VA_ARGS__, {0}};        \
        expected = (const void *)all;        \
        request_text = text;                 \
        with_application(compare, ask_once); \
    }

TEST_VARIABLES(of_a_get, GET("/page.php?a=b&c=%20"), {"REQUEST_METHOD", "GET"},
               {"REQUEST_URI", "/page.php?a=b&c=%20"}, {"QUERY_STRING", "a=b&c=%20"},
               {"SCRIPT_NAME", "/page.php"}, {"SCRIPT_FILENAME", "/srv/page.php"},
               {"GATEWAY_INTERFACE", "CGI/1.1"}, {"SERVER_PROTOCOL", "HTTP/1.1"},
               {"SERVER_SOFTWARE", "coir"}, {"SERVER_NAME", "a"}, {"SERVER_ADDR", "127.0.0.1"},
               {"SERVER_PORT", "80"}, {"REMOTE_ADDR", "10.0.0.1"}, {"REQUEST_SCHEME", "http"},
               {"REDIRECT_STATUS", "200"}, {"HTTP_HOST", "a"}, {"HTTPS", NULL},
               {"CONTENT_LENGTH", NULL}, {"CONTENT_TYPE", NULL}, {"PATH_INFO", NULL},
               {"PATH_TRANSLATED", NULL}, {"DOCUMENT_ROOT", NULL})

TEST_VARIABLES(of_a_post,
               "POST / HTTP/1.1\r\nHost: example.org:8080\r\nContent-Type: a/b; c=d\r\n"
               "Content-Length: 5\r\n\r\nhello",
               {"REQUEST_METHOD", "POST"}, {"REQUEST_URI", "/"}, {"QUERY_STRING", ""},
               {"CONTENT_TYPE", "a/b; c=d"}, {"CONTENT_LENGTH", "5"},
               {"SERVER_NAME", "example.org"}, {"HTTP_HOST", "example.org:8080"},
               {"HTTP_CONTENT_TYPE", NULL}, {"HTTP_CONTENT_LENGTH", NULL})

TEST_VARIABLES(of_an_empty_body, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
               {"CONTENT_LENGTH", "0"})

TEST_VARIABLES(of_a_body_in_chunks,
               "POST /?x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
               "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
               {"CONTENT_LENGTH", "5"}, {"HTTP_TRANSFER_ENCODING", NULL}, {"QUERY_STRING", "x"})

TEST_VARIABLES(of_old_http, "GET /?? HTTP/1.0\r\n\r\n", {"SERVER_PROTOCOL", "HTTP/1.0"},
               {"HTTP_HOST", NULL}, {"SERVER_NAME", "127.0.0.1"}, {"REQUEST_URI", "/??"},
               {"QUERY_STRING", "?"})

TEST_VARIABLES(of_an_absolute_target, "GET http://[::1]:81/a%20b? HTTP/1.1\r\nHost: other\r\n\r\n",
               {"REQUEST_URI", "/a%20b?"}, {"QUERY_STRING", ""}, {"HTTP_HOST", "[::1]:81"},
               {"SERVER_NAME", "[::1]"})

TEST_VARIABLES(of_a_target_without_a_path, "GET http://host HTTP/1.1\r\nHost: host\r\n\r\n",
               {"REQUEST_URI", "/"}, {"QUERY_STRING", ""}, {"SERVER_NAME", "host"})

TEST_VARIABLES(of_a_query_without_a_path, "GET http://host?a=b HTTP/1.1\r\nHost: host\r\n\r\n",
               {"REQUEST_URI", "/?a=b"}, {"QUERY_STRING", "a=b"})

TEST_VARIABLES(of_header_fields,
               "GET / HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nCookie: a=b\r\nx-ONE: 2\r\nX_One: bad\r\n"
               "Proxy: evil:80\r\nproxy: evil:80\r\nCOOKIE: c=d\r\nAuthorization: Basic x\r\n"
               "X-Empty:\r\nX-One: 3\r\nX.Y: bad\r\nX-Caf\x65-1: y\r\n\r\n",
               {"HTTP_X_ONE", "1, 2, 3"}, {"HTTP_COOKIE", "a=b; c=d"}, {"HTTP_PROXY", NULL},
               {"HTTP_AUTHORIZATION", "Basic x"}, {"HTTP_X_EMPTY", ""}, {"HTTP_X.Y", NULL},
               {"HTTP_X_CAFE_1", "y"})

TEST_SIM(of_the_script_and_the_program)
{
    static const struct {
        const char *name, *value;
    } all[] = {{"PATH_INFO", "/a b/c"},
               {"PATH_TRANSLATED", "/srv/www/a b/c"},
               {"DOCUMENT_ROOT", "/srv/www"},
               {"SCRIPT_NAME", "/in dex.php"},
               {"SCRIPT_FILENAME", "/srv/www/in dex.php"},
               {"SERVER_NAME", "www.example.org"},
               {"OWN", "x=y"},
               {"NONE", ""},
               {0}};
    static const char *const own[] = {"OWN=x=y", "NONE=", NULL};
    expected = (const void *)all;
    request_text = GET("/in%20dex.php/a%20b/c");
    fcgi_script.filename = "/srv/www/in dex.php";
    fcgi_script.name = "/in dex.php";
    fcgi_script.path_info = "/a b/c";
    fcgi_script.root = "/srv/www";
    fcgi_options.server_name = "www.example.org";
    fcgi_options.variables = own;
    with_application(compare, ask_once);
}

static int no_layer(coir_stream *transport, coir_stream **ret_stream, void *arg)
{
    (void)arg;
    *ret_stream = transport;
    return 0;
}

TEST_SIM(of_a_request_over_tls)
{
    static const struct {
        const char *name, *value;
    } all[] = {{"HTTPS", "on"}, {"REQUEST_SCHEME", "https"}, {0}};
    expected = (const void *)all;
    request_text = GET("/");
    http_options.layer = no_layer;
    with_application(compare, ask_once);
}

/* More than one record, and more than one buffer: fields of 12 KB in all, beside a path of 30 KB.
 */
static int compare_long(struct fcgi_request *request)
{
    int count;
    const char *value = fcgi_value_of(request, "HTTP_X_LONG", &count);
    wrong += !value || strlen(value) != 7000 || strspn(value, "v") != 7000;
    value = fcgi_value_of(request, "OWN", &count);
    wrong += !value || strlen(value) != 19000 || strspn(value, "o") != 19000;
    value = fcgi_value_of(request, "LAST", &count);
    wrong += !value || strcmp(value, "z") != 0;
    return say_hello(request);
}

TEST_SIM(of_a_length_beyond_the_buffer)
{
    static char text[8000], own[19005] = "OWN=";
    static const char *const variables[] = {own, "LAST=z", NULL};
    strcpy(text, "GET / HTTP/1.1\r\nHost: a\r\nX-Long: ");
    memset(text + strlen(text), 'v', 7000);
    strcat(text, "\r\n\r\n");
    memset(own + 4, 'o', 19000);
    request_text = text;
    fcgi_options.variables = variables;
    with_application(compare_long, ask_once);
}

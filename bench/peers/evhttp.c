/* A page over HTTP/1.1 by libevent's server. Usage: evhttp PORT */
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <signal.h>
#include <stdlib.h>

static void hello(struct evhttp_request *request, void *arg)
{
    static struct evbuffer *page;
    (void)arg;
    if (!page)
        page = evbuffer_new();
    evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type", "text/plain");
    evbuffer_add(page, "Hello, World!", 13);
    evhttp_send_reply(request, 200, "OK", page);
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    struct event_base *base = event_base_new();
    struct evhttp *http = base ? evhttp_new(base) : NULL;
    if (argc < 2 || !http)
        return 1;
    evhttp_set_cb(http, "/hello", hello, NULL);
    if (evhttp_bind_socket(http, "127.0.0.1", (unsigned short)atoi(argv[1])) != 0)
        return 1;
    return event_base_dispatch(base);
}

/* A WebSocket client: sends its arguments as texts, and prints what comes back for each.
 * Usage: 37_ws_client [URL [TEXT...]] */
#include <coir.h>
#include <coir/ws.h>
#include <stdio.h>

struct what {
    const char *url;
    char **texts;
};

static int converse(coir_ws *ws, const char *text)
{
    coir_ws_message *message;
    int rc = coir_ws_send_text(ws, text);
    if (rc < 0)
        return rc;
    if ((rc = coir_ws_recv(ws, &message)) <= 0)
        return rc < 0 ? rc : -COIR_EEND;
    printf("%.*s\n", (int)coir_ws_message_len(message), coir_ws_message_data(message));
    coir_ws_message_unref(message);
    return 0;
}

static int talk(void *arg)
{
    const struct what *what = arg;
    coir_ws *ws;
    int rc = coir_ws_connect(what->url, &ws);
    if (rc < 0)
        return rc;
    for (char **text = what->texts; *text && rc == 0; text++)
        rc = converse(ws, *text);
    if (rc == 0)
        rc = coir_ws_close(ws, 1000, "done");
    coir_ws_free(ws);
    return rc;
}

int main(int argc, char **argv)
{
    static char *hello[] = {"hello", NULL};
    struct what what = {argc > 1 ? argv[1] : "ws://127.0.0.1:7790/chat",
                        argc > 2 ? argv + 2 : hello};
    return coir_main(talk, &what);
}

/* A chat: every line goes to all other clients. One task for each client waits for its socket, the
 * room and the time at once. Usage: 10_chat [ADDRESS], then: nc 127.0.0.1 7778 */
#include <coir.h>
#include <errno.h>
#include <stdio.h>

struct line {
    const coir_stream *from;
    int len;
    char text[512];
};

static coir_topic *room;

static int hear(coir_stream *client, struct line *said)
{
    ssize_t n = coir_read(client, said->text, sizeof said->text);
    said->from = client;
    said->len = (int)n;
    return n > 0 ? coir_publish(room, said) : n < 0 ? (int)n : -COIR_EEND;
}

static int chat(coir_stream *client, void *arg)
{
    (void)arg;
    coir_channel *news;
    struct line said, heard;
    /* who is too slow misses the oldest lines */
    int rc = coir_subscribe(room, 64, COIR_OVERFLOW_DROP_OLDEST, &news);
    if (rc < 0)
        return rc;
    rc = coir_write_all(client, "welcome\n", 8);
    while (rc >= 0) {
        coir_case waits[] = {coir_case_stream(client, COIR_READ), coir_case_recv(news, &heard),
                             coir_case_after(60 * COIR_S)};
        switch (coir_select(waits, 3)) {
        case 0: rc = hear(client, &said); break;
        case 1:
            rc = heard.from == client ? 0 : coir_write_all(client, heard.text, (size_t)heard.len);
            break;
        case 2: rc = coir_write_all(client, "(silence)\n", 10); break;
        default: rc = -ECANCELED;
        }
    }
    coir_channel_free(news);
    return rc == -COIR_EEND ? 0 : rc;
}

static int start(void *address)
{
    int rc = coir_topic_new(sizeof(struct line), &room);
    if (rc < 0)
        return rc;
    printf("chatting on %s\n", (const char *)address);
    rc = coir_serve_tcp(address, chat, NULL);
    coir_topic_free(room);
    return rc;
}

int main(int argc, char **argv)
{
    return coir_main(start, argc > 1 ? argv[1] : "127.0.0.1:7778");
}

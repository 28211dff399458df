/* The opening handshake: requests that a server takes and those that it refuses, and answers, cut
 * at every byte, that a client takes and those that it refuses. */
#include "proto/websocket_handshake.h"

#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "harness.h"

#define KEY "dGhlIHNhbXBsZSBub25jZQ=="
#define ACCEPT "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
#define UP "Upgrade: websocket\r\nConnection: Upgrade\r\n"
#define VERSION "Sec-WebSocket-Version: 13\r\n"
#define KEY_FIELD "Sec-WebSocket-Key: " KEY "\r\n"

static struct ci_http1_head head;

static void parse(const char *text)
{
    static const struct ci_http1_limits limits = {1000, 4000};
    ci_http1_head_init(&head);
    if (ci_http1_parse(&head, &limits, text, strlen(text)) <= 0)
        test_fail(__FILE__, __LINE__, "no head: %s", text);
}

TEST(the_key_of_the_example)
{
    char accept[CI_WS_ACCEPT_LEN + 1];
    ci_ws_accept_for(KEY, accept);
    CHECK(strcmp(accept, ACCEPT) == 0); /* RFC 6455, 1.3 */
}

TEST(requests)
{
    static const struct {
        const char *line, *fields;
        int want;
    } cases[] = {
        {"GET / HTTP/1.1", UP VERSION KEY_FIELD, 0},
        {"GET / HTTP/1.2", UP VERSION KEY_FIELD, 0},
        {"GET / HTTP/1.1",
         "upgrade: WebSocket\r\nconnection: keep-alive, UPGRADE\r\n" VERSION KEY_FIELD, 0},
        {"GET / HTTP/1.1", "Upgrade: h2c, websocket\r\nConnection: upgrade\r\n" VERSION KEY_FIELD,
         0},
        {"GET / HTTP/1.1",
         "Upgrade: h2c\r\nUpgrade: websocket\r\nConnection: close\r\nConnection: "
         "upgrade\r\n" VERSION KEY_FIELD,
         0},
        {"GET / HTTP/1.1", UP VERSION KEY_FIELD "Content-Length: 0\r\n", 0},
        {"GET / HTTP/1.1", "", 426},
        {"GET / HTTP/1.1", VERSION KEY_FIELD, 426},
        {"GET / HTTP/1.1", "Upgrade: websocket\r\n" VERSION KEY_FIELD, 426},
        {"GET / HTTP/1.1", "Connection: Upgrade\r\n" VERSION KEY_FIELD, 426},
        {"GET / HTTP/1.1", "Upgrade: websockets\r\nConnection: Upgrade\r\n" VERSION KEY_FIELD, 426},
        {"GET / HTTP/1.1", "Upgrade: websocket\r\nConnection: Upgraded\r\n" VERSION KEY_FIELD, 426},
        {"GET / HTTP/1.0", UP VERSION KEY_FIELD, 426},
        {"GET / HTTP/1.1", UP "Sec-WebSocket-Version: 12\r\n" KEY_FIELD, 426},
        {"GET / HTTP/1.1", UP "Sec-WebSocket-Version: 8\r\n" KEY_FIELD, 426},
        {"GET / HTTP/1.1", UP "Sec-WebSocket-Version: 013\r\n" KEY_FIELD, 426},
        {"GET / HTTP/1.1", UP KEY_FIELD, 400},
        {"GET / HTTP/1.1", UP VERSION VERSION KEY_FIELD, 400},
        {"POST / HTTP/1.1", UP VERSION KEY_FIELD, 400},
        {"HEAD / HTTP/1.1", UP VERSION KEY_FIELD, 400},
        {"get / HTTP/1.1", UP VERSION KEY_FIELD, 400},
        {"GET / HTTP/1.1", UP VERSION KEY_FIELD "Content-Length: 1\r\n", 400},
        {"GET / HTTP/1.1", UP VERSION KEY_FIELD "Transfer-Encoding: chunked\r\n", 400},
        {"GET / HTTP/1.1", UP VERSION, 400},
        {"GET / HTTP/1.1", UP VERSION KEY_FIELD KEY_FIELD, 400},
        {"GET / HTTP/1.1", UP VERSION "Sec-WebSocket-Key: \r\n", 400},
        {"GET / HTTP/1.1", UP VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ\r\n", 400},
        {"GET / HTTP/1.1", UP VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=a\r\n", 400},
        {"GET / HTTP/1.1", UP VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZ===\r\n", 400},
        {"GET / HTTP/1.1", UP VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub-5jZQ==\r\n", 400},
        {"GET / HTTP/1.1", UP VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQAA==\r\n", 400},
    };
    for (size_t i = 0; i < ci_countof(cases); i++) {
        char text[1000];
        struct ci_span key = {0, 0};
        snprintf(text, sizeof text, "%s\r\nHost: a\r\n%s\r\n", cases[i].line, cases[i].fields);
        parse(text);
        int got = ci_ws_check_request(&head, text, &key);
        if (got != cases[i].want)
            test_fail(__FILE__, __LINE__, "%d, not %d: %s", got, cases[i].want, text);
        CHECK(got || memcmp(text + key.at, KEY, CI_WS_KEY_LEN) == 0);
    }
}

TEST(subprotocols)
{
    static const struct {
        const char *theirs, *ours, *want;
    } cases[] = {
        {"", "chat", ""},
        {"Sec-WebSocket-Protocol: chat\r\n", NULL, ""},
        {"Sec-WebSocket-Protocol: chat\r\n", "superchat", ""},
        {"Sec-WebSocket-Protocol: chat\r\n", "superchat, chat", "chat"},
        {"Sec-WebSocket-Protocol: a , b\r\n", "b,a", "a"},
        {"Sec-WebSocket-Protocol: x\r\nSec-WebSocket-Protocol:,, b\r\n", "a,b", "b"},
        {"Sec-WebSocket-Protocol: Chat\r\n", "chat", ""},
        {"Sec-WebSocket-Protocol: chatter\r\n", "chat", ""},
    };
    for (size_t i = 0; i < ci_countof(cases); i++) {
        char text[1000];
        snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n", cases[i].theirs);
        parse(text);
        struct ci_span got = ci_ws_choose_protocol(&head, text, cases[i].ours);
        CHECK_EQ(got.len, strlen(cases[i].want));
        CHECK(memcmp(text + got.at, cases[i].want, got.len) == 0);
    }
}

TEST(the_first_offer_that_suits_is_taken)
{
    static const struct {
        const char *fields, *want;
        int rc;
    } cases[] = {
        {"", "", 0},
        {"Sec-WebSocket-Extensions: foo\r\n", "", 0},
        {"Sec-WebSocket-Extensions: foo, permessage-deflate\r\n", "permessage-deflate", 0},
        {"Sec-WebSocket-Extensions: foo; a=\"1,2\", permessage-deflate\r\n", "", 400},
        {"Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=8, "
         "permessage-deflate; server_max_window_bits=9\r\n",
         "permessage-deflate; server_max_window_bits=9", 0},
        {"Sec-WebSocket-Extensions: permessage-deflate; bad\r\nSec-WebSocket-Extensions: "
         "permessage-deflate\r\n",
         "permessage-deflate", 0},
        {"Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover, "
         "permessage-deflate\r\n",
         "permessage-deflate; server_no_context_takeover", 0},
        {"Sec-WebSocket-Extensions: permessage-deflate, foo;\r\n", "", 400},
    };
    for (size_t i = 0; i < ci_countof(cases); i++) {
        char text[1000], got[CI_WS_DEFLATE_TEXT] = "";
        struct ci_ws_deflate agreed = {0};
        snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n", cases[i].fields);
        parse(text);
        CHECK_EQ(ci_ws_choose_deflate(&head, text, &(struct ci_ws_deflate){.on = true}, &agreed),
                 cases[i].rc);
        if (agreed.on)
            ci_ws_write_deflate(&agreed, true, got);
        CHECK(strcmp(got, cases[i].want) == 0);
    }
}

#define ANSWER "HTTP/1.1 101 Switching Protocols\r\n" UP "Sec-WebSocket-Accept: " ACCEPT "\r\n"

/* The same for every number of bytes that have come before the rest does. */
static int check(const struct ci_ws_asked *asked, const char *text, struct ci_ws_answer *answer)
{
    size_t len = strlen(text);
    int whole = ci_ws_check_answer(asked, text, len, answer);
    for (size_t some = 0; some < len; some++) {
        struct ci_ws_answer early;
        int rc = ci_ws_check_answer(asked, text, some, &early);
        CHECK(rc == 0 || (rc == -1 && whole == -1));
    }
    return whole;
}

TEST(answers)
{
    static const struct {
        const char *text;
        bool takes;
        int status;
        const char *protocol, *extension;
    } cases[] = {
        {ANSWER "\r\n", true, 101, "", ""},
        {"HTTP/1.1 101\r\n" UP "Sec-WebSocket-Accept: " ACCEPT "\r\n\r\n", true, 101, "", ""},
        {ANSWER "Sec-WebSocket-Protocol: b\r\n\r\n", true, 101, "b", ""},
        {ANSWER "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n", true, 101, "",
         "permessage-deflate"},
        {ANSWER "Sec-WebSocket-Protocol: c\r\n\r\n", false, 101, "", ""},
        {ANSWER "Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: b\r\n\r\n", false, 101, "",
         ""},
        {ANSWER "Sec-WebSocket-Extensions: foo\r\n\r\n", false, 101, "", ""},
        {ANSWER "Sec-WebSocket-Extensions: permessage-deflate, permessage-deflate\r\n\r\n", false,
         101, "", ""},
        {ANSWER "Sec-WebSocket-Extensions: permessage-deflate; x\r\n\r\n", false, 101, "", ""},
        {"HTTP/1.1 200 OK\r\n" UP "Sec-WebSocket-Accept: " ACCEPT "\r\n\r\n", false, 200, "", ""},
        {"HTTP/1.1 403 Forbidden\r\n\r\n", false, 403, "", ""},
        {"HTTP/1.0 101 Switching Protocols\r\n" UP "\r\n", false, 0, "", ""},
        {"HTTP/1.1 1010 x\r\n\r\n", false, 0, "", ""},
        {"ICY 101 x\r\n\r\n", false, 0, "", ""},
        {"HTTP/1.1 101 x\r\n" UP "\r\n", false, 101, "", ""},
        {"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: " ACCEPT "\r\n\r\n", false,
         101, "", ""},
        {"HTTP/1.1 101 x\r\nConnection: upgrade\r\nSec-WebSocket-Accept: " ACCEPT "\r\n\r\n", false,
         101, "", ""},
        {"HTTP/1.1 101 x\r\n" UP "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOp=\r\n\r\n",
         false, 101, "", ""},
        {ANSWER "Sec-WebSocket-Accept: " ACCEPT "\r\n\r\n", false, 101, "", ""},
        {ANSWER " folded\r\n\r\n", false, 101, "", ""},
    };
    static const struct ci_ws_deflate offered = {.on = true};
    static const struct ci_ws_asked asked = {KEY, "a, b", &offered};
    for (size_t i = 0; i < ci_countof(cases); i++) {
        struct ci_ws_answer answer;
        char extension[CI_WS_DEFLATE_TEXT] = "";
        int got = check(&asked, cases[i].text, &answer);
        int want = cases[i].takes ? (int)strlen(cases[i].text) : -1;
        if (got != want)
            test_fail(__FILE__, __LINE__, "%d, not %d: %s", got, want, cases[i].text);
        CHECK_EQ(answer.status, cases[i].status);
        if (!cases[i].takes)
            continue;
        CHECK_EQ(answer.protocol.len, strlen(cases[i].protocol));
        CHECK(memcmp(cases[i].text + answer.protocol.at, cases[i].protocol, answer.protocol.len) ==
              0);
        if (answer.deflate.on)
            ci_ws_write_deflate(&answer.deflate, true, extension);
        CHECK(strcmp(extension, cases[i].extension) == 0);
    }
    struct ci_ws_answer answer;
    CHECK_EQ(ci_ws_check_answer(&asked, ANSWER "\r\n\x81\x01x", strlen(ANSWER) + 5, &answer),
             strlen(ANSWER) + 2);
}

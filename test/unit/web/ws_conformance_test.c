/* RFC 6455 and RFC 7692 by a raw client: what it sends, and what must come back from a server that
 * echoes messages. Each case is sent whole, byte by byte, and cut in two at every byte. */
#include "wire.h"

static coir_ws_options options = COIR_WS_OPTIONS;

static int echo(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws *ws;
    coir_ws_message *message;
    int rc = coir_ws_accept_with(req, res, &options, &ws);
    if (rc < 0)
        return rc;
    while ((rc = coir_ws_recv(ws, &message)) > 0) {
        rc = coir_ws_send(ws, message);
        coir_ws_message_unref(message);
        if (rc < 0)
            break;
    }
    return 0;
}

static int serve(void *arg)
{
    (void)arg;
    static const struct route routes[] = {{"GET", "/ws", echo}, {0}};
    return serve_routes(routes, NULL);
}

/* ---- a case ---- */

enum { FRAMES_MOST = 40, PAYLOADS_MOST = 1 << 19 };

/* What must come: frames, the last of which is a close frame or -1. */
struct want {
    int first, code;
    const char *payload;
    size_t len;
};
static struct want want[FRAMES_MOST];
static int wants, cases;
static char payloads[PAYLOADS_MOST]; /* of what must come */
static size_t payloads_len;
static const char *name;

static void begin(const char *what)
{
    name = what;
    wire_len = payloads_len = 0;
    wants = 0;
}

static void expect(int first, const void *payload, size_t len)
{
    CHECK(wants < FRAMES_MOST && payloads_len + len <= sizeof payloads);
    if (len)
        memcpy(payloads + payloads_len, payload, len);
    want[wants++] = (struct want){first, 0, payloads + payloads_len, len};
    payloads_len += len;
}

static void expect_close(int code)
{
    want[wants++] = (struct want){.first = WIRE_FIN | CLOSE, .code = code};
}

static void check_answer(coir_stream *stream)
{
    for (int i = 0; i < wants; i++) {
        read_frame(stream);
        if (came.first != want[i].first)
            test_fail(__FILE__, __LINE__, "%s: frame %d is %02x (%d), not %02x", name, i,
                      (unsigned)came.first, came_code(), (unsigned)want[i].first);
        if (want[i].code && came_code() != want[i].code)
            test_fail(__FILE__, __LINE__, "%s: closed with %d, not %d", name, came_code(),
                      want[i].code);
        if (!want[i].code &&
            (came.len != want[i].len || memcmp(came.payload, want[i].payload, came.len) != 0))
            test_fail(__FILE__, __LINE__, "%s: frame %d differs", name, i);
    }
    if (read_frame(stream) != -1)
        test_fail(__FILE__, __LINE__, "%s: %02x behind the end", name, (unsigned)came.first);
}

static const char *request = WS_REQUEST;

/* Sends what lies in `wire` in pieces: of `step` bytes, after a first one of `cut` bytes. */
static void play(size_t cut, size_t step)
{
    coir_stream *stream = dial_ws(request);
    for (size_t at = 0; at < wire_len;) {
        size_t some = at == 0 && cut ? cut : step;
        some = some < wire_len - at ? some : wire_len - at;
        if (coir_write_all(stream, wire + at, some) < 0)
            break; /* the server has refused the rest */
        at += some;
        if (at < wire_len)
            coir_sleep_for(10 * COIR_MS); /* of virtual time: the server sees the pieces */
    }
    check_answer(stream);
    coir_close(stream);
}

/* The case is complete: plays it in every way. */
static void end(void)
{
    cases++;
    play(0, SIZE_MAX);
    if (wire_len > 400) {
        play(0, 997);
        return;
    }
    play(0, 1);
    for (size_t cut = 1; cut < wire_len; cut++)
        play(cut, SIZE_MAX);
}

/* ... and the client closes orderly. */
static void end_well(void)
{
    put_close(1000, "");
    expect_close(1000);
    end();
}

static void end_with(int code)
{
    expect_close(code);
    end();
}

/* One message in one frame that must come back. */
static void echoed(int opcode, const void *payload, size_t len)
{
    put_frame(WIRE_FIN | opcode, payload, len);
    expect(WIRE_FIN | opcode, payload, len);
}

/* ---- framing (5.2) ---- */

static char bytes[70000];

TEST_SERVER(messages_of_every_form_of_length)
{
    static const size_t lengths[] = {0, 1, 2, 124, 125, 126, 127, 128, 65535, 65536, 65537};
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)('a' + i % 23);
    for (int opcode = TEXT; opcode <= BINARY; opcode++)
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            begin("a length");
            echoed(opcode, bytes, lengths[i]);
            end_well();
        }
    begin("many messages at once");
    for (int i = 0; i < 20; i++)
        echoed(i % 2 ? TEXT : BINARY, bytes, (size_t)i * 7);
    end_well();
    CHECK(cases == 23);
}

TEST_SERVER(heads_that_are_wrong)
{
    for (int first = 0; first < 256; first++) {
        int opcode = first & 15;
        bool known = opcode <= BINARY || (opcode >= CLOSE && opcode <= PONG);
        bool control = opcode >= CLOSE, fin = first & WIRE_FIN;
        if (known && !(first & 0x70) && (control ? fin : opcode != CONT))
            continue; /* right: other cases */
        begin("a first byte");
        put_frame(first, "x", 1);
        end_with(1002);
    }
    for (int opcode = CLOSE; opcode <= PONG; opcode++) {
        begin("a control frame of 126 bytes");
        put_frame(WIRE_FIN | opcode, bytes, 126);
        end_with(1002);
    }
    static const struct {
        const char *what, *raw;
        size_t len;
    } raw[] = {
        {"not masked", "\x81\x05Hello", 7},
        {"125 bytes in two bytes", "\x81\xfe\x00\x7d\1\2\3\4", 8},
        {"65535 bytes in eight bytes", "\x81\xff\0\0\0\0\0\0\xff\xff\1\2\3\4", 14},
        {"more than 2^63", "\x82\xff\x80\0\0\0\0\0\0\0\1\2\3\4", 14},
    };
    for (size_t i = 0; i < sizeof raw / sizeof raw[0]; i++) {
        begin(raw[i].what);
        memcpy(wire, raw[i].raw, wire_len = raw[i].len);
        end_with(1002);
    }
    CHECK(cases > 220);
}

/* ---- fragments (5.4) and control frames between them (5.5) ---- */

TEST_SERVER(fragments)
{
    begin("two fragments");
    put_text(TEXT, "frag");
    put_text(WIRE_FIN | CONT, "ment");
    expect(WIRE_FIN | TEXT, "fragment", 8);
    end_well();
    begin("empty fragments");
    put_text(TEXT, "");
    put_text(CONT, "");
    put_text(WIRE_FIN | CONT, "");
    expect(WIRE_FIN | TEXT, "", 0);
    end_well();
    begin("an empty one in the middle");
    put_text(BINARY, "a");
    put_text(CONT, "");
    put_text(WIRE_FIN | CONT, "b");
    expect(WIRE_FIN | BINARY, "ab", 2);
    end_well();
    begin("a ping between fragments");
    put_text(TEXT, "frag");
    put_text(WIRE_FIN | PING, "here?");
    put_text(WIRE_FIN | CONT, "ment");
    expect(WIRE_FIN | PONG, "here?", 5);
    expect(WIRE_FIN | TEXT, "fragment", 8);
    end_well();
    begin("many pings and a pong between fragments");
    put_text(BINARY, "1");
    for (int i = 0; i < 5; i++) {
        put_text(WIRE_FIN | PING, "p");
        put_text(CONT, "2");
        put_text(WIRE_FIN | PONG, "unasked");
        expect(WIRE_FIN | PONG, "p", 1);
    }
    put_text(WIRE_FIN | CONT, "3");
    expect(WIRE_FIN | BINARY, "1222223", 7);
    end_well();
    begin("a message within a message");
    put_text(TEXT, "frag");
    put_text(WIRE_FIN | TEXT, "other");
    end_with(1002);
    begin("a beginning within a message");
    put_text(TEXT, "frag");
    put_text(BINARY, "other");
    end_with(1002);
    begin("a continuation behind a whole message");
    echoed(TEXT, "whole", 5);
    put_text(WIRE_FIN | CONT, "more");
    end_with(1002);
    begin("two continuations too many");
    put_text(TEXT, "a");
    put_text(WIRE_FIN | CONT, "b");
    put_text(CONT, "c");
    expect(WIRE_FIN | TEXT, "ab", 2);
    end_with(1002);
    for (size_t step = 1; step < 5; step++) {
        begin("fragments of one size");
        for (size_t at = 0; at < 20; at += step)
            put_frame((at + step >= 20 ? WIRE_FIN : 0) | (at ? CONT : TEXT), bytes + at,
                      at + step > 20 ? 20 - at : step);
        expect(WIRE_FIN | TEXT, bytes, 20);
        end_well();
    }
}

TEST_SERVER(pings_and_pongs)
{
    static const size_t lengths[] = {0, 1, 5, 124, 125};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        begin("a ping");
        put_frame(WIRE_FIN | PING, bytes, lengths[i]);
        expect(WIRE_FIN | PONG, bytes, lengths[i]);
        end_well();
        begin("a pong that was not asked for");
        put_frame(WIRE_FIN | PONG, bytes, lengths[i]);
        end_well();
    }
    begin("binary in a ping");
    put_frame(WIRE_FIN | PING, "\x00\xff\xfe\xfd\xfc\xfb\x00\xff", 8);
    expect(WIRE_FIN | PONG, "\x00\xff\xfe\xfd\xfc\xfb\x00\xff", 8);
    end_well();
    begin("ten pings");
    for (int i = 0; i < 10; i++) {
        put_frame(WIRE_FIN | PING, bytes + i, 3);
        expect(WIRE_FIN | PONG, bytes + i, 3);
    }
    end_well();
}

/* ---- the close (5.5.1, 7) ---- */

TEST_SERVER(close_frames)
{
    static const int right[] = {1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010,
                                1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999};
    static const int wrong[] = {0,    999,  1004, 1005, 1006, 1015,
                                1016, 1100, 2000, 2999, 5000, 65535};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        begin("a code");
        put_close(right[i], "reason");
        end_with(right[i]);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        begin("a wrong code");
        put_close(wrong[i], "");
        end_with(1002);
    }
    begin("no code");
    put_text(WIRE_FIN | CLOSE, "");
    end_with(1005);
    begin("half a code");
    put_text(WIRE_FIN | CLOSE, "\3");
    end_with(1002);
    memset(bytes, 'r', 123);
    bytes[123] = '\0';
    begin("the longest reason");
    put_close(1000, bytes);
    end_with(1000);
    begin("a reason that is not UTF-8");
    put_close(1000, "caf\xe9");
    end_with(1007);
    begin("a reason that is cut off");
    put_close(1000, "\xc3");
    end_with(1007);
    begin("frames behind a close");
    put_close(1000, "");
    put_text(WIRE_FIN | TEXT, "late");
    put_text(WIRE_FIN | PING, "late");
    end_with(1000);
    begin("two closes");
    put_close(1000, "");
    put_close(1001, "");
    end_with(1000);
    begin("a close within a message");
    put_text(TEXT, "frag");
    put_close(1001, "");
    end_with(1001);
    begin("a ping behind a close");
    echoed(TEXT, "a", 1);
    put_close(4321, "");
    put_text(WIRE_FIN | PING, "p");
    end_with(4321);
}

/* ---- text (8.1) ---- */

/* From Markus Kuhn's test, and the ends of each range. */
static const char *const valid[] = {
    "\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5",
    "\x7f",
    "\xc2\x80",
    "\xdf\xbf",
    "\xe0\xa0\x80",
    "\xef\xbf\xbf",
    "\xf0\x90\x80\x80",
    "\xf4\x8f\xbf\xbf",
    "\xed\x9f\xbf",
    "\xee\x80\x80",
    "\xef\xbf\xbd",
    "\xef\xbf\xbe",
    "\xf0\x9f\xbf\xbe",
    "\xf3\xbf\xbf\xbf",
    "\xe4\xbd\xa0\xe5\xa5\xbd",
    "\xf0\x9f\x98\x80",
};
static const char *const invalid[] = {
    "\x80",
    "\xbf",
    "\x80\xbf",
    "\x80\xbf\x80\xbf",
    "\xc0 ",
    "\xdf ",
    "\xe0 ",
    "\xef ",
    "\xf0 ",
    "\xf7 ",
    "\xf8 ",
    "\xfc ",
    "\xfe",
    "\xff",
    "\xfe\xfe\xff\xff",
    "\xc0",
    "\xe0\x80",
    "\xf0\x80\x80",
    "\xc0\xaf",
    "\xe0\x80\xaf",
    "\xf0\x80\x80\xaf",
    "\xf8\x80\x80\x80\xaf",
    "\xfc\x80\x80\x80\x80\xaf",
    "\xc1\xbf",
    "\xe0\x9f\xbf",
    "\xf0\x8f\xbf\xbf",
    "\xc0\x80",
    "\xe0\x80\x80",
    "\xf0\x80\x80\x80",
    "\xed\xa0\x80",
    "\xed\xad\xbf",
    "\xed\xae\x80",
    "\xed\xbf\xbf",
    "\xed\xa0\x80\xed\xb0\x80",
    "\xf4\x90\x80\x80",
    "\xf5\x80\x80\x80",
    "\xf8\x88\x80\x80\x80",
    "\xce\xba\xed\xa0\x80",
    "abc\xe9 def",
    "\xc3",
    "\xe2\x82",
    "\xf0\x9f\x98",
};

TEST_SERVER(text_is_utf8)
{
    for (size_t i = 0; i < sizeof valid / sizeof valid[0]; i++) {
        size_t len = strlen(valid[i]);
        begin("text");
        echoed(TEXT, valid[i], len);
        end_well();
        begin("text in two fragments");
        put_frame(TEXT, valid[i], len / 2);
        put_frame(WIRE_FIN | CONT, valid[i] + len / 2, len - len / 2);
        expect(WIRE_FIN | TEXT, valid[i], len);
        end_well();
    }
    for (size_t i = 0; i < sizeof invalid / sizeof invalid[0]; i++) {
        size_t len = strlen(invalid[i]);
        begin("no text");
        put_frame(WIRE_FIN | TEXT, invalid[i], len);
        end_with(1007);
        begin("no text, in fragments of a byte");
        for (size_t at = 0; at < len; at++)
            put_frame((at + 1 == len ? WIRE_FIN : 0) | (at ? CONT : TEXT), invalid[i] + at, 1);
        end_with(1007);
        begin("the same, as binary");
        echoed(BINARY, invalid[i], len);
        end_well();
    }
    begin("a ping within a character");
    put_frame(TEXT, "\xe2\x82", 2);
    put_text(WIRE_FIN | PING, "p");
    put_frame(WIRE_FIN | CONT, "\xac", 1);
    expect(WIRE_FIN | PONG, "p", 1);
    expect(WIRE_FIN | TEXT, "\xe2\x82\xac", 3);
    end_well();
    begin("it is refused before its end"); /* 8.1: the client is told at once */
    put_frame(TEXT, "\xf4\x90", 2);
    end_with(1007);
    CHECK(cases > 150);
}

/* ---- limits ---- */

TEST_SERVER(messages_up_to_the_limit)
{
    options.message_max = 1000;
    memset(bytes, 'm', 2000);
    begin("at the limit");
    echoed(BINARY, bytes, 1000);
    end_well();
    begin("one byte more");
    put_frame(WIRE_FIN | BINARY, bytes, 1001);
    end_with(1009);
    begin("it is announced alone");
    put_frame(WIRE_FIN | BINARY, bytes, 1001);
    wire_len -= 1001;
    end_with(1009);
    begin("fragments at the limit");
    put_frame(BINARY, bytes, 600);
    put_frame(WIRE_FIN | CONT, bytes, 400);
    expect(WIRE_FIN | BINARY, bytes, 1000);
    end_well();
    begin("fragments beyond the limit");
    put_frame(BINARY, bytes, 600);
    put_frame(WIRE_FIN | CONT, bytes, 401);
    end_with(1009);
    begin("the next message has the limit of its own");
    echoed(BINARY, bytes, 1000);
    echoed(BINARY, bytes, 1000);
    end_well();
}

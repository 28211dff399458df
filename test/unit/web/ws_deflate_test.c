/* permessage-deflate against zlib, used by the test itself: context takeover on and off in both
 * directions, windows of each size, limits while expanding, and data that is wrong. */
#include <zlib.h>

#include "wire.h"

static coir_ws_options options = COIR_WS_OPTIONS;
static int result;
static bool rests; /* the server has no fiber for the connection, and the client makes pauses */

static int on_message(coir_ws *ws, coir_ws_message *message, void *arg)
{
    (void)arg;
    return message ? coir_ws_send(ws, message) : 0;
}

static int echo(coir_request *req, coir_response *res, void *arg)
{
    coir_ws *ws;
    coir_ws_message *message;
    int rc = rests ? coir_ws_handle_with(req, res, &options, on_message, arg, &ws)
                   : coir_ws_accept_with(req, res, &options, &ws);
    if (rc < 0 || rests)
        return rc;
    while ((rc = coir_ws_recv(ws, &message)) > 0) {
        rc = coir_ws_send(ws, message);
        coir_ws_message_unref(message);
        if (rc < 0)
            break;
    }
    result = rc;
    return 0;
}

static int serve(void *arg)
{
    (void)arg;
    static const struct route routes[] = {{"GET", "/ws", echo}, {0}};
    return serve_routes(routes, NULL);
}

#define OFFER(parameters) \
    WS_REQUEST_WITH("Sec-WebSocket-Extensions: permessage-deflate" parameters "\r\n")

/* ---- the test's own side ---- */

static z_stream out, in;
static char expanded[WIRE_MOST];

static void begin(int out_bits, int in_bits)
{
    memset(&out, 0, sizeof out);
    memset(&in, 0, sizeof in);
    CHECK_EQ(deflateInit2(&out, 9, Z_DEFLATED, -out_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
    CHECK_EQ(inflateInit2(&in, -in_bits), Z_OK);
}

static void end(coir_stream *stream)
{
    deflateEnd(&out);
    inflateEnd(&in);
    coir_close(stream);
    coir_sleep_for(20 * COIR_S);
}

/* Compresses a text into one frame, or into two. */
static void put_deflated(const void *text, size_t len, bool resets, bool in_two)
{
    static char bytes[WIRE_MOST];
    out.next_in = (void *)(uintptr_t)text;
    out.avail_in = (unsigned)len;
    out.next_out = (void *)bytes;
    out.avail_out = sizeof bytes;
    CHECK_EQ(deflate(&out, Z_SYNC_FLUSH), Z_OK);
    size_t size = sizeof bytes - out.avail_out - 4, half = in_two ? size / 2 : size;
    put_frame((in_two ? 0 : WIRE_FIN) | WIRE_RSV1 | TEXT, bytes, half);
    if (in_two)
        put_frame(WIRE_FIN | CONT, bytes + half, size - half);
    if (resets)
        CHECK_EQ(deflateReset(&out), Z_OK);
}

/* Reads a message; expands it if it is compressed. Its length on the wire. */
static size_t read_message(coir_stream *stream, bool resets, size_t *ret_len)
{
    int first = read_frame(stream);
    CHECK((first & ~WIRE_RSV1) == (WIRE_FIN | TEXT));
    *ret_len = came.len;
    if (!(first & WIRE_RSV1)) {
        memcpy(expanded, came.payload, came.len);
        return came.len;
    }
    memcpy(came.payload + came.len, "\0\0\xff\xff", 4);
    in.next_in = (void *)came.payload;
    in.avail_in = (unsigned)came.len + 4;
    in.next_out = (void *)expanded;
    in.avail_out = sizeof expanded;
    CHECK_EQ(inflate(&in, Z_SYNC_FLUSH), Z_OK);
    *ret_len = sizeof expanded - in.avail_out;
    if (resets)
        CHECK_EQ(inflateReset(&in), Z_OK);
    return came.len;
}

static char text[60000];

static void make_text(void)
{
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + (i * i / 7 + i) % 19);
}

/* The same texts twice: with takeover the second time is much shorter. Returns both lengths. */
static void converse(const char *request, bool client_resets, bool server_resets, int client_bits,
                     int server_bits, size_t lengths[2])
{
    static const size_t sizes[] = {1, 5, 63, 64, 500, 3000, 20000, 60000};
    make_text();
    begin(client_bits, server_bits);
    coir_stream *stream = dial_ws(request);
    lengths[0] = lengths[1] = 0;
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            size_t len;
            put_deflated(text, sizes[i], client_resets, i % 2);
            put_text(WIRE_FIN | PING, "");
            send_wire(stream);
            lengths[round] += read_message(stream, server_resets, &len);
            CHECK_EQ(len, sizes[i]);
            CHECK(memcmp(expanded, text, len) == 0);
            CHECK_EQ(read_frame(stream), WIRE_FIN | PONG);
            if (rests)
                coir_sleep_for(5 * COIR_S);
        }
    put_close(1000, "");
    send_wire(stream);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    end(stream);
}

TEST_SERVER(messages_by_themselves)
{
    size_t lengths[2];
    options.compression = COIR_WS_COMPRESS_MESSAGES;
    converse(OFFER(""), true, true, 15, 15, lengths);
    CHECK(strstr(answer, "permessage-deflate; server_no_context_takeover; "
                         "client_no_context_takeover\r\n"));
    CHECK_EQ(lengths[0], lengths[1]);
    CHECK(lengths[0] < 40000); /* of 83,633 */
    converse(OFFER("; server_max_window_bits=9"), true, true, 15, 9, lengths);
    CHECK_EQ(lengths[0], lengths[1]);
}

TEST_SERVER(messages_in_view_of_those_before)
{
    size_t lengths[2];
    options.compression = COIR_WS_COMPRESS_STREAM;
    converse(OFFER(""), false, false, 15, 15, lengths);
    CHECK(strstr(answer, "Extensions: permessage-deflate\r\n"));
    CHECK(lengths[1] < lengths[0]);
    converse(OFFER("; server_no_context_takeover"), false, true, 15, 15, lengths);
    CHECK_EQ(lengths[0], lengths[1]);
    converse(OFFER("; client_no_context_takeover"), true, false, 15, 15, lengths);
    for (int bits = 9; bits <= 15; bits++) {
        char request[500];
        snprintf(request, sizeof request,
                 OFFER("; server_max_window_bits=%d; client_max_window_bits=%d"), bits, bits);
        converse(request, false, false, bits, bits, lengths);
    }
}

TEST_SERVER(one_that_rests_keeps_what_it_refers_to)
{
    size_t lengths[2];
    rests = true;
    options.compression = COIR_WS_COMPRESS_STREAM;
    converse(OFFER(""), false, false, 15, 15, lengths);
    CHECK(lengths[1] < lengths[0]);
    converse(OFFER("; client_no_context_takeover"), true, false, 15, 15, lengths);
    CHECK(lengths[1] < lengths[0]);
    options.compression = COIR_WS_COMPRESS_MESSAGES;
    converse(OFFER(""), true, true, 15, 15, lengths);
}

TEST_SERVER(where_the_peer_or_the_program_does_not_compress)
{
    options.compression = COIR_WS_COMPRESS_STREAM;
    coir_stream *stream = dial_ws(WS_REQUEST);
    CHECK(!strstr(answer, "Extensions"));
    put_frame(WIRE_FIN | WIRE_RSV1 | TEXT, "x", 1);
    send_wire(stream);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    CHECK_EQ(came_code(), 1002);
    coir_close(stream);
    options.compression = COIR_WS_NO_COMPRESSION;
    stream = dial_ws(OFFER(""));
    CHECK(!strstr(answer, "Extensions"));
    coir_close(stream);
}

/* ---- limits, and what is wrong ---- */

TEST_SERVER(limits_count_what_is_expanded)
{
    static char zeros[1001];
    options.compression = COIR_WS_COMPRESS_MESSAGES;
    options.message_max = 1000;
    for (size_t len = 999; len <= 1001; len++) {
        size_t got;
        memset(zeros, 'z', sizeof zeros);
        begin(15, 15);
        coir_stream *stream = dial_ws(OFFER(""));
        put_deflated(zeros, len, true, false);
        send_wire(stream);
        if (len <= 1000) {
            read_message(stream, true, &got);
            CHECK_EQ(got, len);
        } else {
            CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
            CHECK_EQ(came_code(), 1009);
        }
        end(stream);
    }
}

TEST_SERVER(a_message_without_a_limit)
{
    options.compression = COIR_WS_COMPRESS_MESSAGES;
    options.message_max = COIR_UNLIMITED;
    make_text();
    begin(15, 15);
    coir_stream *stream = dial_ws(OFFER(""));
    for (size_t len = 5; len <= sizeof text; len *= 100) {
        size_t got;
        put_deflated(text, len, true, false);
        send_wire(stream);
        read_message(stream, true, &got);
        CHECK(got == len && memcmp(expanded, text, len) == 0);
    }
    end(stream);
}

/* 1 GiB of zeroes in a megabyte: closed at the limit, after a few pieces of it. */
TEST_SERVER(a_bomb)
{
    enum { PIECE = 1 << 20, PIECES = 1024 };
    static char zeros[PIECE], piece[8192];
    options.compression = COIR_WS_COMPRESS_MESSAGES;
    begin(15, 15);
    out.next_in = (void *)zeros;
    out.avail_in = PIECE;
    out.next_out = (void *)piece;
    out.avail_out = sizeof piece;
    CHECK_EQ(deflate(&out, Z_FULL_FLUSH), Z_OK);
    size_t len = sizeof piece - out.avail_out;
    static char bomb[PIECES * sizeof piece];
    for (int i = 0; i < PIECES; i++)
        memcpy(bomb + (size_t)i * len, piece, len);
    coir_stream *stream = dial_ws(OFFER(""));
    put_frame(WIRE_FIN | WIRE_RSV1 | BINARY, bomb, PIECES * len);
    coir_write_all(stream, wire, wire_len); /* the server may have ended before it is written */
    wire_len = 0;
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    CHECK_EQ(came_code(), 1009);
    end(stream);
    CHECK_EQ(result, -COIR_ETOOLARGE);
}

TEST_SERVER(data_that_is_not_deflate)
{
    static const char *const wrong[] = {"\xff\xff\xff", "\x07", "\x01\x05\x00\x00\x00",
                                        "not compressed at all"};
    options.compression = COIR_WS_COMPRESS_MESSAGES;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        coir_stream *stream = dial_ws(OFFER(""));
        put_text(WIRE_FIN | WIRE_RSV1 | TEXT, wrong[i]);
        send_wire(stream);
        CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
        CHECK_EQ(came_code(), 1007);
        coir_close(stream);
    }
    begin(15, 15); /* text that is not UTF-8 once it is expanded */
    coir_stream *stream = dial_ws(OFFER(""));
    put_deflated("caf\xe9", 4, true, false);
    send_wire(stream);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    CHECK_EQ(came_code(), 1007);
    end(stream);
}

/* Examples of RFC 7692, 7.2.3. */
TEST_SERVER(the_examples_of_the_standard)
{
    static const struct {
        const char *bytes;
        size_t len;
    } hello[] = {
        {"\xf2\x48\xcd\xc9\xc9\x07\x00", 7},
        {"\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00", 11},
        {"\xf3\x48\xcd\xc9\xc9\x07\x00\x00", 8},
        {"\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00", 13},
    };
    options.compression = COIR_WS_COMPRESS_MESSAGES;
    coir_stream *stream = dial_ws(OFFER(""));
    for (size_t i = 0; i < sizeof hello / sizeof hello[0]; i++) {
        put_frame(WIRE_FIN | WIRE_RSV1 | TEXT, hello[i].bytes, hello[i].len);
        send_wire(stream);
        CHECK_EQ(read_frame(stream), WIRE_FIN | TEXT);
        CHECK(strcmp(came.payload, "Hello") == 0);
    }
    coir_close(stream);
}

/* ---- a client of coir's, and one message for many ---- */

TEST_SERVER(a_client_that_compresses)
{
    make_text();
    for (int compression = COIR_WS_COMPRESS_MESSAGES; compression <= COIR_WS_COMPRESS_STREAM;
         compression++)
        for (int bits = 9; bits <= 15; bits += 3) {
            coir_ws_options with = COIR_WS_OPTIONS;
            coir_ws *ws;
            char url[100];
            with.compression = (enum coir_ws_compression)compression;
            with.window_bits = bits;
            options.compression = with.compression;
            snprintf(url, sizeof url, "ws://%s/ws", server_address);
            CHECK_EQ(coir_ws_connect_with(url, &with, &ws), 0);
            for (size_t len = 1; len < sizeof text; len = 3 * len + 1) {
                coir_ws_message *message;
                CHECK_EQ(coir_ws_send_binary(ws, text, len), 0);
                CHECK_EQ(coir_ws_recv(ws, &message), 1);
                CHECK_EQ(coir_ws_message_len(message), len);
                CHECK(memcmp(coir_ws_message_data(message), text, len) == 0);
                coir_ws_message_unref(message);
            }
            CHECK_EQ(coir_ws_close(ws, 1000, NULL), 0);
            coir_ws_free(ws);
        }
}

/* ---- messages that were compressed and not sent ---- */

enum { NOISE = 7000, PART = 5000, SENDS = 300 };
static char noises[SENDS][NOISE + PART]; /* what was sent */
static int sent, not_sent;

/* Each message ends with the beginning of the one before, whether that was sent or not. */
static int send_what_goes(coir_ws *ws)
{
    static char noise[NOISE + PART];
    uint64_t state = 7;
    for (int i = 0; i < SENDS; i++) {
        coir_ws_message *message;
        memcpy(noise + NOISE, noise, PART);
        for (size_t k = 0; k < NOISE; k++)
            noise[k] = (char)test_random(&state);
        CHECK_EQ(coir_ws_message_new(COIR_WS_BINARY, noise, sizeof noise, &message), 0);
        COIR_DEADLINE(coir_in(COIR_MS));
        int rc = i % 2 ? coir_ws_try_send(ws, message) : coir_ws_send(ws, message);
        coir_ws_message_unref(message);
        CHECK(rc == 0 || rc == -EAGAIN || rc == -ETIME);
        if (rc == 0)
            memcpy(noises[sent++], noise, sizeof noise);
        else
            not_sent++;
    }
    return 0;
}

static int send_and_end(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws *ws;
    int rc = coir_ws_accept_with(req, res, &options, &ws);
    return rc < 0 ? rc : send_what_goes(ws);
}

static int serve_sends(void *arg)
{
    (void)arg;
    static const struct route routes[] = {{"GET", "/ws", send_and_end}, {0}};
    return serve_routes(routes, NULL);
}

/* The client reads while the server sends, but more slowly. */
static void what_came_is_what_was_sent(void)
{
    options.compression = COIR_WS_COMPRESS_STREAM;
    options.items_max = 2;
    begin(15, 15);
    coir_stream *stream = dial_ws(OFFER(""));
    int got = 0;
    for (; read_frame(stream) == (WIRE_FIN | WIRE_RSV1 | BINARY); got++) {
        memcpy(came.payload + came.len, "\0\0\xff\xff", 4);
        in.next_in = (void *)came.payload;
        in.avail_in = (unsigned)came.len + 4;
        in.next_out = (void *)expanded;
        in.avail_out = sizeof expanded;
        CHECK_EQ(inflate(&in, Z_SYNC_FLUSH), Z_OK);
        CHECK_EQ(sizeof expanded - in.avail_out, sizeof noises[0]);
        CHECK(memcmp(expanded, noises[got], sizeof noises[0]) == 0);
        coir_sleep_for(2 * COIR_MS);
    }
    CHECK_EQ(came_code(), 1000);
    CHECK(got == sent && not_sent > 0);
    end(stream);
}

TEST_SIM(a_message_that_was_not_sent_is_not_referred_to)
{
    CHECK_EQ(with_server(serve_sends, what_came_is_what_was_sent), 0);
}

/* ---- a bomb that is received in parts: each is short ---- */

static size_t longest, total;

static int add_parts_up(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws *ws;
    coir_ws_message *part;
    bool last = false;
    int rc = coir_ws_accept_with(req, res, &options, &ws);
    for (; rc >= 0 && (rc = coir_ws_recv_part(ws, &part, &last)) > 0;) {
        size_t len = coir_ws_message_len(part);
        for (size_t i = 0; i < len; i++)
            CHECK_EQ(coir_ws_message_data(part)[i], 'z');
        longest = len > longest ? len : longest;
        total += len;
        coir_ws_message_unref(part);
    }
    CHECK(last);
    result = rc;
    return 0;
}

static int serve_parts(void *arg)
{
    (void)arg;
    static const struct route routes[] = {{"GET", "/ws", add_parts_up}, {0}};
    return serve_routes(routes, NULL);
}

enum { BOMB = 8 << 20 };

static void parts_of_a_bomb(void)
{
    static char zs[BOMB];
    memset(zs, 'z', sizeof zs);
    options.compression = COIR_WS_COMPRESS_STREAM;
    for (int in_two = 0; in_two < 2; in_two++) {
        longest = total = 0;
        begin(15, 15);
        coir_stream *stream = dial_ws(OFFER(""));
        put_deflated(zs, sizeof zs, false, in_two);
        put_close(1000, "");
        send_wire(stream);
        CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
        CHECK_EQ(came_code(), 1000);
        end(stream);
        CHECK_EQ(total, BOMB);
        CHECK(longest < 512 * 1024);
    }
}

TEST_SIM(the_parts_of_a_bomb_are_short)
{
    CHECK_EQ(with_server(serve_parts, parts_of_a_bomb), 0);
}

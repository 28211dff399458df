/* WebSocket frames: heads of every form cut at every byte, what RFC 6455 forbids, masks of every
 * length and alignment, close frames. */
#include "proto/websocket.h"

#include <string.h>

#include "base/compiler.h"
#include "harness.h"

static struct ci_ws_frames frames;

/* Field by field: what lies between the fields may differ. */
static bool same_head(const struct ci_ws_head *a, const struct ci_ws_head *b)
{
    return a->len == b->len && memcmp(a->key, b->key, sizeof a->key) == 0 &&
           a->opcode == b->opcode && a->fin == b->fin && a->deflated == b->deflated;
}

/* Parses in two pieces; what was used of both. */
static int parse_cut(const uint8_t *bytes, size_t len, size_t cut, size_t *ret_used)
{
    size_t used = 0;
    int rc = ci_ws_parse_head(&frames, bytes, cut, ret_used);
    if (rc == 0) {
        CHECK_EQ(*ret_used, cut);
        rc = ci_ws_parse_head(&frames, bytes + cut, len - cut, &used);
        *ret_used += used;
    }
    return rc;
}

/* Whole, and cut at each byte, from the same state. */
static int parse(const uint8_t *bytes, size_t len, size_t *ret_used)
{
    const struct ci_ws_frames before = frames;
    int whole = parse_cut(bytes, len, len, ret_used);
    const struct ci_ws_frames after = frames;
    for (size_t cut = 0; cut < len; cut++) {
        size_t used;
        frames = before;
        CHECK_EQ(parse_cut(bytes, len, cut, &used), whole);
        CHECK_EQ(used, *ret_used);
        CHECK(whole < 0 || same_head(&frames.head, &after.head));
    }
    frames = after;
    return whole;
}

/* What a receiver says of the first bytes of a frame. */
struct head_case {
    const char *what;
    struct ci_ws_frames before;
    uint8_t bytes[CI_WS_HEAD_MAX];
    size_t count;
    int want;
    uint64_t len;
};
#define SERVER .masked = true
#define WITHIN .masked = true, .in_message = true
#define DEFLATES .masked = true, .deflates = true
#define HEAD(...) {__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__})

static const struct head_case cases[] = {
    {"text, empty", {SERVER}, HEAD(0x81, 0x80, 1, 2, 3, 4), 1, 0},
    {"text of 125", {SERVER}, HEAD(0x81, 0xfd, 1, 2, 3, 4), 1, 125},
    {"text of 126", {SERVER}, HEAD(0x81, 0xfe, 0, 126, 1, 2, 3, 4), 1, 126},
    {"text of 65535", {SERVER}, HEAD(0x81, 0xfe, 255, 255, 1, 2, 3, 4), 1, 65535},
    {"text of 65536", {SERVER}, HEAD(0x81, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2, 3, 4), 1, 65536},
    {"longest",
     {SERVER},
     HEAD(0x82, 0xff, 127, 255, 255, 255, 255, 255, 255, 255, 1, 2, 3, 4),
     1,
     INT64_MAX},
    {"binary", {SERVER}, HEAD(0x82, 0x81, 1, 2, 3, 4), 1, 1},
    {"begin of a message", {SERVER}, HEAD(0x01, 0x81, 1, 2, 3, 4), 1, 1},
    {"middle of a message", {WITHIN}, HEAD(0x00, 0x81, 1, 2, 3, 4), 1, 1},
    {"end of a message", {WITHIN}, HEAD(0x80, 0x80, 1, 2, 3, 4), 1, 0},
    {"ping", {SERVER}, HEAD(0x89, 0x80, 1, 2, 3, 4), 1, 0},
    {"ping of 125", {SERVER}, HEAD(0x89, 0xfd, 1, 2, 3, 4), 1, 125},
    {"ping within a message", {WITHIN}, HEAD(0x89, 0x80, 1, 2, 3, 4), 1, 0},
    {"pong", {SERVER}, HEAD(0x8a, 0x80, 1, 2, 3, 4), 1, 0},
    {"close", {SERVER}, HEAD(0x88, 0x82, 1, 2, 3, 4), 1, 2},
    {"close within a message", {WITHIN}, HEAD(0x88, 0x80, 1, 2, 3, 4), 1, 0},
    {"to a client", {.masked = false}, HEAD(0x81, 0x05), 1, 5},
    {"to a client, 126", {.masked = false}, HEAD(0x82, 126, 1, 0), 1, 256},
    {"to a client, 127", {.masked = false}, HEAD(0x82, 127, 0, 0, 0, 0, 0, 1, 0, 1), 1, 65537},
    {"deflated", {DEFLATES}, HEAD(0xc1, 0x81, 1, 2, 3, 4), 1, 1},
    {"deflated, begin", {DEFLATES}, HEAD(0x41, 0x81, 1, 2, 3, 4), 1, 1},
    {"not deflated", {DEFLATES}, HEAD(0x82, 0x81, 1, 2, 3, 4), 1, 1},
    {"nothing yet", {SERVER}, {0}, 0, 0, 0},
    {"half a length", {SERVER}, HEAD(0x81, 0xfe, 0), 0, 0},
    {"half a key", {SERVER}, HEAD(0x81, 0x85, 1, 2), 0, 0},
    {"length in two bytes too many", {SERVER}, HEAD(0x81, 0xfe, 0, 125, 1, 2, 3, 4), -1002, 0},
    {"length in eight bytes too many",
     {SERVER},
     HEAD(0x81, 0xff, 0, 0, 0, 0, 0, 0, 255, 255, 1, 2, 3, 4),
     -1002,
     0},
    {"length beyond 2^63",
     {SERVER},
     HEAD(0x81, 0xff, 128, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4),
     -1002,
     0},
    {"RSV1", {SERVER}, HEAD(0xc1), -1002, 0},
    {"RSV2", {DEFLATES}, HEAD(0xa1), -1002, 0},
    {"RSV3", {DEFLATES}, HEAD(0x91), -1002, 0},
    {"RSV1 in a control frame", {DEFLATES}, HEAD(0xc9), -1002, 0},
    {"RSV1 in a continuation",
     {.masked = true, .deflates = true, .in_message = true},
     HEAD(0x40),
     -1002,
     0},
    {"opcode 3", {SERVER}, HEAD(0x83), -1002, 0},
    {"opcode 7", {SERVER}, HEAD(0x87), -1002, 0},
    {"opcode 11", {SERVER}, HEAD(0x8b), -1002, 0},
    {"opcode 15", {SERVER}, HEAD(0x8f), -1002, 0},
    {"ping in pieces", {SERVER}, HEAD(0x09), -1002, 0},
    {"close in pieces", {SERVER}, HEAD(0x08), -1002, 0},
    {"ping of 126", {SERVER}, HEAD(0x89, 0xfe), -1002, 0},
    {"close of 127", {SERVER}, HEAD(0x88, 0xff), -1002, 0},
    {"continuation of nothing", {SERVER}, HEAD(0x80), -1002, 0},
    {"continuation of nothing, not the last", {SERVER}, HEAD(0x00), -1002, 0},
    {"text within a message", {WITHIN}, HEAD(0x81), -1002, 0},
    {"binary within a message", {WITHIN}, HEAD(0x02), -1002, 0},
    {"not masked", {SERVER}, HEAD(0x81, 0x05), -1002, 0},
    {"masked to a client", {.masked = false}, HEAD(0x81, 0x85), -1002, 0},
};

TEST(heads_in)
{
    for (size_t i = 0; i < ci_countof(cases); i++) {
        const struct head_case *it = &cases[i];
        size_t used = 0;
        frames = it->before;
        int got = parse(it->bytes, it->count, &used);
        if (got != it->want || (got == 1 && frames.head.len != it->len))
            test_fail(__FILE__, __LINE__, "%s: %d, length %llu", it->what, got,
                      (unsigned long long)frames.head.len);
        CHECK_EQ(used, it->count); /* what is refused is so at its last byte, not before */
        if (got == 1 && it->before.masked)
            CHECK(memcmp(frames.head.key, "\1\2\3\4", 4) == 0);
        if (got == 1) {
            CHECK_EQ(frames.head.opcode, it->bytes[0] & 15);
            CHECK_EQ(frames.head.fin, it->bytes[0] >> 7);
            CHECK_EQ(frames.head.deflated, it->bytes[0] >> 6 & 1);
            bool control = frames.head.opcode & 8;
            CHECK_EQ(frames.in_message, control ? it->before.in_message : !frames.head.fin);
        }
    }
}

/* Every first byte, by the rules of 5.2 written out. */
TEST(every_first_byte)
{
    for (int i = 0; i < 256 * 4; i++) {
        int byte = i & 255, opcode = byte & 15;
        bool within = i & 256, deflates = i & 512, fin = byte & 128, rsv1 = byte & 64;
        bool known = opcode <= 2 || (opcode >= 8 && opcode <= 10);
        bool order = opcode >= 8 ? fin : (opcode == 0) == within;
        bool reserved = byte & 0x30 || (rsv1 && !(deflates && (opcode == 1 || opcode == 2)));
        size_t used;
        frames = (struct ci_ws_frames){.masked = true, .deflates = deflates, .in_message = within};
        CHECK_EQ(parse((const uint8_t[]){(uint8_t)byte}, 1, &used),
                 known && order && !reserved ? 0 : -1002);
    }
}

TEST(heads_out)
{
    static const uint64_t lengths[] = {0, 1, 125, 126, 127, 65535, 65536, INT64_MAX};
    for (size_t i = 0; i < ci_countof(lengths); i++)
        for (int masked = 0; masked < 2; masked++) {
            uint8_t bytes[CI_WS_HEAD_MAX];
            struct ci_ws_head head = {.len = lengths[i], .opcode = CI_WS_BINARY, .fin = i % 2};
            size_t used;
            if (masked)
                memcpy(head.key, "abcd", 4);
            size_t len = ci_ws_write_head(bytes, &head, masked);
            CHECK_EQ(len, ci_ws_head_len(lengths[i], masked));
            frames = (struct ci_ws_frames){.masked = masked};
            CHECK_EQ(parse(bytes, len, &used), 1);
            CHECK_EQ(used, len);
            CHECK(same_head(&frames.head, &head));
        }
}

TEST(a_head_is_followed_by_its_payload)
{
    size_t used;
    frames = (struct ci_ws_frames){.masked = true};
    CHECK_EQ(ci_ws_parse_head(&frames, "\x81\x85\1\2\3\4hello", 11, &used), 1);
    CHECK_EQ(used, 6);
}

/* Against one byte at a time; nothing beside the payload changes. */
TEST(masks_of_every_length_alignment_and_offset)
{
    static const uint8_t key[] = {0x12, 0x34, 0x56, 0x78};
    uint8_t from[300], to[300], want[300];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)(i * 37 + 11);
    for (size_t len = 0; len <= 200; len++)
        for (size_t align = 0; align < 17; align++)
            for (uint64_t offset = 0; offset < 5; offset++) {
                memset(to, 0xaa, sizeof to);
                memset(want, 0xaa, sizeof want);
                for (size_t i = 0; i < len; i++)
                    want[align + i] = from[i] ^ key[(i + offset) % 4];
                ci_ws_mask(to + align, from, len, key, offset);
                CHECK(memcmp(to, want, sizeof want) == 0);
                ci_ws_mask(to + align, to + align, len, key, offset);
                CHECK(memcmp(to + align, from, len) == 0);
            }
}

TEST(a_mask_continues_at_any_offset)
{
    static const uint8_t key[] = {1, 2, 3, 4};
    uint8_t whole[150], parts[150];
    memset(whole, 'x', sizeof whole);
    ci_ws_mask(whole, whole, sizeof whole, key, 0);
    for (size_t cut = 0; cut <= sizeof parts; cut++) {
        memset(parts, 'x', sizeof parts);
        ci_ws_mask(parts, parts, cut, key, 0);
        ci_ws_mask(parts + cut, parts + cut, sizeof parts - cut, key, cut);
        CHECK(memcmp(parts, whole, sizeof whole) == 0);
    }
}

TEST(close_frames)
{
    static const struct {
        const char *payload;
        size_t len;
        int want;
    } payloads[] = {
        {"", 0, CI_WS_NO_CODE},      {"\3", 1, -1002},         {"\3\xe8", 2, 1000},
        {"\3\xe8\xc3\xa9", 4, 1000}, {"\3\xe8\xc3", 3, -1007}, {"\3\xe8\xff", 3, -1007},
        {"\3\xed", 2, -1002},        {"\0\0", 2, -1002},       {"\x13\x87", 2, 4999},
        {"\x13\x88", 2, -1002},
    };
    for (size_t i = 0; i < ci_countof(payloads); i++)
        CHECK_EQ(ci_ws_parse_close(payloads[i].payload, payloads[i].len), payloads[i].want);
}

TEST(codes_that_a_peer_may_send)
{
    static const int ranges[][2] = {{1000, 1003}, {1007, 1014}, {3000, 4999}};
    for (int code = 0; code < 66000; code++) {
        bool valid = false;
        for (size_t i = 0; i < ci_countof(ranges); i++)
            valid |= code >= ranges[i][0] && code <= ranges[i][1];
        CHECK_EQ(ci_ws_code_is_valid(code), valid);
    }
}

/* Any bytes as frames, handshakes and texts, cut anywhere: what is said of the whole is said of the
 * pieces, nothing outside of the input is read, and what is written is read back. */
#include <stdlib.h>
#include <string.h>

#include "proto/utf8.h"
#include "proto/websocket.h"
#include "proto/websocket_handshake.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

/* A number that depends on everything a receiver learns of the frames: heads, and payloads
 * unmasked; negative where it refuses them. */
static int64_t receive(const uint8_t *bytes, size_t len, uint8_t how, size_t step)
{
    struct ci_ws_frames frames = {.masked = how & 1, .deflates = how & 2};
    uint64_t left = 0, sum = 0;
    uint8_t piece[64];
    for (size_t at = 0; at < len;) {
        size_t some = len - at < step ? len - at : step, used = 0;
        if (left) {
            used = some < left ? some : (size_t)left;
            used = used < sizeof piece ? used : sizeof piece;
            ci_ws_mask(piece, bytes + at, used, frames.head.key, frames.head.len - left);
            for (size_t i = 0; i < used; i++)
                sum = sum * 31 + piece[i];
            left -= used;
        } else {
            int rc = ci_ws_parse_head(&frames, bytes + at, some, &used);
            must(used <= some && (rc != 0 || used == some));
            if (rc < 0)
                return rc;
            if (rc > 0) {
                uint8_t head[CI_WS_HEAD_MAX];
                size_t wrote = ci_ws_write_head(head, &frames.head, frames.masked);
                must(wrote <= at + used && memcmp(head, bytes + at + used - wrote, wrote) == 0);
                left = frames.head.len;
                sum = sum * 31 + left + frames.head.opcode;
            }
        }
        at += used;
    }
    return (int64_t)(sum >> 1);
}

static void check_text(const uint8_t *text, size_t len, size_t cut)
{
    struct ci_utf8 whole = {0}, parts = {0};
    bool valid = ci_utf8_check(&whole, text, len);
    bool in_parts =
        ci_utf8_check(&parts, text, cut) && ci_utf8_check(&parts, text + cut, len - cut);
    must(valid == in_parts && (!valid || whole.left == parts.left));
}

static void check_handshake(const char *text, size_t len, size_t cut)
{
    static const struct ci_http1_limits limits = {1000, 4000};
    static const struct ci_ws_deflate deflate = {.on = true, .client_bits_known = true};
    static const struct ci_ws_asked asked = {"dGhlIHNhbXBsZSBub25jZQ==", "chat", &deflate};
    struct ci_http1_head head;
    struct ci_ws_answer answer;
    struct ci_ws_deflate one;
    struct ci_span key;
    ci_http1_head_init(&head);
    if (ci_http1_parse(&head, &limits, text, len) > 0) {
        if (ci_ws_check_request(&head, text, &key) == 0)
            must(key.at + key.len <= len);
        must(ci_ws_choose_protocol(&head, text, "chat, b").len <= len);
        ci_ws_choose_deflate(&head, text, &deflate, &one);
    }
    int rc = ci_ws_check_answer(&asked, text, len, &answer);
    must(rc <= (int)len);
    int early = ci_ws_check_answer(&asked, text, cut, &answer);
    must(early == 0 || early == rc);
    if (ci_ws_parse_deflate(text, len, cut & 1, &one) > 0) {
        char written[CI_WS_DEFLATE_TEXT];
        struct ci_ws_deflate again;
        size_t wrote = ci_ws_write_deflate(&one, cut & 1, written);
        must(wrote < sizeof written);
        must(ci_ws_parse_deflate(written, wrote, cut & 1, &again) == 1);
        must(memcmp(&one, &again, sizeof one) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t len = size - 2, cut = data[0] * len / 255;
    uint8_t *text = malloc(len ? len : 1); /* so that a step outside is seen */
    memcpy(text, data + 2, len);
    int64_t whole = receive(text, len, data[1], SIZE_MAX);
    must(whole == receive(text, len, data[1], 1) &&
         whole == receive(text, len, data[1], 1 + cut % 7));
    must(ci_ws_parse_close(text, len) != 0);
    check_text(text, len, cut);
    check_handshake((const char *)text, len, cut);
    free(text);
    return 0;
}

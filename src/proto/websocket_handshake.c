#include "proto/websocket_handshake.h"

#include <string.h>

#include "base/ascii.h"
#include "proto/characters.h"
#include "proto/http1_status.h"
#include "proto/sha1.h"

enum { UPGRADE_REQUIRED = 426, SWITCHING = 101, HEAD_MAX = 16 * 1024 };

/* ---- the key ---- */

void ci_ws_accept_for(const char *key, char accept[CI_WS_ACCEPT_LEN + 1])
{
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"; /* RFC 6455, 1.3 */
    char text[CI_WS_KEY_LEN + sizeof guid];
    uint8_t digest[CI_SHA1_SIZE];
    memcpy(text, key, CI_WS_KEY_LEN);
    memcpy(text + CI_WS_KEY_LEN, guid, sizeof guid);
    ci_sha1(text, sizeof text - 1, digest);
    ci_base64(digest, sizeof digest, accept);
}

/* 16 bytes in Base64: 22 digits and "==". */
static bool key_is_valid(const char *key, size_t len)
{
    if (len != CI_WS_KEY_LEN || key[22] != '=' || key[23] != '=')
        return false;
    for (int i = 0; i < 22; i++) {
        char c = key[i], lower = (char)(c | 0x20);
        if (!(lower >= 'a' && lower <= 'z') && !(c >= '0' && c <= '9') && c != '+' && c != '/')
            return false;
    }
    return true;
}

/* ---- lists in fields ---- */

static bool equals(const char *text, size_t len, const char *lower)
{
    return strlen(lower) == len && ci_ascii_same_bytes(text, lower, len);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* The end of the element that begins at `at`: a comma, but not one in quotes. */
static const char *element_end(const char *at, const char *end)
{
    for (bool quoted = false; at < end && (quoted || *at != ','); at++) {
        if (*at == '"')
            quoted = !quoted;
        else if (quoted && *at == '\\' && at + 1 < end)
            at++;
    }
    return at;
}

/* The next element of a list that is not empty, without the space around it; *at is moved behind
 * it. NULL: there is none. */
static const char *next_in(const char **at, const char *end, size_t *ret_len)
{
    while (*at < end) {
        const char *from = *at, *to = element_end(from, end);
        *at = to < end ? to + 1 : end;
        while (from < to && is_space(*from))
            from++;
        while (to > from && is_space(to[-1]))
            to--;
        *ret_len = (size_t)(to - from);
        if (*ret_len)
            return from;
    }
    return NULL;
}

bool ci_ws_next_element(const struct ci_http1_head *head, const char *bytes, const char *name,
                        struct ci_ws_list *list, struct ci_span *ret_element)
{
    for (; list->field < head->field_count; list->field++, list->from = 0) {
        const struct ci_http1_field *field = &head->fields[list->field];
        if (!equals(bytes + field->name.at, field->name.len, name))
            continue;
        const char *value = bytes + field->value.at, *at = value + list->from;
        size_t len;
        const char *element = next_in(&at, value + field->value.len, &len);
        list->from = (uint32_t)(at - value);
        if (element) {
            *ret_element = (struct ci_span){(uint32_t)(element - bytes), (uint32_t)len};
            return true;
        }
    }
    return false;
}

bool ci_ws_list_has(const char *list, const char *element, size_t len)
{
    const char *at = list, *end = list + strlen(list), *found;
    size_t found_len;
    while ((found = next_in(&at, end, &found_len)))
        if (found_len == len && memcmp(found, element, len) == 0)
            return true;
    return false;
}

static bool has_token(const struct ci_http1_head *head, const char *bytes, const char *name,
                      const char *token)
{
    struct ci_ws_list list = {0};
    struct ci_span element;
    while (ci_ws_next_element(head, bytes, name, &list, &element))
        if (equals(bytes + element.at, element.len, token))
            return true;
    return false;
}

/* How many fields have the name; the last one of them. */
static int count_fields(const struct ci_http1_head *head, const char *bytes, const char *name,
                        struct ci_span *ret_value)
{
    int count = 0;
    for (uint32_t i = 0; i < head->field_count; i++)
        if (equals(bytes + head->fields[i].name.at, head->fields[i].name.len, name)) {
            *ret_value = head->fields[i].value;
            count++;
        }
    return count;
}

static bool asks_for_websocket(const struct ci_http1_head *head, const char *bytes)
{
    return has_token(head, bytes, "upgrade", "websocket") &&
           has_token(head, bytes, "connection", "upgrade");
}

/* ---- the server (RFC 6455, 4.2) ---- */

int ci_ws_check_request(const struct ci_http1_head *head, const char *bytes,
                        struct ci_span *ret_key)
{
    struct ci_span version, key;
    /* Upgrade in HTTP/1.0 is to be ignored, and so it is unless Connection names it (RFC 9110,
     * 7.8) */
    if (head->minor_version == 0 || !asks_for_websocket(head, bytes))
        return UPGRADE_REQUIRED;
    if (head->method.len != 3 || memcmp(bytes + head->method.at, "GET", 3) != 0 || head->chunked ||
        head->content_length > 0)
        return CI_HTTP1_BAD_REQUEST;
    if (count_fields(head, bytes, "sec-websocket-version", &version) != 1)
        return CI_HTTP1_BAD_REQUEST;
    if (!equals(bytes + version.at, version.len, "13"))
        return UPGRADE_REQUIRED; /* 4.4 */
    if (count_fields(head, bytes, "sec-websocket-key", &key) != 1 ||
        !key_is_valid(bytes + key.at, key.len))
        return CI_HTTP1_BAD_REQUEST;
    *ret_key = key;
    return 0;
}

struct ci_span ci_ws_choose_protocol(const struct ci_http1_head *head, const char *bytes,
                                     const char *ours)
{
    struct ci_ws_list list = {0};
    struct ci_span element;
    while (ours && ci_ws_next_element(head, bytes, "sec-websocket-protocol", &list, &element))
        if (ci_ws_list_has(ours, bytes + element.at, element.len))
            return element;
    return (struct ci_span){0, 0};
}

int ci_ws_choose_deflate(const struct ci_http1_head *head, const char *bytes,
                         const struct ci_ws_deflate *ours, struct ci_ws_deflate *ret_agreed)
{
    struct ci_ws_list list = {0};
    struct ci_span element;
    struct ci_ws_deflate agreed = {0};
    while (ci_ws_next_element(head, bytes, "sec-websocket-extensions", &list, &element)) {
        struct ci_ws_deflate offer;
        int rc = ci_ws_parse_deflate(bytes + element.at, element.len, false, &offer);
        if (rc < 0)
            return CI_HTTP1_BAD_REQUEST;
        if (rc > 0 && !agreed.on)
            ci_ws_agree_deflate(ours, &offer, &agreed);
    }
    *ret_agreed = agreed;
    return 0;
}

/* ---- the client (RFC 6455, 4.1) ---- */

/* "HTTP/1.1 101 any text": the status, or 0. */
static int status_of(const char *line, size_t len)
{
    if (len < 12 || memcmp(line, "HTTP/1.1 ", 9) != 0 || (len > 12 && line[12] != ' '))
        return 0;
    int status = 0;
    for (int i = 9; i < 12; i++) {
        if (line[i] < '0' || line[i] > '9')
            return 0;
        status = status * 10 + (line[i] - '0');
    }
    return status;
}

static bool key_fits(const struct ci_ws_asked *asked, const struct ci_http1_head *head,
                     const char *bytes)
{
    char accept[CI_WS_ACCEPT_LEN + 1];
    struct ci_span value;
    ci_ws_accept_for(asked->key, accept);
    return count_fields(head, bytes, "sec-websocket-accept", &value) == 1 &&
           value.len == CI_WS_ACCEPT_LEN && memcmp(bytes + value.at, accept, CI_WS_ACCEPT_LEN) == 0;
}

static bool protocol_fits(const struct ci_ws_asked *asked, const struct ci_http1_head *head,
                          const char *bytes, struct ci_span *ret_protocol)
{
    int count = count_fields(head, bytes, "sec-websocket-protocol", ret_protocol);
    return count == 0 ||
           (count == 1 && asked->protocols &&
            ci_ws_list_has(asked->protocols, bytes + ret_protocol->at, ret_protocol->len));
}

static bool extensions_fit(const struct ci_ws_asked *asked, const struct ci_http1_head *head,
                           const char *bytes, struct ci_ws_deflate *ret_deflate)
{
    struct ci_ws_list list = {0};
    struct ci_span element;
    while (ci_ws_next_element(head, bytes, "sec-websocket-extensions", &list, &element))
        if (ret_deflate->on ||
            ci_ws_parse_deflate(bytes + element.at, element.len, true, ret_deflate) <= 0 ||
            !ci_ws_accept_deflate(asked->deflate, ret_deflate))
            return false;
    return true;
}

int ci_ws_check_answer(const struct ci_ws_asked *asked, const char *bytes, size_t len,
                       struct ci_ws_answer *ret_answer)
{
    static const struct ci_http1_limits limits = {HEAD_MAX, HEAD_MAX};
    struct ci_http1_head head;
    struct ci_ws_answer answer = {0};
    *ret_answer = answer;
    const char *end = memmem(bytes, len, "\r\n", 2);
    if (!end)
        return len < HEAD_MAX ? 0 : -1;
    ret_answer->status = answer.status = status_of(bytes, (size_t)(end - bytes));
    if (answer.status != SWITCHING)
        return -1;
    ci_http1_head_init(&head); /* the fields are those of a request, behind another first line */
    head.has_request_line = head.has_host = true;
    head.line = head.scanned = (uint32_t)(end + 2 - bytes);
    int rc = ci_http1_parse(&head, &limits, bytes, len);
    if (rc <= 0)
        return rc < 0 ? -1 : 0;
    if (!asks_for_websocket(&head, bytes) || !key_fits(asked, &head, bytes) ||
        !protocol_fits(asked, &head, bytes, &answer.protocol) ||
        !extensions_fit(asked, &head, bytes, &answer.deflate))
        return -1;
    *ret_answer = answer;
    return rc;
}

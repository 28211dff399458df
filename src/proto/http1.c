#include "proto/http1.h"

#include <string.h>

#include "base/ascii.h"
#include "base/check.h"
#include "proto/characters.h"
#include "proto/http1_status.h"
#include "proto/uri.h"

bool ci_http1_is_token(const char *text, size_t len)
{
    return len > 0 && ci_chars_are(text, len, CI_CHAR_TOKEN);
}

bool ci_http1_is_value(const char *text, size_t len)
{
    if (ci_likely(!ci_chars_have_control(text, len)))
        return true;
    const char *at = text, *end = text + len;
    while ((at = ci_chars_find_control(at, end)) < end && *at == '\t')
        at++;
    return at == end;
}

static bool equals(const char *text, size_t len, const char *lower)
{
    return strlen(lower) == len && ci_ascii_same_bytes(text, lower, len);
}

/* Whether a text of the length of `lower`, of 4 to 16 letters and "-", is equal but for case. It
 * has no control characters: a CR would be a "-". */
CI_INLINE bool equals_folded(const char *text, const char *lower, size_t len)
{
    if (len < 8) {
        uint32_t a, b, c, d;
        memcpy(&a, text, 4);
        memcpy(&b, lower, 4);
        memcpy(&c, text + len - 4, 4);
        memcpy(&d, lower + len - 4, 4);
        return (((a | 0x20202020) ^ b) | ((c | 0x20202020) ^ d)) == 0;
    }
    uint64_t a, b, c, d;
    memcpy(&a, text, 8);
    memcpy(&b, lower, 8);
    memcpy(&c, text + len - 8, 8);
    memcpy(&d, lower + len - 8, 8);
    return (((a | 0x2020202020202020) ^ b) | ((c | 0x2020202020202020) ^ d)) == 0;
}
#define EQUALS_FOLDED(text, lower) equals_folded((text), "" lower, sizeof(lower) - 1)

/* ---- the request line ---- */

static struct ci_span span(const char *base, const char *from, const char *to)
{
    return (struct ci_span){(uint32_t)(from - base), (uint32_t)(to - from)};
}

static uint64_t span_end(struct ci_span part)
{
    return (uint64_t)part.at + part.len;
}

static int parse_version(struct ci_http1_head *head, const char *at, const char *end)
{
    if (end - at != 8 || memcmp(at, "HTTP/", 5) != 0 || at[6] != '.' || at[5] < '0' ||
        at[5] > '9' || at[7] < '0' || at[7] > '9')
        return -CI_HTTP1_BAD_REQUEST;
    if (at[5] != '1')
        return -CI_HTTP1_VERSION_NOT_SUPPORTED;
    /* a higher minor version is treated as 1.1 (RFC 9110, 2.5) */
    head->minor_version = at[7] == '0' ? 0 : 1;
    return 0;
}

/* Checks the escapes of the path, so that routing can decode it. The query is opaque here. */
static int parse_path(struct ci_http1_head *head, const char *base, const char *at, const char *end)
{
    const char *question = memchr(at, '?', (size_t)(end - at));
    head->path = span(base, at, question ? question : end);
    if (question)
        head->query = span(base, question + 1, end);
    return ci_uri_escapes_are_valid(at, question ? question : end, false) ? 0
                                                                          : -CI_HTTP1_BAD_REQUEST;
}

/* The four forms of RFC 9112, 3.2. The authority of an absolute form takes the place of the Host
 * field, whatever that says. */
static int parse_target(struct ci_http1_head *head, const char *base, const char *at,
                        const char *end)
{
    size_t len = (size_t)(end - at);
    const char *method = base + head->method.at;
    bool connect = head->method.len == 7 && memcmp(method, "CONNECT", 7) == 0;
    if (len == 0 || !ci_chars_are(at, len, CI_CHAR_TARGET))
        return -CI_HTTP1_BAD_REQUEST;
    head->target = head->path = span(base, at, end);
    if (connect) {
        head->form = CI_TARGET_AUTHORITY;
        head->path.len = 0;
        return ci_uri_connect_target_is_valid(at, end) ? 0 : -CI_HTTP1_BAD_REQUEST;
    }
    if (*at == '/') {
        head->form = CI_TARGET_ORIGIN;
        return parse_path(head, base, at, end);
    }
    if (len == 1 && *at == '*') {
        head->form = CI_TARGET_ASTERISK;
        return head->method.len == 7 && memcmp(method, "OPTIONS", 7) == 0 ? 0
                                                                          : -CI_HTTP1_BAD_REQUEST;
    }
    size_t scheme = len > 7 && ci_ascii_same_bytes(at, "http://", 7)    ? 7
                    : len > 8 && ci_ascii_same_bytes(at, "https://", 8) ? 8
                                                                        : 0;
    if (!scheme)
        return -CI_HTTP1_BAD_REQUEST;
    head->form = CI_TARGET_ABSOLUTE;
    const char *host = at + scheme, *path = host;
    while (path < end && *path != '/' && *path != '?')
        path++;
    if (path == host || !ci_uri_host_is_valid(host, path))
        return -CI_HTTP1_BAD_REQUEST;
    head->host = span(base, host, path);
    return parse_path(head, base, path, end);
}

static int parse_request_line(struct ci_http1_head *head, const char *base, const char *at,
                              const char *end)
{
    const char *space = memchr(at, ' ', (size_t)(end - at));
    if (!space || !ci_http1_is_token(at, (size_t)(space - at)))
        return -CI_HTTP1_BAD_REQUEST;
    head->method = span(base, at, space);
    const char *target = space + 1;
    space = memchr(target, ' ', (size_t)(end - target));
    if (!space)
        return -CI_HTTP1_BAD_REQUEST;
    int rc = parse_version(head, space + 1, end);
    return rc < 0 ? rc : parse_target(head, base, target, space);
}

/* ---- fields ---- */

static int parse_content_length(struct ci_http1_head *head, const char *at, const char *end)
{
    if (head->content_length >= 0 || at == end || end - at > 18)
        return -CI_HTTP1_BAD_REQUEST;
    int64_t length = 0;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return -CI_HTTP1_BAD_REQUEST;
        length = length * 10 + (*at - '0');
    }
    head->content_length = length;
    return 0;
}

/* Only "chunked" alone is understood. Anything that does not end in it cannot be framed (RFC
 * 9112, 6.3). */
static int parse_transfer_encoding(struct ci_http1_head *head, const char *at, const char *end)
{
    if (head->has_te)
        return -CI_HTTP1_BAD_REQUEST;
    head->has_te = true;
    if (equals(at, (size_t)(end - at), "chunked")) {
        head->chunked = true;
        return 0;
    }
    const char *last = end;
    while (last > at && last[-1] != ',' && last[-1] != ' ' && last[-1] != '\t')
        last--;
    return last > at && equals(last, (size_t)(end - last), "chunked") ? -CI_HTTP1_NOT_IMPLEMENTED
                                                                      : -CI_HTTP1_BAD_REQUEST;
}

static int parse_connection(struct ci_http1_head *head, const char *at, const char *end)
{
    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end, *from = at, *to = stop;
        while (from < to && (*from == ' ' || *from == '\t'))
            from++;
        while (to > from && (to[-1] == ' ' || to[-1] == '\t'))
            to--;
        head->says_close |= to - from == 5 && EQUALS_FOLDED(from, "close");
        head->says_keep_alive |= to - from == 10 && EQUALS_FOLDED(from, "keep-alive");
        at = comma ? comma + 1 : end;
    }
    return 0;
}

static int parse_host(struct ci_http1_head *head, const char *base, const char *at, const char *end)
{
    if (head->has_host || !ci_uri_host_is_valid(at, end))
        return -CI_HTTP1_BAD_REQUEST;
    head->has_host = true;
    if (head->form != CI_TARGET_ABSOLUTE)
        head->host = span(base, at, end);
    return 0;
}

/* Interprets the fields that frame the message or say how to answer it. */
static int look_at_field(struct ci_http1_head *head, const char *base, const char *name,
                         size_t name_len, const char *at, const char *end)
{
    switch (name_len) {
    case 4: return EQUALS_FOLDED(name, "host") ? parse_host(head, base, at, end) : 0;
    case 6:
        if (!EQUALS_FOLDED(name, "expect"))
            return 0;
        if (!equals(at, (size_t)(end - at), "100-continue"))
            return -CI_HTTP1_EXPECTATION_FAILED;
        head->expects_continue = true;
        return 0;
    case 10: return EQUALS_FOLDED(name, "connection") ? parse_connection(head, at, end) : 0;
    case 14: return EQUALS_FOLDED(name, "content-length") ? parse_content_length(head, at, end) : 0;
    case 17:
        return equals(name, 17, "transfer-encoding") ? parse_transfer_encoding(head, at, end) : 0;
    default: return 0;
    }
}

static int parse_field(struct ci_http1_head *head, const char *base, const char *at,
                       const char *end)
{
    const char *colon = at;
    while (colon < end && ci_char_is(*colon, CI_CHAR_TOKEN))
        colon++;
    if (colon == at || colon == end || *colon != ':')
        return -CI_HTTP1_BAD_REQUEST; /* also a folded line, and white space before the colon */
    const char *value = colon + 1;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    if (!ci_http1_is_value(value, (size_t)(end - value)))
        return -CI_HTTP1_BAD_REQUEST;
    if (head->field_count == CI_HTTP1_FIELDS)
        return -CI_HTTP1_FIELDS_TOO_LARGE;
    head->fields[head->field_count++] =
        (struct ci_http1_field){span(base, at, colon), span(base, value, end)};
    return look_at_field(head, base, at, (size_t)(colon - at), value, end);
}

/* Checks that need the whole head. */
CI_INLINE int finish(struct ci_http1_head *head)
{
    if (head->minor_version >= 1 && !head->has_host)
        return -CI_HTTP1_BAD_REQUEST; /* RFC 9112, 3.2 */
    if (head->has_te && (head->content_length >= 0 || head->minor_version == 0))
        return -CI_HTTP1_BAD_REQUEST; /* RFC 9112, 6.1: smuggling */
    if (head->minor_version == 0)
        head->expects_continue = false; /* RFC 9110, 10.1.1 */
    head->keep_alive = !head->says_close && (head->minor_version >= 1 || head->says_keep_alive);
    return 0;
}

/* ---- common lines, in one pass ----
 *
 * Each function checks and divides a line in one pass, without looking for its end before, and
 * returns where the next line begins. It returns NULL, with nothing changed, for every line that is
 * not common, not right or not complete: parse_line says what that is. */

/* The first character that belongs to none of the classes, or the end, which is at least 4 bytes
 * behind the begin of the head. */
CI_INLINE const char *scan(const char *at, const char *end, int classes)
{
    for (const char *last = end - 4; at <= last; at += 4) {
        if (!ci_char_is(at[0], classes))
            return at;
        if (!ci_char_is(at[1], classes))
            return at + 1;
        if (!ci_char_is(at[2], classes))
            return at + 2;
        if (!ci_char_is(at[3], classes))
            return at + 3;
    }
    while (at < end && ci_char_is(*at, classes))
        at++;
    return at;
}

/* What is behind the target of a request line: a digit and CRLF are behind the version. The
 * shortest line has "M /" before it. */
static const char version[] = " HTTP/1.";
enum {
    VERSION = sizeof version - 1,
    LINE_REST = VERSION + 1 + 2,
    REQUEST_LINE_MIN = LINE_REST + 3
};

/* Where the method of a request line ends whose target begins with "/"; or NULL. At least
 * REQUEST_LINE_MIN bytes have come. */
CI_INLINE const char *scan_method(const char *at, const char *end)
{
    if (ci_likely(memcmp(at, "GET /", 5) == 0))
        return at + 3;
    const char *method_end = scan(at, end, CI_CHAR_TOKEN);
    /* of 7 letters: CONNECT and OPTIONS have targets of other forms */
    if (method_end == at || method_end - at == 7 || end - method_end < 2 ||
        memcmp(method_end, " /", 2) != 0)
        return NULL;
    return method_end;
}

/* Whether a request line ends here, before its version, which is of HTTP/1. */
CI_INLINE bool is_line_rest(const char *at, const char *end)
{
    return end - at >= LINE_REST && memcmp(at, version, VERSION) == 0 &&
           (at[VERSION] & ~1) == '0' && memcmp(at + VERSION + 1, "\r\n", 2) == 0;
}

/* Of a target in origin form, without escapes in its path. */
CI_INLINE const char *request_line_at_once(struct ci_http1_head *head, uint32_t line_max,
                                           const char *base, const char *at, const char *end)
{
    const char *method_end = end - at < REQUEST_LINE_MIN ? NULL : scan_method(at, end);
    if (!method_end)
        return NULL;
    const char *target = method_end + 1;
    const char *path_end = scan(target, end, CI_CHAR_PATH), *target_end = path_end;
    if (!is_line_rest(path_end, end)) {
        if (path_end == end || *path_end != '?')
            return NULL;
        target_end = scan(path_end, end, CI_CHAR_TARGET);
        if (!is_line_rest(target_end, end))
            return NULL;
    }
    const char *minor = target_end + VERSION;
    if (minor + 1 - at > line_max)
        return NULL;
    head->has_request_line = true;
    head->method = span(base, at, method_end);
    head->target = span(base, target, target_end);
    head->path = span(base, target, path_end);
    if (path_end < target_end)
        head->query = span(base, path_end + 1, target_end);
    head->form = CI_TARGET_ORIGIN;
    head->minor_version = *minor - '0';
    return minor + 3;
}

/* reg-name without escapes, with or without a port; or nothing. */
CI_INLINE const char *scan_host(const char *at, const char *end)
{
    const char *host_end = scan(at, end, CI_CHAR_NAME);
    if (host_end == at || host_end == end || *host_end != ':')
        return host_end;
    at = host_end + 1;
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at;
}

/* Whether a value ends with its line, and neither begins nor ends with a space. */
CI_INLINE bool is_whole_value(const char *value, const char *value_end, const char *end)
{
    return end - value_end >= 2 && memcmp(value_end, "\r\n", 2) == 0 &&
           (value_end == value || (*value != ' ' && value_end[-1] != ' '));
}

CI_INLINE void add_field(struct ci_http1_head *head, const char *base, const char *name,
                         const char *colon, const char *value, const char *value_end)
{
    head->fields[head->field_count++] =
        (struct ci_http1_field){span(base, name, colon), span(base, value, value_end)};
}

/* Of a line that begins with "Host:". */
CI_INLINE const char *host_at_once(struct ci_http1_head *head, const char *base, const char *at,
                                   const char *end)
{
    const char *colon = at + 4, *value = colon + 1 + (colon[1] == ' ');
    const char *value_end = scan_host(value, end);
    if (!is_whole_value(value, value_end, end) || head->has_host)
        return NULL;
    add_field(head, base, at, colon, value, value_end);
    head->has_host = true;
    if (head->form != CI_TARGET_ABSOLUTE)
        head->host = span(base, value, value_end);
    return value_end + 2;
}

CI_INLINE bool is_host_line(const char *at, const char *end)
{
    return end - at >= 8 && at[4] == ':' && EQUALS_FOLDED(at, "host");
}

CI_INLINE const char *field_at_once(struct ci_http1_head *head, const char *base, const char *at,
                                    const char *end, int *ret_error)
{
    if (head->field_count == CI_HTTP1_FIELDS)
        return NULL;
    if (is_host_line(at, end))
        return host_at_once(head, base, at, end);
    const char *colon = scan(at, end, CI_CHAR_TOKEN);
    if (colon == at || end - colon < 4 || *colon != ':')
        return NULL;
    const char *value = colon + 1 + (colon[1] == ' ');
    const char *value_end = ci_chars_find_control(value, end);
    if (!is_whole_value(value, value_end, end))
        return NULL;
    add_field(head, base, at, colon, value, value_end);
    *ret_error = look_at_field(head, base, at, (size_t)(colon - at), value, value_end);
    return value_end + 2;
}

CI_INLINE bool is_end_line(const char *at, const char *end)
{
    return end - at >= 2 && memcmp(at, "\r\n", 2) == 0;
}

/* The line at `at` ends the head: 1, or why it is refused. */
CI_INLINE int end_at_once(struct ci_http1_head *head, const char *base, const char *at)
{
    int rc = finish(head);
    head->line = (uint32_t)(at + 2 - base);
    return rc < 0 ? rc : 1;
}

/* Goes over as many common lines as come, of which no byte was looked at before. 0: one is left, or
 * an empty line has not come. */
static CI_NOINLINE int lines_at_once(struct ci_http1_head *head,
                                     const struct ci_http1_limits *limits, const char *base,
                                     size_t len)
{
    size_t most = len < limits->head_max ? len : limits->head_max;
    const char *at = base + head->line, *end = base + most, *next = at;
    int rc = 0;
    if (!head->has_request_line)
        next = request_line_at_once(head, limits->line_max, base, at, end);
    while (next && rc == 0) {
        at = next;
        if (is_end_line(at, end))
            return end_at_once(head, base, at);
        next = field_at_once(head, base, at, end, &rc);
    }
    head->line = (uint32_t)(at - base);
    return rc;
}

/* The beginning of a head, of which nothing was looked at: its request line, and Host, with which
 * many clients begin the fields. 0: other lines follow. */
CI_INLINE int begin_at_once(struct ci_http1_head *head, const struct ci_http1_limits *limits,
                            const char *base, size_t len)
{
    const char *end = base + (len < limits->head_max ? len : limits->head_max);
    const char *at = request_line_at_once(head, limits->line_max, base, base, end);
    const char *next = at && is_host_line(at, end) ? host_at_once(head, base, at, end) : NULL;
    if (ci_likely(next && is_end_line(next, end)))
        return end_at_once(head, base, next);
    if (at)
        head->line = (uint32_t)((next ? next : at) - base);
    return 0;
}

/* ---- lines ---- */

/* Parses a line, which is given without its CRLF. 1: the head is complete. */
static int parse_line(struct ci_http1_head *head, const char *base, const char *at, const char *end)
{
    if (!head->has_request_line) {
        if (at == end)
            return 0; /* empty lines before a request are passed over (RFC 9112, 2.2) */
        head->has_request_line = true;
        return parse_request_line(head, base, at, end);
    }
    if (at == end) {
        int rc = finish(head);
        return rc < 0 ? rc : 1;
    }
    return parse_field(head, base, at, end);
}

/* Checks a line whose end has not been received. Bytes before `from` were searched before. */
static int check_unfinished(const struct ci_http1_head *head, const struct ci_http1_limits *limits,
                            const char *bytes, size_t from, size_t len)
{
    if (len == 0)
        return 0;
    const char *cr = from < len ? memchr(bytes + from, '\r', len - from) : NULL;
    if (cr && cr + 1 < bytes + len)
        return -CI_HTTP1_BAD_REQUEST; /* a bare CR */
    bool may_end = bytes[len - 1] == '\r';
    if (!head->has_request_line && len - head->line > (size_t)limits->line_max + may_end)
        return -CI_HTTP1_URI_TOO_LONG;
    return len >= limits->head_max ? -CI_HTTP1_FIELDS_TOO_LARGE : 0;
}

/* No line ends in the bytes that have come since the last call. */
static int stop(struct ci_http1_head *head, const struct ci_http1_limits *limits, const char *bytes,
                size_t len)
{
    uint32_t from = head->scanned;
    head->scanned = (uint32_t)len;
    /* the CR that ended the bytes of the last call must be followed by LF */
    bool after_cr = from > head->line && from < len && bytes[from - 1] == '\r';
    return after_cr ? -CI_HTTP1_BAD_REQUEST : check_unfinished(head, limits, bytes, from, len);
}

/* Goes on with the next lines. `uncommon`: the first of them was tried at once in vain. 1: the head
 * is complete. */
static int parse_lines(struct ci_http1_head *head, const struct ci_http1_limits *limits,
                       const char *bytes, size_t len, bool uncommon)
{
    for (;; uncommon = false) {
        if (head->scanned == head->line && !uncommon) {
            int rc = lines_at_once(head, limits, bytes, len);
            if (rc != 0)
                return rc;
            head->scanned = head->line;
        }
        uint32_t from = head->scanned;
        const char *at = bytes + head->line, *lf = NULL;
        if (from < len)
            lf = memchr(bytes + from, '\n', len - from);
        if (!lf)
            return stop(head, limits, bytes, len);
        if (lf == at || lf[-1] != '\r')
            return -CI_HTTP1_BAD_REQUEST; /* a bare LF */
        if (!head->has_request_line && (size_t)(lf - 1 - at) > limits->line_max)
            return -CI_HTTP1_URI_TOO_LONG;
        if ((size_t)(lf - bytes) >= limits->head_max)
            return -CI_HTTP1_FIELDS_TOO_LARGE;
        head->line = head->scanned = (uint32_t)(lf + 1 - bytes);
        int rc = parse_line(head, bytes, at, lf - 1);
        if (rc != 0)
            return rc;
    }
}

/* What ci_http1_parse returns. */
CI_INLINE int parsed(const struct ci_http1_head *head, int rc)
{
    ci_debug_check(rc <= 0 ||
                       (span_end(head->target) <= head->line && span_end(head->host) <= head->line),
                   "http1.h 3");
    return rc > 0 ? (int)head->line : rc;
}

/* With the lines behind those of begin_at_once, or of an earlier call. */
static CI_NOINLINE int go_on(struct ci_http1_head *head, const struct ci_http1_limits *limits,
                             const char *bytes, size_t len, bool fresh)
{
    int rc = fresh && head->line ? lines_at_once(head, limits, bytes, len) : 0;
    if (fresh)
        head->scanned = head->line;
    return parsed(head, rc != 0 ? rc : parse_lines(head, limits, bytes, len, fresh));
}

int ci_http1_parse(struct ci_http1_head *head, const struct ci_http1_limits *limits,
                   const char *bytes, size_t len)
{
    ci_check(head->line <= head->scanned && head->scanned <= len, "http1.h 1");
    ci_debug_check(head->scanned || !(head->field_count | head->method.len | head->host.len),
                   "http1.h 2");
    bool fresh = head->scanned == 0; /* then mostly all of it has come */
    int rc = ci_likely(fresh) ? begin_at_once(head, limits, bytes, len) : 0;
    if (ci_unlikely(rc == 0))
        return go_on(head, limits, bytes, len, fresh);
    return parsed(head, rc);
}

const struct ci_http1_field *ci_http1_find(const struct ci_http1_head *head, const char *bytes,
                                           const char *name, size_t name_len)
{
    for (uint32_t i = 0; i < head->field_count; i++) {
        const struct ci_http1_field *field = &head->fields[i];
        if (field->name.len == name_len &&
            ci_ascii_same_bytes(bytes + field->name.at, name, name_len))
            return field;
    }
    return NULL;
}

#include "proto/http1.h"

#include <string.h>
#include <strings.h>

enum {
    BAD_REQUEST = -400,
    URI_TOO_LONG = -414,
    EXPECTATION_FAILED = -417,
    FIELDS_TOO_LARGE = -431,
    NOT_IMPLEMENTED = -501,
    VERSION_NOT_SUPPORTED = -505
};

/* ---- characters ---- */

enum { TOKEN = 1, VALUE = 2, TARGET = 4, HOST = 8, HEX = 16 };

static const uint8_t classes[256] = {
#define T TOKEN | VALUE | TARGET
#define H TOKEN | VALUE | TARGET | HOST
#define X TOKEN | VALUE | TARGET | HOST | HEX
    ['\t'] = VALUE,
    [' '] = VALUE,
    ['!'] = H,
    ['"'] = VALUE,
    ['#'] = TOKEN | VALUE,
    ['$'] = H,
    ['%'] = H,
    ['&'] = H,
    ['\''] = H,
    ['('] = VALUE | TARGET | HOST,
    [')'] = VALUE | TARGET | HOST,
    ['*'] = H,
    ['+'] = H,
    [','] = VALUE | TARGET | HOST,
    ['-'] = H,
    ['.'] = H,
    ['/'] = VALUE | TARGET,
    ['0' ... '9'] = X,
    [':'] = VALUE | TARGET,
    [';'] = VALUE | TARGET | HOST,
    ['<'] = VALUE,
    ['='] = VALUE | TARGET | HOST,
    ['>'] = VALUE,
    ['?'] = VALUE | TARGET,
    ['@'] = VALUE | TARGET,
    ['A' ... 'F'] = X,
    ['G' ... 'Z'] = H,
    ['['] = VALUE | TARGET,
    ['\\'] = VALUE,
    [']'] = VALUE | TARGET,
    ['^'] = TOKEN | VALUE,
    ['_'] = H,
    ['`'] = TOKEN | VALUE,
    ['a' ... 'f'] = X,
    ['g' ... 'z'] = H,
    ['{'] = VALUE | TARGET,
    ['|'] = T,
    ['}'] = VALUE | TARGET,
    ['~'] = H,
    [0x80 ... 0xff] = VALUE,
#undef T
#undef H
#undef X
};

static bool is(char c, int class)
{
    return classes[(unsigned char)c] & class;
}

static bool all(const char *text, size_t len, int class)
{
    for (size_t i = 0; i < len; i++)
        if (!is(text[i], class))
            return false;
    return true;
}

bool ci_http1_is_token(const char *text, size_t len)
{
    return len > 0 && all(text, len, TOKEN);
}

bool ci_http1_is_value(const char *text, size_t len)
{
    return all(text, len, VALUE);
}

static bool equals(const char *text, size_t len, const char *lower)
{
    return strlen(lower) == len && strncasecmp(text, lower, len) == 0;
}

/* ---- the request line ---- */

static struct ci_span span(const char *base, const char *from, const char *to)
{
    return (struct ci_span){(uint32_t)(from - base), (uint32_t)(to - from)};
}

static int parse_version(struct ci_http1_head *head, const char *at, const char *end)
{
    if (end - at != 8 || memcmp(at, "HTTP/", 5) != 0 || at[6] != '.' || at[5] < '0' ||
        at[5] > '9' || at[7] < '0' || at[7] > '9')
        return BAD_REQUEST;
    if (at[5] != '1')
        return VERSION_NOT_SUPPORTED;
    /* a higher minor version is spoken to as 1.1 (RFC 9110, 2.5) */
    head->minor_version = at[7] == '0' ? 0 : 1;
    return 0;
}

static bool all_digits(const char *at, const char *end)
{
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at == end;
}

/* Whether every % begins a valid escape (RFC 3986, 2.1). %00 is refused unless nul_allowed. */
static bool valid_escapes(const char *at, const char *end, bool nul_allowed)
{
    while ((at = memchr(at, '%', (size_t)(end - at)))) {
        if (end - at < 3 || !is(at[1], HEX) || !is(at[2], HEX) ||
            (!nul_allowed && at[1] == '0' && at[2] == '0'))
            return false;
        at += 3;
    }
    return true;
}

/* dec-octet *3( "." dec-octet ) */
static bool valid_ipv4(const char *at, const char *end)
{
    for (int i = 0; i < 4; i++) {
        const char *from = at;
        int octet = 0;
        while (at < end && at - from < 3 && *at >= '0' && *at <= '9')
            octet = octet * 10 + (*at++ - '0');
        if (at == from || octet > 255 || (*from == '0' && at - from > 1))
            return false;
        if (i < 3 && (at == end || *at++ != '.'))
            return false;
    }
    return at == end;
}

/* Eight groups of 16 bits. "::" stands for one or more of them, an IPv4 address for the last two.
 * Zone identifiers are refused: they have no meaning on another machine. */
static bool valid_ipv6(const char *at, const char *end)
{
    int groups = 0;
    bool gap = end - at >= 2 && at[0] == ':' && at[1] == ':';
    at += gap ? 2 : 0;
    while (at < end) {
        const char *from = at;
        while (at < end && at - from < 5 && is(*at, HEX))
            at++;
        if (at < end && *at == '.') {
            groups += 2;
            return valid_ipv4(from, end) && (gap ? groups < 8 : groups == 8);
        }
        if (at == from || at - from > 4)
            return false;
        groups++;
        if (at == end)
            break;
        if (*at++ != ':' || at == end)
            return false;
        if (*at == ':') {
            if (gap)
                return false;
            gap = true;
            at++;
        }
    }
    return gap ? groups < 8 : groups == 8;
}

/* "v" 1*HEXDIG "." 1*( unreserved / sub-delims / ":" ) */
static bool valid_ip_future(const char *at, const char *end)
{
    const char *dot = memchr(at, '.', (size_t)(end - at));
    if (!dot || dot - at < 2 || dot + 1 == end || (*at | 0x20) != 'v' ||
        !all(at + 1, (size_t)(dot - at - 1), HEX))
        return false;
    for (const char *c = dot + 1; c < end; c++)
        if (!is(*c, HOST) && *c != ':')
            return false;
    return !memchr(dot, '%', (size_t)(end - dot));
}

/* uri-host [ ":" port ] (RFC 9110, 7.2; RFC 3986, 3.2.2). A port with an empty host is refused: an
 * http URI has a host (RFC 9110, 4.2.1). *ret_port: the port without the colon, or NULL. */
static bool valid_authority(const char *at, const char *end, const char **ret_port)
{
    const char *host_end, *port;
    if (at < end && *at == '[') {
        const char *close = memchr(at, ']', (size_t)(end - at));
        if (!close || !(valid_ipv6(at + 1, close) || valid_ip_future(at + 1, close)))
            return false;
        host_end = close + 1;
    } else {
        const char *colon = memchr(at, ':', (size_t)(end - at));
        host_end = colon ? colon : end;
        if (host_end == at || !all(at, (size_t)(host_end - at), HOST) ||
            !valid_escapes(at, host_end, true))
            return false;
    }
    port = host_end < end ? host_end + 1 : NULL;
    *ret_port = port;
    return !port || (*host_end == ':' && all_digits(port, end));
}

static bool valid_host(const char *at, const char *end)
{
    const char *port;
    return at == end || valid_authority(at, end, &port); /* Host may be empty (RFC 9112, 3.2) */
}

/* Of CONNECT: with a port, and one that exists (RFC 9110, 9.3.6). */
static bool valid_connect_target(const char *at, const char *end)
{
    const char *port;
    if (!valid_authority(at, end, &port) || !port)
        return false;
    while (port < end && *port == '0')
        port++;
    int number = 0;
    for (; port < end && number <= 65535; port++)
        number = number * 10 + (*port - '0');
    return number > 0 && number <= 65535;
}

/* Checks the escapes of the path, so that routing can decode it. The query is opaque here. */
static int parse_path(struct ci_http1_head *head, const char *base, const char *at, const char *end)
{
    const char *question = memchr(at, '?', (size_t)(end - at));
    head->path = span(base, at, question ? question : end);
    if (question)
        head->query = span(base, question + 1, end);
    return valid_escapes(at, question ? question : end, false) ? 0 : BAD_REQUEST;
}

/* The four forms of RFC 9112, 3.2. An absolute form's authority stands for the Host field, whatever
 * that says. */
static int parse_target(struct ci_http1_head *head, const char *base, const char *at,
                        const char *end)
{
    size_t len = (size_t)(end - at);
    const char *method = base + head->method.at;
    bool connect = head->method.len == 7 && memcmp(method, "CONNECT", 7) == 0;
    if (len == 0 || !all(at, len, TARGET))
        return BAD_REQUEST;
    head->target = head->path = span(base, at, end);
    if (connect) {
        head->form = CI_TARGET_AUTHORITY;
        head->path.len = 0;
        return valid_connect_target(at, end) ? 0 : BAD_REQUEST;
    }
    if (*at == '/') {
        head->form = CI_TARGET_ORIGIN;
        return parse_path(head, base, at, end);
    }
    if (len == 1 && *at == '*') {
        head->form = CI_TARGET_ASTERISK;
        return head->method.len == 7 && memcmp(method, "OPTIONS", 7) == 0 ? 0 : BAD_REQUEST;
    }
    size_t scheme = len > 7 && strncasecmp(at, "http://", 7) == 0    ? 7
                    : len > 8 && strncasecmp(at, "https://", 8) == 0 ? 8
                                                                     : 0;
    if (!scheme)
        return BAD_REQUEST;
    head->form = CI_TARGET_ABSOLUTE;
    const char *host = at + scheme, *path = host;
    while (path < end && *path != '/' && *path != '?')
        path++;
    if (path == host || !valid_host(host, path))
        return BAD_REQUEST;
    head->host = span(base, host, path);
    return parse_path(head, base, path, end);
}

static int parse_request_line(struct ci_http1_head *head, const char *base, const char *at,
                              const char *end)
{
    const char *space = memchr(at, ' ', (size_t)(end - at));
    if (!space || !ci_http1_is_token(at, (size_t)(space - at)))
        return BAD_REQUEST;
    head->method = span(base, at, space);
    const char *target = space + 1;
    space = memchr(target, ' ', (size_t)(end - target));
    if (!space)
        return BAD_REQUEST;
    int rc = parse_version(head, space + 1, end);
    return rc < 0 ? rc : parse_target(head, base, target, space);
}

/* ---- fields ---- */

static int parse_content_length(struct ci_http1_head *head, const char *at, const char *end)
{
    if (head->content_length >= 0 || at == end || end - at > 18)
        return BAD_REQUEST;
    int64_t length = 0;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return BAD_REQUEST;
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
        return BAD_REQUEST;
    head->has_te = true;
    if (equals(at, (size_t)(end - at), "chunked")) {
        head->chunked = true;
        return 0;
    }
    const char *last = end;
    while (last > at && last[-1] != ',' && last[-1] != ' ' && last[-1] != '\t')
        last--;
    return last > at && equals(last, (size_t)(end - last), "chunked") ? NOT_IMPLEMENTED
                                                                      : BAD_REQUEST;
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
        head->says_close |= equals(from, (size_t)(to - from), "close");
        head->says_keep_alive |= equals(from, (size_t)(to - from), "keep-alive");
        at = comma ? comma + 1 : end;
    }
    return 0;
}

static int parse_host(struct ci_http1_head *head, const char *base, const char *at, const char *end)
{
    if (head->has_host || !valid_host(at, end))
        return BAD_REQUEST;
    head->has_host = true;
    if (head->form != CI_TARGET_ABSOLUTE)
        head->host = span(base, at, end);
    return 0;
}

/* The fields that frame the message, or that everybody needs. */
static int look_at_field(struct ci_http1_head *head, const char *base, const char *name,
                         size_t name_len, const char *at, const char *end)
{
    switch (name_len) {
    case 4: return equals(name, 4, "host") ? parse_host(head, base, at, end) : 0;
    case 6:
        if (!equals(name, 6, "expect"))
            return 0;
        if (!equals(at, (size_t)(end - at), "100-continue"))
            return EXPECTATION_FAILED;
        head->expects_continue = true;
        return 0;
    case 10: return equals(name, 10, "connection") ? parse_connection(head, at, end) : 0;
    case 14: return equals(name, 14, "content-length") ? parse_content_length(head, at, end) : 0;
    case 17:
        return equals(name, 17, "transfer-encoding") ? parse_transfer_encoding(head, at, end) : 0;
    default: return 0;
    }
}

static int parse_field(struct ci_http1_head *head, const char *base, const char *at,
                       const char *end)
{
    const char *colon = at;
    while (colon < end && is(*colon, TOKEN))
        colon++;
    if (colon == at || colon == end || *colon != ':')
        return BAD_REQUEST; /* also a folded line, and white space before the colon */
    const char *value = colon + 1;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    if (!all(value, (size_t)(end - value), VALUE))
        return BAD_REQUEST;
    if (head->field_count == CI_HTTP1_FIELDS)
        return FIELDS_TOO_LARGE;
    head->fields[head->field_count++] =
        (struct ci_http1_field){span(base, at, colon), span(base, value, end)};
    return look_at_field(head, base, at, (size_t)(colon - at), value, end);
}

/* What only the whole head shows. */
static int finish(struct ci_http1_head *head)
{
    if (head->minor_version >= 1 && !head->has_host)
        return BAD_REQUEST; /* RFC 9112, 3.2 */
    if (head->has_te && (head->content_length >= 0 || head->minor_version == 0))
        return BAD_REQUEST; /* RFC 9112, 6.1: smuggling */
    if (head->minor_version == 0)
        head->expects_continue = false; /* RFC 9110, 10.1.1 */
    head->keep_alive = !head->says_close && (head->minor_version >= 1 || head->says_keep_alive);
    return 0;
}

/* ---- lines ---- */

/* A line whose end has come, without it. 1: the head is complete. */
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
        return BAD_REQUEST; /* a bare CR */
    bool may_end = bytes[len - 1] == '\r';
    if (!head->has_request_line && len - head->line > (size_t)limits->line_max + may_end)
        return URI_TOO_LONG;
    return len >= limits->head_max ? FIELDS_TOO_LARGE : 0;
}

int ci_http1_parse(struct ci_http1_head *head, const struct ci_http1_limits *limits,
                   const char *bytes, size_t len)
{
    const char *lf;
    uint32_t from = head->scanned;
    while (from < len && (lf = memchr(bytes + from, '\n', len - from))) {
        const char *at = bytes + head->line;
        if (lf == at || lf[-1] != '\r')
            return BAD_REQUEST; /* a bare LF */
        if (!head->has_request_line && (size_t)(lf - 1 - at) > limits->line_max)
            return URI_TOO_LONG;
        if ((size_t)(lf - bytes) >= limits->head_max)
            return FIELDS_TOO_LARGE;
        head->line = from = (uint32_t)(lf + 1 - bytes);
        int rc = parse_line(head, bytes, at, lf - 1);
        if (rc < 0)
            return rc;
        if (rc > 0)
            return (int)head->line;
    }
    head->scanned = (uint32_t)len;
    /* not followed by LF */
    bool after_cr = from > head->line && from < len && bytes[from - 1] == '\r';
    return after_cr ? BAD_REQUEST : check_unfinished(head, limits, bytes, from, len);
}

const struct ci_http1_field *ci_http1_find(const struct ci_http1_head *head, const char *bytes,
                                           const char *name, size_t name_len)
{
    for (uint32_t i = 0; i < head->field_count; i++) {
        const struct ci_http1_field *field = &head->fields[i];
        if (field->name.len == name_len && strncasecmp(bytes + field->name.at, name, name_len) == 0)
            return field;
    }
    return NULL;
}

/* ---- the body ---- */

void ci_http1_body_init(struct ci_http1_body *body, const struct ci_http1_head *head)
{
    *body = (struct ci_http1_body){.chunked = head->chunked};
    if (head->chunked) {
        body->state = CI_BODY_SIZE;
    } else if (head->content_length > 0) {
        body->state = CI_BODY_DATA;
        body->remaining = (uint64_t)head->content_length;
    }
}

static int hex_digit(char c)
{
    return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static int eat_size(struct ci_http1_body *body, char c)
{
    if (is(c, HEX)) {
        if (body->remaining >> 58 || ++body->digits > CI_HTTP1_SIZE_DIGITS)
            return BAD_REQUEST;
        body->remaining = body->remaining << 4 | (uint64_t)hex_digit(c);
        return CI_BODY_SIZE;
    }
    if (!body->digits)
        return BAD_REQUEST;
    return c == '\r'     ? CI_BODY_SIZE_LF
           : c == ';'    ? CI_BODY_NAME_START
           : is_blank(c) ? CI_BODY_SPACE
                         : BAD_REQUEST;
}

/* One byte of a chunk's extensions. The next state, or minus a status. */
static int eat_extension(enum ci_http1_body_state state, char c)
{
    switch (state) {
    case CI_BODY_SPACE:
        return c == ';' ? CI_BODY_NAME_START : is_blank(c) ? CI_BODY_SPACE : BAD_REQUEST;
    case CI_BODY_NAME_START:
        return is(c, TOKEN) ? CI_BODY_NAME : is_blank(c) ? CI_BODY_NAME_START : BAD_REQUEST;
    case CI_BODY_NAME:
        if (is(c, TOKEN))
            return CI_BODY_NAME;
        if (c == '\r')
            return CI_BODY_SIZE_LF;
        /* fall through */
    case CI_BODY_NAME_SPACE:
        return c == '='      ? CI_BODY_VALUE_START
               : c == ';'    ? CI_BODY_NAME_START
               : is_blank(c) ? CI_BODY_NAME_SPACE
                             : BAD_REQUEST;
    case CI_BODY_VALUE_START:
        return c == '"'       ? CI_BODY_QUOTED
               : is(c, TOKEN) ? CI_BODY_VALUE
               : is_blank(c)  ? CI_BODY_VALUE_START
                              : BAD_REQUEST;
    case CI_BODY_QUOTED:
        return c == '"'       ? CI_BODY_QUOTED_END
               : c == '\\'    ? CI_BODY_ESCAPED
               : is(c, VALUE) ? CI_BODY_QUOTED
                              : BAD_REQUEST;
    case CI_BODY_ESCAPED: return is(c, VALUE) ? CI_BODY_QUOTED : BAD_REQUEST;
    case CI_BODY_VALUE:
        if (is(c, TOKEN))
            return CI_BODY_VALUE;
        /* fall through */
    default: /* CI_BODY_QUOTED_END */
        return c == '\r'     ? CI_BODY_SIZE_LF
               : c == ';'    ? CI_BODY_NAME_START
               : is_blank(c) ? CI_BODY_SPACE
                             : BAD_REQUEST;
    }
}

/* One byte of the trailers. The next state, or minus a status. */
static int eat_trailer(struct ci_http1_body *body, enum ci_http1_body_state state, char c)
{
    if (state == CI_BODY_TRAILER) {
        body->in_name = true;
        return c == '\r' ? CI_BODY_END_LF : is(c, TOKEN) ? CI_BODY_TRAILER_LINE : BAD_REQUEST;
    }
    if (!body->in_name)
        return c == '\r' ? CI_BODY_TRAILER_LF : is(c, VALUE) ? CI_BODY_TRAILER_LINE : BAD_REQUEST;
    body->in_name = c != ':';
    return c == ':' || is(c, TOKEN) ? CI_BODY_TRAILER_LINE : BAD_REQUEST;
}

/* The end of a size line: subtracts the chunk's allowance (struct ci_http1_body). */
static int begin_chunk(struct ci_http1_body *body)
{
    uint64_t allowance = 16 + body->remaining / 16;
    body->framing -= allowance < body->framing ? (uint32_t)allowance : body->framing;
    return body->remaining ? CI_BODY_DATA : CI_BODY_TRAILER;
}

/* One byte of framing. The next state, or minus a status. */
static int eat(struct ci_http1_body *body, char c)
{
    enum ci_http1_body_state state = (enum ci_http1_body_state)body->state;
    switch (state) {
    case CI_BODY_SIZE: return eat_size(body, c);
    default: return eat_extension(state, c);
    case CI_BODY_SIZE_LF: return c == '\n' ? begin_chunk(body) : BAD_REQUEST;
    case CI_BODY_DATA_CR: return c == '\r' ? CI_BODY_DATA_LF : BAD_REQUEST;
    case CI_BODY_DATA_LF: body->digits = 0; return c == '\n' ? CI_BODY_SIZE : BAD_REQUEST;
    case CI_BODY_TRAILER:
    case CI_BODY_TRAILER_LINE: return eat_trailer(body, state, c);
    case CI_BODY_TRAILER_LF: return c == '\n' ? CI_BODY_TRAILER : BAD_REQUEST;
    case CI_BODY_END_LF: return c == '\n' ? CI_BODY_DONE : BAD_REQUEST;
    }
}

int64_t ci_http1_body_frame(struct ci_http1_body *body, const char *bytes, size_t len,
                            size_t *ret_data)
{
    size_t ate = 0;
    while (body->state != CI_BODY_DONE && body->state != CI_BODY_DATA && ate < len) {
        int next = eat(body, bytes[ate++]);
        if (next < 0)
            return next;
        if (++body->framing > CI_HTTP1_FRAMING_MAX)
            return body->state >= CI_BODY_TRAILER ? FIELDS_TOO_LARGE : BAD_REQUEST;
        body->state = (uint8_t)next;
    }
    size_t data = body->state == CI_BODY_DATA ? len - ate : 0;
    *ret_data =
        data < body->remaining ? data : (size_t)(body->state == CI_BODY_DATA ? body->remaining : 0);
    return (int64_t)ate;
}

void ci_http1_body_took(struct ci_http1_body *body, size_t len)
{
    body->remaining -= len;
    if (body->remaining == 0)
        body->state = body->chunked ? CI_BODY_DATA_CR : CI_BODY_DONE;
}

/* ---- statuses ---- */

const char *ci_http1_reason(int status)
{
    switch (status) {
    case 100: return "Continue";
    case 101: return "Switching Protocols";
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 206: return "Partial Content";
    case 301: return "Moved Permanently";
    case 302: return "Found";
    case 303: return "See Other";
    case 304: return "Not Modified";
    case 307: return "Temporary Redirect";
    case 308: return "Permanent Redirect";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 406: return "Not Acceptable";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 410: return "Gone";
    case 411: return "Length Required";
    case 412: return "Precondition Failed";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 416: return "Range Not Satisfiable";
    case 417: return "Expectation Failed";
    case 421: return "Misdirected Request";
    case 422: return "Unprocessable Content";
    case 426: return "Upgrade Required";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 502: return "Bad Gateway";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    default: return "";
    }
}

#include "proto/http1_body.h"

#include "base/check.h"
#include "proto/characters.h"
#include "proto/http1_status.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static int consume_size(struct ci_http1_body *body, char c)
{
    if (ci_char_is(c, CI_CHAR_HEX)) {
        if (body->remaining >> 58 || ++body->digits > CI_HTTP1_SIZE_DIGITS)
            return -CI_HTTP1_BAD_REQUEST;
        body->remaining = body->remaining << 4 | (uint64_t)ci_char_hex_value(c);
        return CI_BODY_SIZE;
    }
    if (!body->digits)
        return -CI_HTTP1_BAD_REQUEST;
    return c == '\r'     ? CI_BODY_SIZE_LF
           : c == ';'    ? CI_BODY_NAME_START
           : is_blank(c) ? CI_BODY_SPACE
                         : -CI_HTTP1_BAD_REQUEST;
}

/* One byte of a chunk's extensions. The next state, or minus a status. */
static int consume_extension(enum ci_http1_body_state state, char c)
{
    switch (state) {
    case CI_BODY_SPACE:
        return c == ';' ? CI_BODY_NAME_START : is_blank(c) ? CI_BODY_SPACE : -CI_HTTP1_BAD_REQUEST;
    case CI_BODY_NAME_START:
        return ci_char_is(c, CI_CHAR_TOKEN) ? CI_BODY_NAME
               : is_blank(c)                ? CI_BODY_NAME_START
                                            : -CI_HTTP1_BAD_REQUEST;
    case CI_BODY_NAME:
        if (ci_char_is(c, CI_CHAR_TOKEN))
            return CI_BODY_NAME;
        if (c == '\r')
            return CI_BODY_SIZE_LF;
        /* fall through */
    case CI_BODY_NAME_SPACE:
        return c == '='      ? CI_BODY_VALUE_START
               : c == ';'    ? CI_BODY_NAME_START
               : is_blank(c) ? CI_BODY_NAME_SPACE
                             : -CI_HTTP1_BAD_REQUEST;
    case CI_BODY_VALUE_START:
        return c == '"'                       ? CI_BODY_QUOTED
               : ci_char_is(c, CI_CHAR_TOKEN) ? CI_BODY_VALUE
               : is_blank(c)                  ? CI_BODY_VALUE_START
                                              : -CI_HTTP1_BAD_REQUEST;
    case CI_BODY_QUOTED:
        return c == '"'                       ? CI_BODY_QUOTED_END
               : c == '\\'                    ? CI_BODY_ESCAPED
               : ci_char_is(c, CI_CHAR_VALUE) ? CI_BODY_QUOTED
                                              : -CI_HTTP1_BAD_REQUEST;
    case CI_BODY_ESCAPED:
        return ci_char_is(c, CI_CHAR_VALUE) ? CI_BODY_QUOTED : -CI_HTTP1_BAD_REQUEST;
    case CI_BODY_VALUE:
        if (ci_char_is(c, CI_CHAR_TOKEN))
            return CI_BODY_VALUE;
        /* fall through */
    default: /* CI_BODY_QUOTED_END */
        return c == '\r'     ? CI_BODY_SIZE_LF
               : c == ';'    ? CI_BODY_NAME_START
               : is_blank(c) ? CI_BODY_SPACE
                             : -CI_HTTP1_BAD_REQUEST;
    }
}

/* One byte of the trailers. The next state, or minus a status. */
static int consume_trailer(struct ci_http1_body *body, enum ci_http1_body_state state, char c)
{
    if (state == CI_BODY_TRAILER) {
        body->in_name = true;
        return c == '\r'                      ? CI_BODY_END_LF
               : ci_char_is(c, CI_CHAR_TOKEN) ? CI_BODY_TRAILER_LINE
                                              : -CI_HTTP1_BAD_REQUEST;
    }
    if (!body->in_name)
        return c == '\r'                      ? CI_BODY_TRAILER_LF
               : ci_char_is(c, CI_CHAR_VALUE) ? CI_BODY_TRAILER_LINE
                                              : -CI_HTTP1_BAD_REQUEST;
    body->in_name = c != ':';
    return c == ':' || ci_char_is(c, CI_CHAR_TOKEN) ? CI_BODY_TRAILER_LINE : -CI_HTTP1_BAD_REQUEST;
}

/* The end of a size line: subtracts the chunk's allowance (struct ci_http1_body). */
static int begin_chunk(struct ci_http1_body *body)
{
    uint64_t allowance = 16 + body->remaining / 16;
    body->framing -= allowance < body->framing ? (uint32_t)allowance : body->framing;
    return body->remaining ? CI_BODY_DATA : CI_BODY_TRAILER;
}

/* One byte of framing. The next state, or minus a status. */
static int consume(struct ci_http1_body *body, char c)
{
    enum ci_http1_body_state state = (enum ci_http1_body_state)body->state;
    switch (state) {
    case CI_BODY_SIZE: return consume_size(body, c);
    default: return consume_extension(state, c);
    case CI_BODY_SIZE_LF: return c == '\n' ? begin_chunk(body) : -CI_HTTP1_BAD_REQUEST;
    case CI_BODY_DATA_CR: return c == '\r' ? CI_BODY_DATA_LF : -CI_HTTP1_BAD_REQUEST;
    case CI_BODY_DATA_LF: body->digits = 0; return c == '\n' ? CI_BODY_SIZE : -CI_HTTP1_BAD_REQUEST;
    case CI_BODY_TRAILER:
    case CI_BODY_TRAILER_LINE: return consume_trailer(body, state, c);
    case CI_BODY_TRAILER_LF: return c == '\n' ? CI_BODY_TRAILER : -CI_HTTP1_BAD_REQUEST;
    case CI_BODY_END_LF: return c == '\n' ? CI_BODY_DONE : -CI_HTTP1_BAD_REQUEST;
    }
}

int64_t ci_http1_body_frame(struct ci_http1_body *body, const char *bytes, size_t len,
                            size_t *ret_data)
{
    size_t consumed = 0;
    while (body->state != CI_BODY_DONE && body->state != CI_BODY_DATA && consumed < len) {
        int next = consume(body, bytes[consumed++]);
        if (next < 0)
            return next;
        if (++body->framing > CI_HTTP1_FRAMING_MAX)
            return body->state >= CI_BODY_TRAILER ? -CI_HTTP1_FIELDS_TOO_LARGE
                                                  : -CI_HTTP1_BAD_REQUEST;
        body->state = (uint8_t)next;
    }
    size_t data = body->state == CI_BODY_DATA ? len - consumed : 0;
    *ret_data =
        data < body->remaining ? data : (size_t)(body->state == CI_BODY_DATA ? body->remaining : 0);
    return (int64_t)consumed;
}

void ci_http1_body_took(struct ci_http1_body *body, size_t len)
{
    ci_check(len <= body->remaining && (len == 0 || body->state == CI_BODY_DATA), "http1_body.h 1");
    body->remaining -= len;
    if (body->remaining == 0)
        body->state = body->chunked ? CI_BODY_DATA_CR : CI_BODY_DONE;
}

/* Answers, read strictly (RFC 9112) and compared with what the model says. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "connections/fuzz.h"

enum state { HEAD, BODY, TO_THE_END, SIZE, SIZE_LF, CHUNK, CHUNK_CR, CHUNK_LF, LAST_CR, LAST_LF };

static bool wrong(const char **ret_error, const char *error)
{
    *ret_error = error;
    return false;
}

/* ---- the head ---- */

static bool take_field(struct answer *answer, const char *name, const char *value,
                       const char **error)
{
    if (strcasecmp(name, "Content-Length") == 0) {
        char *end;
        if (answer->has_length || !isdigit((unsigned char)*value))
            return wrong(error, "a Content-Length that is none, or a second");
        answer->has_length = true;
        answer->left = strtoull(value, &end, 10);
        return !*end || wrong(error, "a Content-Length that is no number");
    }
    if (strcasecmp(name, "Transfer-Encoding") == 0) {
        if (answer->chunked || strcmp(value, "chunked") != 0)
            return wrong(error, "a Transfer-Encoding that is unknown, or a second");
        answer->chunked = true;
    } else if (strcasecmp(name, "Connection") == 0) {
        answer->close |= strcasecmp(value, "close") == 0;
        answer->keep |= strcasecmp(value, "keep-alive") == 0;
    } else if (strcasecmp(name, "Date") == 0) {
        answer->date = strlen(value) == 29 && strcmp(value + 25, " GMT") == 0;
    } else if (strcasecmp(name, "Allow") == 0) {
        answer->allow = *value != '\0';
    }
    return true;
}

static bool take_line(struct answer *answer, char *line, const char **error)
{
    char *colon = strchr(line, ':');
    if (!colon || colon == line || colon[1] != ' ')
        return wrong(error, "a field without a name or a colon");
    for (const char *c = line; c < colon; c++)
        if (!isalnum((unsigned char)*c) && *c != '-')
            return wrong(error, "a field's name is no token");
    *colon = '\0';
    return take_field(answer, line, colon + 2, error);
}

/* Cuts the head, which is complete, into lines. */
static bool parse_head(struct answer *answer, const char **error)
{
    char *line = answer->head;
    if (sscanf(line, "HTTP/1.1 %3d ", &answer->status) != 1 || line[12] != ' ' ||
        answer->status < 100)
        return wrong(error, "no status line");
    for (char *end; (end = strstr(line, "\r\n")); line = end + 2) {
        *end = '\0';
        if (strchr(line, '\r') || strchr(line, '\n') || strlen(line) != (size_t)(end - line))
            return wrong(error, "a bare CR, LF or NUL in the head");
        if (line != answer->head && line != end && !take_line(answer, line, error))
            return false;
    }
    return true;
}

static bool known_status(const struct answer *answer, const struct expect *expect)
{
    if (answer->status == expect->status)
        return true;
    return expect->loose && (answer->status == 400 || answer->status == 408);
}

static bool check_connection(const struct answer *answer, const struct expect *expect,
                             const char **error)
{
    if (answer->close && answer->keep)
        return wrong(error, "Connection says close and keep-alive");
    bool may_close = expect->may_close || expect->loose;
    if (answer->close && !expect->says_close && !may_close)
        return wrong(error, "Connection: close, without a reason");
    if (!answer->close && expect->says_close && !expect->loose)
        return wrong(error, "no Connection: close");
    if (!answer->close && !answer->keep && expect->says_keep)
        return wrong(error, "no Connection: keep-alive, to HTTP/1.0");
    return true;
}

/* How the body is framed: as the model says, in an answer to HEAD as in one to GET. */
static bool check_framing(const struct answer *answer, const struct expect *expect,
                          const char **error)
{
    bool none = expect->status == 204;
    if (answer->has_length && answer->chunked)
        return wrong(error, "both Content-Length and Transfer-Encoding");
    if (answer->status != expect->status)
        return answer->has_length || wrong(error, "an error without a length");
    if (none)
        return (!answer->has_length && !answer->chunked) || wrong(error, "a 204 that is framed");
    if (expect->head && !answer->has_length && !answer->chunked)
        return true;
    if (answer->chunked != (expect->framing == BY_CHUNKS))
        return wrong(error, "chunked where it should not be, or the other way");
    if (answer->has_length != (expect->framing == BY_LENGTH))
        return wrong(error, "a length where there should be none, or none");
    if (answer->has_length && expect->body != BODY_ANY && answer->left != expect->len)
        return wrong(error, "another length than that of the body");
    return true;
}

static bool check_head(const struct answer *answer, const struct expect *expect, const char **error)
{
    if (!known_status(answer, expect))
        return wrong(error, "another status");
    if (!answer->date)
        return wrong(error, "no Date, or a bad one");
    if (expect->allow && answer->status == expect->status && !answer->allow)
        return wrong(error, "no Allow");
    return check_connection(answer, expect, error) && check_framing(answer, expect, error);
}

/* ---- the body ---- */

static bool check_bytes(const struct answer *answer, const struct expect *expect, const char *bytes,
                        size_t len, const char **error)
{
    if (answer->status != expect->status || expect->body == BODY_ANY)
        return true;
    if (answer->body_len + len > expect->len)
        return wrong(error, "more body than there is");
    for (size_t i = 0, at = answer->body_len; i < len; i++, at++) {
        char right = expect->body == BODY_PATTERN ? pattern(expect->seed, at) : expect->text[at];
        if (bytes[i] != right)
            return wrong(error, "another byte in the body");
    }
    return true;
}

static bool ends_well(const struct answer *answer, const struct expect *expect, const char **error)
{
    if (expect->cut)
        return wrong(error, "a whole body, though the handler failed in it");
    bool any = answer->status != expect->status || expect->body == BODY_ANY || expect->head;
    return any || answer->body_len == expect->len || wrong(error, "less body than there is");
}

static void take_size(struct answer *answer, char c, const char **error)
{
    if (c == '\r' && answer->line_len) {
        answer->state = SIZE_LF;
    } else if (isxdigit((unsigned char)c) && answer->line_len < 16) {
        unsigned digit = c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 32) - 'a' + 10);
        answer->chunk = answer->chunk * 16 + digit;
        answer->line_len++;
    } else {
        wrong(error, "a chunk's size is no number");
    }
}

/* One byte of a chunk's framing. True: the body is complete. */
static bool take_frame(struct answer *answer, char c, const char **error)
{
    if (answer->state == SIZE) {
        take_size(answer, c, error);
        return false;
    }
    bool cr = answer->state == CHUNK_CR || answer->state == LAST_CR;
    if (c != (cr ? '\r' : '\n'))
        return wrong(error, "bad framing of a chunk");
    switch ((enum state)answer->state) {
    case SIZE_LF:
        answer->state = answer->chunk ? CHUNK : LAST_CR;
        answer->left = answer->chunk;
        answer->chunk = 0;
        answer->line_len = 0;
        return false;
    case CHUNK_CR: answer->state = CHUNK_LF; return false;
    case CHUNK_LF: answer->state = SIZE; return false;
    case LAST_CR: answer->state = LAST_LF; return false;
    default: return true;
    }
}

static enum took take_body(struct answer *answer, const struct expect *expect, const char *bytes,
                           size_t len, size_t *used, const char **error)
{
    while (*used < len) {
        if (answer->state != BODY && answer->state != CHUNK && answer->state != TO_THE_END) {
            bool complete = take_frame(answer, bytes[(*used)++], error);
            if (*error)
                return TOOK_WRONG;
            if (complete)
                return ends_well(answer, expect, error) ? TOOK_ALL : TOOK_WRONG;
            continue;
        }
        size_t n = len - *used;
        if (answer->state != TO_THE_END && n > answer->left)
            n = (size_t)answer->left;
        if (!check_bytes(answer, expect, bytes + *used, n, error))
            return TOOK_WRONG;
        *used += n;
        answer->body_len += n;
        answer->left -= n;
        if (answer->state == BODY && !answer->left)
            return ends_well(answer, expect, error) ? TOOK_ALL : TOOK_WRONG;
        if (answer->state == CHUNK && !answer->left)
            answer->state = CHUNK_CR;
    }
    return TOOK_MORE;
}

/* ---- an answer ---- */

static enum took take_continue(struct answer *answer, const struct expect *expect,
                               const char **error)
{
    if (!expect->continue_may || answer->said_continue || answer->has_length || answer->chunked) {
        *error = "a 100 that nobody asked for, or a second, or one with fields";
        return TOOK_WRONG;
    }
    *answer = (struct answer){.said_continue = true};
    return TOOK_CONTINUE;
}

static enum took after_head(struct answer *answer, const struct expect *expect, const char **error)
{
    if (!parse_head(answer, error))
        return TOOK_WRONG;
    if (answer->status == 100)
        return take_continue(answer, expect, error);
    if (!check_head(answer, expect, error))
        return TOOK_WRONG;
    answer->state = answer->chunked ? SIZE : answer->has_length ? BODY : TO_THE_END;
    bool empty = answer->status == 204 || expect->head || (answer->state == BODY && !answer->left);
    if (!empty)
        return TOOK_MORE;
    return ends_well(answer, expect, error) ? TOOK_ALL : TOOK_WRONG;
}

enum took answer_take(struct answer *answer, const struct expect *expect, const char *bytes,
                      size_t len, size_t *used, const char **ret_error)
{
    *used = 0;
    *ret_error = NULL;
    while (answer->state == HEAD && *used < len) {
        if (answer->head_len == sizeof answer->head - 1) {
            *ret_error = "a head without an end";
            return TOOK_WRONG;
        }
        answer->head[answer->head_len++] = bytes[(*used)++];
        size_t n = answer->head_len;
        if (n < 4 || memcmp(answer->head + n - 4, "\r\n\r\n", 4) != 0)
            continue;
        enum took took = after_head(answer, expect, ret_error);
        if (took != TOOK_MORE)
            return took;
    }
    return take_body(answer, expect, bytes, len, used, ret_error);
}

const char *answer_end(const struct answer *answer, const struct expect *expect)
{
    if (expect->loose)
        return NULL;
    if (answer->state == HEAD)
        return answer->head_len ? "the connection ended in a head"
                                : "the connection ended before an answer";
    if (expect->cut)
        return NULL;
    if (answer->state != TO_THE_END)
        return "the connection ended in a body";
    return answer->body_len == expect->len ? NULL : "the connection ended before the body";
}

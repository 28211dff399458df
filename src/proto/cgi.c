/* See cgi.h. */
#include "proto/cgi.h"

#include <string.h>

#include "base/ascii.h"
#include "base/check.h"

enum { LENGTH_DIGITS = 18 };

static bool is(const char *text, size_t len, const char *name)
{
    return strlen(name) == len && ci_ascii_same_bytes(text, name, len);
}

/* Digits alone, at most `most` of them; -1: it is something else. */
static int64_t number(const char *text, size_t len, size_t most)
{
    int64_t value = 0;
    if (len == 0 || len > most)
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        value = value * 10 + (text[i] - '0');
    }
    return value;
}

/* "404 Not Found": three digits, and a reason that is not looked at. */
static int take_status(struct ci_cgi_head *head, const char *value, size_t len)
{
    if (head->has_status || len < 3 || (len > 3 && value[3] != ' '))
        return -1;
    head->status = (int)number(value, 3, 3);
    head->has_status = true;
    return head->status >= 200 ? 0 : -1; /* a 100 is the server's own */
}

/* A second field of one kind would make the answer ambiguous (RFC 3875, 6.3). */
static int take_field(struct ci_cgi_head *head, const char *bytes, struct ci_http1_field field)
{
    const char *name = bytes + field.name.at, *value = bytes + field.value.at;
    if (is(name, field.name.len, "status"))
        return take_status(head, value, field.value.len);
    if (is(name, field.name.len, "content-length")) {
        if (head->content_length >= 0)
            return -1;
        head->content_length = number(value, field.value.len, LENGTH_DIGITS);
        return head->content_length < 0 ? -1 : 0;
    }
    if (is(name, field.name.len, "location")) {
        if (head->has_location)
            return -1;
        head->has_location = true;
    }
    if (head->field_count == CI_CGI_FIELDS)
        return -1;
    head->fields[head->field_count++] = field;
    return 0;
}

static int parse_line(struct ci_cgi_head *head, const char *bytes, size_t at, size_t end)
{
    const char *colon = memchr(bytes + at, ':', end - at);
    if (!colon)
        return -1;
    size_t name_end = (size_t)(colon - bytes), value = name_end + 1, value_end = end;
    while (value < value_end && (bytes[value] == ' ' || bytes[value] == '\t'))
        value++;
    while (value_end > value && (bytes[value_end - 1] == ' ' || bytes[value_end - 1] == '\t'))
        value_end--;
    if (!ci_http1_is_token(bytes + at, name_end - at) ||
        !ci_http1_is_value(bytes + value, value_end - value))
        return -1;
    ci_check(name_end <= value && value <= value_end && value_end <= end, "cgi.h 2");
    struct ci_http1_field field = {{(uint32_t)at, (uint32_t)(name_end - at)},
                                   {(uint32_t)value, (uint32_t)(value_end - value)}};
    return take_field(head, bytes, field);
}

int ci_cgi_parse(struct ci_cgi_head *head, const char *bytes, size_t len)
{
    ci_check(head->line <= len && len <= INT32_MAX, "cgi.h 1");
    for (;;) {
        const char *feed = memchr(bytes + head->line, '\n', len - head->line);
        if (!feed)
            return 0;
        size_t at = head->line, end = (size_t)(feed - bytes);
        head->line = (uint32_t)end + 1;
        if (end > at && bytes[end - 1] == '\r')
            end--;
        if (end == at)
            break;
        if (parse_line(head, bytes, at, end) < 0)
            return -1;
    }
    if (head->field_count == 0 && !head->has_status && head->content_length < 0)
        return -1; /* at least one is required (RFC 3875, 6.2) */
    if (!head->has_status)
        head->status = head->has_location ? 302 : 200;
    return (int)head->line;
}

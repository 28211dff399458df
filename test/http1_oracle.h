/* A second parser of requests, for the first one to be compared with. It is slow, looks at whole
 * messages only, and is written from the grammars of RFC 9110, RFC 9112 and RFC 3986, which stand
 * in it as they stand there. Where coir deviates, the rule says so. */
#ifndef TEST_HTTP1_ORACLE_H
#define TEST_HTTP1_ORACLE_H

#include "abnf.h"
#include "proto/http1.h"

static const struct abnf_rule http1_rules[] = {
    /* RFC 5234, B.1 */
    {"ALPHA", "%x41-5A / %x61-7A"},
    {"DIGIT", "%x30-39"},
    {"DQUOTE", "%x22"},
    {"HEXDIG", "DIGIT / \"A\" / \"B\" / \"C\" / \"D\" / \"E\" / \"F\""},
    {"HTAB", "%x09"},
    {"SP", "%x20"},
    {"VCHAR", "%x21-7E"},
    /* RFC 3986 */
    {"unreserved", "ALPHA / DIGIT / \"-\" / \".\" / \"_\" / \"~\""},
    {"sub-delims",
     "\"!\" / \"$\" / \"&\" / \"'\" / \"(\" / \")\" / \"*\" / \"+\" / \",\" / \";\" / \"=\""},
    {"pct-encoded", "\"%\" HEXDIG HEXDIG"},
    {"pchar", "unreserved / sub-delims / \":\" / \"@\""}, /* and pct-encoded: see below */
    {"dec-octet", "DIGIT / %x31-39 DIGIT / \"1\" 2DIGIT / \"2\" %x30-34 DIGIT / \"25\" %x30-35"},
    {"IPv4address", "dec-octet \".\" dec-octet \".\" dec-octet \".\" dec-octet"},
    {"h16", "1*4HEXDIG"},
    {"ls32", "( h16 \":\" h16 ) / IPv4address"},
    {"IPv6address", "6( h16 \":\" ) ls32"
                    " / \"::\" 5( h16 \":\" ) ls32"
                    " / [ h16 ] \"::\" 4( h16 \":\" ) ls32"
                    " / [ *1( h16 \":\" ) h16 ] \"::\" 3( h16 \":\" ) ls32"
                    " / [ *2( h16 \":\" ) h16 ] \"::\" 2( h16 \":\" ) ls32"
                    " / [ *3( h16 \":\" ) h16 ] \"::\" h16 \":\" ls32"
                    " / [ *4( h16 \":\" ) h16 ] \"::\" ls32"
                    " / [ *5( h16 \":\" ) h16 ] \"::\" h16"
                    " / [ *6( h16 \":\" ) h16 ] \"::\""},
    {"IPvFuture", "\"v\" 1*HEXDIG \".\" 1*( unreserved / sub-delims / \":\" )"},
    {"IP-literal", "\"[\" ( IPv6address / IPvFuture ) \"]\""},
    {"reg-name", "*( unreserved / pct-encoded / sub-delims )"},
    {"host", "IP-literal / IPv4address / reg-name"},
    {"port", "*DIGIT"},
    /* RFC 9110 */
    {"OWS", "*( SP / HTAB )"},
    {"BWS", "OWS"},
    {"obs-text", "%x80-FF"},
    {"tchar", "\"!\" / \"#\" / \"$\" / \"%\" / \"&\" / \"'\" / \"*\" / \"+\" / \"-\" / \".\" / "
              "\"^\" / \"_\" / \"`\" / \"|\" / \"~\" / "
              "DIGIT / ALPHA"},
    {"token", "1*tchar"},
    {"qdtext", "HTAB / SP / %x21 / %x23-5B / %x5D-7E / obs-text"},
    {"quoted-pair", "%x5C ( HTAB / SP / VCHAR / obs-text )"},
    {"quoted-string", "DQUOTE *( qdtext / quoted-pair ) DQUOTE"},
    {"field-name", "token"},
    {"field-vchar", "VCHAR / obs-text"},
    {"field-content", "field-vchar [ 1*( SP / HTAB / field-vchar ) field-vchar ]"},
    {"field-value", "*field-content"},
    {"Content-Length", "1*18DIGIT"}, /* coir's limit: what an int64_t can hold */
    {"Host-value", "[ \":\" port ] / host [ \":\" port ]"},
    /* RFC 9112 */
    {"method", "token"},
    {"HTTP-version", "%x48 %x54 %x54 %x50 \"/1.\" DIGIT"}, /* of HTTP/1 */
    {"field-line", "field-name \":\" OWS field-value OWS"},
    {"chunk-size", "1*16HEXDIG"}, /* coir's limit */
    {"chunk-ext", "*( BWS \";\" BWS token [ BWS \"=\" BWS ( token / quoted-string ) ] )"},
    {"chunk-line", "chunk-size [ chunk-ext ]"},
    /* coir: what browsers do not escape is let pass; a path's escapes can be decoded to a string, a
       query's are its reader's business */
    {"tolerated", "\"[\" / \"]\" / \"{\" / \"|\" / \"}\""},
    {"escape", "\"%\" ( \"0\" ( %x31-39 / \"A\" / \"B\" / \"C\" / \"D\" / \"E\" / \"F\" )"
               " / ( %x31-39 / \"A\" / \"B\" / \"C\" / \"D\" / \"E\" / \"F\" ) HEXDIG )"},
    {"path-abempty", "*( \"/\" *( pchar / escape / tolerated ) )"},
    {"query", "*( pchar / \"/\" / \"?\" / \"%\" / tolerated )"},
    {NULL, NULL},
};

static inline bool is_rule(const char *rule, const char *text, size_t len)
{
    return abnf_matches(http1_rules, rule, text, len);
}

struct oracle {
    const char *base;
    struct ci_http1_head head; /* as the parser is to fill it in */
    int hosts, lengths, encodings;
    bool expects_other;
};

static inline struct ci_span oracle_span(const struct oracle *oracle, const char *at, size_t len)
{
    return (struct ci_span){(uint32_t)(at - oracle->base), (uint32_t)len};
}

static inline bool says(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && strncasecmp(text, word, len) == 0;
}

/* uri-host [ ":" port ], where the host may be empty in Host alone, and then has no port (RFC
 * 9110, 4.2.1). */
static inline bool oracle_authority(const char *text, size_t len, bool port_needed)
{
    if (len == 0 || *text == ':' || !is_rule("Host-value", text, len))
        return false;
    const char *colon = NULL;
    for (size_t i = 0; i < len; i++)
        if (text[i] == ':' && (*text != '[' || memchr(text, ']', i)))
            colon = text + i;
    if (!port_needed)
        return true;
    size_t digits = colon ? (size_t)(text + len - colon - 1) : 0;
    while (digits > 1 && colon[1] == '0') {
        colon++;
        digits--;
    }
    long port = digits > 0 && digits < 6 ? atol(colon + 1) : -1;
    return port > 0 && port < 65536;
}

static inline bool oracle_path(struct oracle *oracle, const char *text, size_t len)
{
    const char *question = memchr(text, '?', len);
    size_t path = question ? (size_t)(question - text) : len;
    oracle->head.path = oracle_span(oracle, text, path);
    if (question)
        oracle->head.query = oracle_span(oracle, question + 1, len - path - 1);
    return is_rule("path-abempty", text, path) &&
           (!question || is_rule("query", question + 1, len - path - 1));
}

static inline bool oracle_target(struct oracle *oracle, const char *text, size_t len)
{
    const char *method = oracle->base + oracle->head.method.at;
    size_t method_len = oracle->head.method.len;
    oracle->head.target = oracle->head.path = oracle_span(oracle, text, len);
    if (method_len == 7 && memcmp(method, "CONNECT", 7) == 0) {
        oracle->head.form = CI_TARGET_AUTHORITY;
        oracle->head.path.len = 0;
        return oracle_authority(text, len, true);
    }
    if (len > 0 && *text == '/') {
        oracle->head.form = CI_TARGET_ORIGIN;
        return oracle_path(oracle, text, len);
    }
    if (len == 1 && *text == '*') {
        oracle->head.form = CI_TARGET_ASTERISK;
        return method_len == 7 && memcmp(method, "OPTIONS", 7) == 0;
    }
    size_t scheme = len > 7 && strncasecmp(text, "http://", 7) == 0    ? 7
                    : len > 8 && strncasecmp(text, "https://", 8) == 0 ? 8
                                                                       : 0;
    if (!scheme)
        return false;
    size_t host = 0;
    while (scheme + host < len && text[scheme + host] != '/' && text[scheme + host] != '?')
        host++;
    oracle->head.form = CI_TARGET_ABSOLUTE;
    oracle->head.host = oracle_span(oracle, text + scheme, host);
    return oracle_authority(text + scheme, host, false) &&
           oracle_path(oracle, text + scheme + host, len - scheme - host);
}

static inline bool oracle_request_line(struct oracle *oracle, const char *line, size_t len)
{
    const char *first = memchr(line, ' ', len);
    if (!first)
        return false;
    const char *last = line + len - 1;
    while (*last != ' ')
        last--;
    if (last == first || !is_rule("method", line, (size_t)(first - line)))
        return false;
    oracle->head.method = oracle_span(oracle, line, (size_t)(first - line));
    if (!is_rule("HTTP-version", last + 1, (size_t)(line + len - last - 1)))
        return false;
    oracle->head.minor_version = line[len - 1] == '0' ? 0 : 1;
    return oracle_target(oracle, first + 1, (size_t)(last - first - 1));
}

static inline void oracle_connection(struct oracle *oracle, const char *text, size_t len)
{
    for (size_t at = 0; at <= len;) {
        const char *comma = memchr(text + at, ',', len - at);
        size_t end = comma ? (size_t)(comma - text) : len, from = at, to = end;
        while (from < to && (text[from] == ' ' || text[from] == '\t'))
            from++;
        while (to > from && (text[to - 1] == ' ' || text[to - 1] == '\t'))
            to--;
        oracle->head.says_close |= says(text + from, to - from, "close");
        oracle->head.says_keep_alive |= says(text + from, to - from, "keep-alive");
        at = end + 1;
    }
}

static inline bool oracle_field(struct oracle *oracle, const char *line, size_t len)
{
    if (!is_rule("field-line", line, len) || oracle->head.field_count == CI_HTTP1_FIELDS)
        return false;
    const char *colon = memchr(line, ':', len), *value = colon + 1, *end = line + len;
    size_t name = (size_t)(colon - line);
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    size_t value_len = (size_t)(end - value);
    oracle->head.fields[oracle->head.field_count++] = (struct ci_http1_field){
        oracle_span(oracle, line, name), oracle_span(oracle, value, value_len)};
    if (says(line, name, "host")) {
        oracle->hosts++;
        if (oracle->head.form != CI_TARGET_ABSOLUTE)
            oracle->head.host = oracle_span(oracle, value, value_len);
        return value_len == 0 || oracle_authority(value, value_len, false);
    }
    if (says(line, name, "content-length")) {
        oracle->lengths++;
        if (!is_rule("Content-Length", value, value_len))
            return false;
        oracle->head.content_length = strtoll(value, NULL, 10); /* ends before the line does */
        return true;
    }
    if (says(line, name, "transfer-encoding")) {
        oracle->encodings++;
        oracle->head.chunked = true;
        return says(value, value_len, "chunked"); /* others are not understood */
    }
    if (says(line, name, "expect")) {
        oracle->head.expects_continue = true;
        return says(value, value_len, "100-continue");
    }
    if (says(line, name, "connection"))
        oracle_connection(oracle, value, value_len);
    return true;
}

static inline bool oracle_finish(struct oracle *oracle)
{
    struct ci_http1_head *head = &oracle->head;
    bool old = head->minor_version == 0;
    if (oracle->hosts > 1 || (oracle->hosts == 0 && !old) || oracle->lengths > 1 ||
        oracle->encodings > 1)
        return false;
    if (oracle->encodings && (oracle->lengths || old))
        return false;
    head->expects_continue &= !old;
    head->keep_alive = !head->says_close && (!old || head->says_keep_alive);
    return true;
}

/* The head at the beginning of the text: its length when it is whole and valid, otherwise 0. */
static inline size_t oracle_parse(struct oracle *oracle, const struct ci_http1_limits *limits,
                                  const char *text, size_t len)
{
    memset(oracle, 0, sizeof *oracle);
    oracle->base = text;
    oracle->head.content_length = -1;
    bool request_line = false;
    for (size_t at = 0; at < len;) {
        const char *end = memmem(text + at, len - at, "\r\n", 2);
        size_t line = end ? (size_t)(end - text) - at : 0, next = at + line + 2;
        if (!end || next > limits->head_max)
            return 0;
        if (line == 0 && request_line)
            return oracle_finish(oracle) ? next : 0;
        if (line > 0 && !request_line) {
            if (line > limits->line_max || !oracle_request_line(oracle, text + at, line))
                return 0;
            request_line = true;
        } else if (line > 0 && !oracle_field(oracle, text + at, line)) {
            return 0;
        }
        at = next;
    }
    return 0;
}

/* A chunked body at the beginning of the text: its decoded length with the content in `out`, and
 * *ret_used bytes of the text; -1 when it is not whole and valid. For texts that are too short to
 * reach the limit on framing. */
static inline int64_t oracle_decode(const char *text, size_t len, char *out, size_t *ret_used)
{
    int64_t got = 0;
    size_t at = 0;
    bool last = false;
    for (;;) {
        const char *end = memmem(text + at, len - at, "\r\n", 2);
        if (!end)
            return -1;
        size_t line = (size_t)(end - text) - at, next = at + line + 2;
        if (last && line == 0) {
            *ret_used = next;
            return got;
        }
        if (!is_rule(last ? "field-line" : "chunk-line", text + at, line))
            return -1;
        unsigned long long size = last ? 0 : strtoull(text + at, NULL, 16);
        at = next;
        if (last || (last = size == 0))
            continue;
        if (size > len - at || len - at - size < 2 || memcmp(text + at + size, "\r\n", 2) != 0)
            return -1;
        memcpy(out + got, text + at, size);
        got += (int64_t)size;
        at += size + 2;
    }
}

#endif

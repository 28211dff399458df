/* See fastcgi_variables.h. The numbers in comments are sections of RFC 3875. */
#include "web/fastcgi_variables.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/ascii.h"

/* A variable, or the error of the one before. */
static int put(struct ci_fcgi_output *output, int rc, const char *name, const char *value,
               size_t len)
{
    return rc < 0 ? rc : ci_fcgi_output_variable(output, name, value, len);
}

static int put_text(struct ci_fcgi_output *output, int rc, const char *name, const char *value)
{
    return put(output, rc, name, value, strlen(value));
}

static int put_span(struct ci_fcgi_output *output, int rc, const char *name, const char *bytes,
                    struct ci_span span)
{
    return put(output, rc, name, bytes + span.at, span.len);
}

/* ---- the two ends of the connection ---- */

/* "127.0.0.1:80" or "[::1]:80" in its parts; of a Unix socket "unix:", as web servers say, and no
 * port. */
struct end {
    char text[128];
    const char *host, *port;
};

static void split(struct end *end, int rc)
{
    char *colon = rc < 0 ? NULL : strrchr(end->text, ':');
    end->port = "";
    end->host = "unix:";
    if (!colon || strncmp(end->text, "unix:", 5) == 0)
        return;
    *colon = '\0';
    end->port = colon + 1;
    end->host = end->text;
    if (*end->text == '[' && colon[-1] == ']') {
        colon[-1] = '\0';
        end->host++;
    }
}

/* The host of a Host field, without its port; IPv6 numbers keep their brackets (4.1.14). */
static struct ci_span host_of(const char *bytes, struct ci_span host)
{
    const char *at = bytes + host.at;
    for (uint32_t i = host.len; i-- > 0 && at[i] != ']';)
        if (at[i] == ':')
            return (struct ci_span){host.at, i};
    return host;
}

static int put_ends(struct ci_fcgi_output *output, const struct ci_exchange *exchange,
                    const coir_fastcgi_options *options)
{
    const char *bytes = ci_http_input_request(&exchange->in);
    const struct ci_http1_head *head = &exchange->head;
    struct end peer, local;
    split(&peer, coir_stream_peer(exchange->in.stream, peer.text, sizeof peer.text));
    split(&local, coir_stream_local(exchange->in.stream, local.text, sizeof local.text));
    int rc = put_text(output, 0, "REMOTE_ADDR", peer.host);
    rc = put_text(output, rc, "REMOTE_PORT", peer.port);
    rc = put_text(output, rc, "SERVER_ADDR", local.host);
    rc = put_text(output, rc, "SERVER_PORT", local.port);
    if (options->server_name)
        return put_text(output, rc, "SERVER_NAME", options->server_name);
    return head->host.len ? put_span(output, rc, "SERVER_NAME", bytes, host_of(bytes, head->host))
                          : put_text(output, rc, "SERVER_NAME", local.host);
}

/* ---- header fields: HTTP_NAME (4.1.18) ---- */

static bool same_name(const char *bytes, struct ci_span a, struct ci_span b)
{
    return a.len == b.len && ci_ascii_same_bytes(bytes + a.at, bytes + b.at, a.len);
}

static bool is_named(const char *bytes, struct ci_span name, const char *what)
{
    return strlen(what) == name.len && ci_ascii_same_bytes(bytes + name.at, what, name.len);
}

/* Fields that are variables of their own, that the server has undone, or that would be taken for a
 * variable of another meaning: "Proxy" would be HTTP_PROXY (httpoxy), and "X_Real" would pass for
 * the "X-Real" of a proxy that is trusted. */
static bool is_left_out(const char *bytes, struct ci_span name)
{
    static const char *const names[] = {"content-type", "content-length", "transfer-encoding",
                                        "host", "proxy"};
    for (size_t i = 0; i < ci_countof(names); i++)
        if (is_named(bytes, name, names[i]))
            return true;
    for (uint32_t i = 0; i < name.len; i++)
        if (!ci_ascii_is_alnum(bytes[name.at + i]) && bytes[name.at + i] != '-')
            return true;
    return false;
}

static int put_name(struct ci_fcgi_output *output, const char *bytes, struct ci_span name)
{
    char piece[64];
    int rc = ci_fcgi_output_put(output, "HTTP_", 5);
    for (uint32_t at = 0, n; rc == 0 && at < name.len; at += n) {
        n = name.len - at < sizeof piece ? name.len - at : (uint32_t)sizeof piece;
        for (uint32_t i = 0; i < n; i++) {
            char c = bytes[name.at + at + i];
            piece[i] = c == '-' ? '_' : ci_ascii_upper(c);
        }
        rc = ci_fcgi_output_put(output, piece, n);
    }
    return rc;
}

/* All fields of the name of field `i`, as one list. */
static int put_field(struct ci_fcgi_output *output, const struct ci_http1_head *head,
                     const char *bytes, uint32_t i)
{
    struct ci_span name = head->fields[i].name;
    const char *separator = is_named(bytes, name, "cookie") ? "; " : ", ";
    unsigned char lengths[CI_FCGI_LENGTHS_MAX];
    size_t len = head->fields[i].value.len;
    for (uint32_t j = i + 1; j < head->field_count; j++)
        if (same_name(bytes, name, head->fields[j].name))
            len += 2 + head->fields[j].value.len;
    size_t n = (size_t)(ci_fcgi_put_lengths(lengths, 5 + name.len, len) - lengths);
    int rc = ci_fcgi_output_put(output, lengths, n);
    rc = rc < 0 ? rc : put_name(output, bytes, name);
    for (uint32_t j = i; rc == 0 && j < head->field_count; j++) {
        struct ci_span value = head->fields[j].value;
        if (!same_name(bytes, name, head->fields[j].name))
            continue;
        rc = j > i ? ci_fcgi_output_put(output, separator, 2) : 0;
        rc = rc < 0 ? rc : ci_fcgi_output_put(output, bytes + value.at, value.len);
    }
    return rc;
}

static int put_fields(struct ci_fcgi_output *output, const struct ci_exchange *exchange)
{
    const struct ci_http1_head *head = &exchange->head;
    const char *bytes = ci_http_input_request(&exchange->in);
    int rc = head->host.len ? put_span(output, 0, "HTTP_HOST", bytes, head->host) : 0;
    for (uint32_t i = 0; rc == 0 && i < head->field_count; i++) {
        bool again = false;
        for (uint32_t j = 0; j < i && !again; j++)
            again = same_name(bytes, head->fields[i].name, head->fields[j].name);
        if (!again && !is_left_out(bytes, head->fields[i].name))
            rc = put_field(output, head, bytes, i);
    }
    return rc;
}

/* ---- the request and the script ---- */

/* The path and the query as they were sent, also of a target in absolute form, whose path may be
 * empty. */
static int put_uri(struct ci_fcgi_output *output, int rc, const struct ci_http1_head *head,
                   const char *bytes)
{
    static const char name[] = "REQUEST_URI";
    struct ci_span uri = head->path;
    bool empty = uri.len == 0;
    unsigned char lengths[CI_FCGI_LENGTHS_MAX];
    if (head->query.at == uri.at + uri.len + 1)
        uri.len += 1 + head->query.len;
    unsigned char *end = ci_fcgi_put_lengths(lengths, sizeof name - 1, empty + (size_t)uri.len);
    rc = rc < 0 ? rc : ci_fcgi_output_put(output, lengths, (size_t)(end - lengths));
    rc = rc < 0 ? rc : ci_fcgi_output_put(output, name, sizeof name - 1);
    rc = rc < 0 ? rc : ci_fcgi_output_put(output, "/", empty);
    return rc < 0 ? rc : ci_fcgi_output_put(output, bytes + uri.at, uri.len);
}

static int put_request(struct ci_fcgi_output *output, const struct ci_exchange *exchange,
                       int64_t body_len)
{
    const struct ci_http1_head *head = &exchange->head;
    const char *bytes = ci_http_input_request(&exchange->in);
    const struct ci_http1_field *type = ci_http1_find(head, bytes, "content-type", 12);
    bool secure = exchange->server->options->layer != NULL;
    char number[24];
    int rc = put_span(output, 0, "REQUEST_METHOD", bytes, head->method);
    rc = put_span(output, rc, "QUERY_STRING", bytes, head->query);
    rc = put_uri(output, rc, head, bytes);
    rc = put_text(output, rc, "SERVER_PROTOCOL", head->minor_version ? "HTTP/1.1" : "HTTP/1.0");
    rc = put_text(output, rc, "REQUEST_SCHEME", secure ? "https" : "http");
    if (secure)
        rc = put_text(output, rc, "HTTPS", "on");
    if (type)
        rc = put_span(output, rc, "CONTENT_TYPE", bytes, type->value);
    if (body_len >= 0) {
        snprintf(number, sizeof number, "%" PRId64, body_len);
        rc = put_text(output, rc, "CONTENT_LENGTH", number);
    }
    return rc;
}

/* PATH_TRANSLATED is what PATH_INFO would name below the root (4.1.6). */
static int put_path_info(struct ci_fcgi_output *output, int rc, const coir_fastcgi_script *script)
{
    static const char name[] = "PATH_TRANSLATED";
    unsigned char lengths[CI_FCGI_LENGTHS_MAX];
    rc = put_text(output, rc, "PATH_INFO", script->path_info);
    if (!script->root || rc < 0)
        return rc;
    size_t root_len = strlen(script->root), len = strlen(script->path_info);
    unsigned char *end = ci_fcgi_put_lengths(lengths, sizeof name - 1, root_len + len);
    rc = ci_fcgi_output_put(output, lengths, (size_t)(end - lengths));
    rc = rc < 0 ? rc : ci_fcgi_output_put(output, name, sizeof name - 1);
    rc = rc < 0 ? rc : ci_fcgi_output_put(output, script->root, root_len);
    return rc < 0 ? rc : ci_fcgi_output_put(output, script->path_info, len);
}

static int put_script(struct ci_fcgi_output *output, const coir_fastcgi_script *script)
{
    int rc = put_text(output, 0, "GATEWAY_INTERFACE", "CGI/1.1");
    rc = put_text(output, rc, "SERVER_SOFTWARE", "coir");
    rc = put_text(output, rc, "REDIRECT_STATUS", "200"); /* php-cgi asks for it */
    rc = put_text(output, rc, "SCRIPT_FILENAME", script->filename);
    rc = put_text(output, rc, "SCRIPT_NAME", script->name);
    if (script->root)
        rc = put_text(output, rc, "DOCUMENT_ROOT", script->root);
    return script->path_info && *script->path_info ? put_path_info(output, rc, script) : rc;
}

/* Last, so that the program's own replace what is there. */
static int put_own(struct ci_fcgi_output *output, const char *const *variables)
{
    int rc = 0;
    for (; rc == 0 && variables && *variables; variables++) {
        const char *equals = strchr(*variables, '=');
        unsigned char lengths[CI_FCGI_LENGTHS_MAX];
        size_t name_len = (size_t)(equals - *variables), value_len = strlen(equals + 1);
        unsigned char *end = ci_fcgi_put_lengths(lengths, name_len, value_len);
        rc = ci_fcgi_output_put(output, lengths, (size_t)(end - lengths));
        rc = rc < 0 ? rc : ci_fcgi_output_put(output, *variables, name_len);
        rc = rc < 0 ? rc : ci_fcgi_output_put(output, equals + 1, value_len);
    }
    return rc;
}

int ci_fcgi_put_variables(struct ci_fcgi_output *output, const struct ci_exchange *exchange,
                          const coir_fastcgi_options *options, const coir_fastcgi_script *script,
                          int64_t body_len)
{
    int rc = put_script(output, script);
    rc = rc < 0 ? rc : put_request(output, exchange, body_len);
    rc = rc < 0 ? rc : put_ends(output, exchange, options);
    rc = rc < 0 ? rc : put_fields(output, exchange);
    return rc < 0 ? rc : put_own(output, options->variables);
}

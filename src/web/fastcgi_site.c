/* The handler of a directory of scripts: which script a path leads to, and nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "coir/dir.h"
#include "proto/url_decode.h"
#include "web/exchange.h"
#include "web/fastcgi.h"

enum found { NO_SCRIPT, SCRIPT, DIRECTORY };

/* What a path leads to. */
struct found_script {
    char *file;      /* its path, with room for the index behind */
    size_t root_len; /* of it, with the slash */
    char *rest;      /* of the URL's path, decoded; the same bytes are in `file` */
    size_t len;      /* how much of it names the script */
};

static int not_found(coir_response *res)
{
    return coir_respond_text(res, 404, "404 Not Found\n");
}

/* An escaped slash is data: no name on a disk has it. */
static bool has_escaped_slash(const char *raw, size_t len)
{
    for (size_t i = 0; i + 2 < len; i++)
        if (raw[i] == '%' && raw[i + 1] == '2' && (raw[i + 2] | 0x20) == 'f')
            return true;
    return false;
}

static bool ends_with(const char *text, size_t len, const char *suffix)
{
    size_t suffix_len = strlen(suffix);
    return len > suffix_len && memcmp(text + len - suffix_len, suffix, suffix_len) == 0;
}

/* What the first `len` bytes of `rest` name: a mode of stat(2), 0 nothing. A link is told as a
 * link. */
static int mode_of(struct found_script *found, size_t len, mode_t *ret_mode)
{
    struct stat stat;
    char *end = found->file + found->root_len + len, kept = *end;
    *end = '\0';
    int rc = coir_dir_stat(NULL, found->file, AT_SYMLINK_NOFOLLOW, &stat);
    *end = kept;
    *ret_mode = rc == 0 ? stat.st_mode : 0;
    bool absent = rc == -ENOENT || rc == -ENOTDIR || rc == -EACCES || rc == -ENAMETOOLONG;
    return absent ? 0 : rc;
}

/* Appends the index to a directory, whose path ends with a slash. */
static int find_index(struct found_script *found, const char *index, enum found *ret_found)
{
    mode_t mode;
    size_t at = strlen(found->rest), len = strlen(index);
    memcpy(found->rest + at, index, len + 1);
    memcpy(found->file + found->root_len + at, index, len + 1);
    found->len = at + len;
    int rc = mode_of(found, found->len, &mode);
    *ret_found = S_ISREG(mode) ? SCRIPT : NO_SCRIPT;
    return rc;
}

/* Walks down, segment by segment, to the first thing that is no directory. */
static int find(struct found_script *found, const coir_fastcgi_options *options,
                enum found *ret_found)
{
    *ret_found = NO_SCRIPT;
    for (size_t at = 0; found->rest[at];) {
        mode_t mode;
        size_t end = at + strcspn(found->rest + at, "/");
        if (end == at || found->rest[at] == '.')
            return 0; /* "..", and files that are hidden */
        int rc = mode_of(found, end, &mode);
        if (rc < 0)
            return rc;
        if (S_ISREG(mode) && ends_with(found->rest + at, end - at, options->suffix)) {
            found->len = end;
            *ret_found = SCRIPT;
        }
        if (!S_ISDIR(mode))
            return 0;
        if (!found->rest[end]) {
            *ret_found = DIRECTORY;
            return 0;
        }
        at = end + 1;
    }
    return find_index(found, options->index, ret_found);
}

/* A directory's URL ends with a slash: relative links in its pages would lead elsewhere. */
static int redirect_to_slash(coir_request *req, coir_response *res)
{
    const struct ci_http_target *target = &req->exchange->target;
    char *uri = coir_request_alloc(req, target->path_len + target->query_len + 3), *at = uri;
    if (!uri)
        return -ENOMEM;
    memcpy(at, target->path, target->path_len);
    at += target->path_len;
    *at++ = '/';
    if (target->query_len) {
        *at++ = '?';
        memcpy(at, target->query, target->query_len);
        at += target->query_len;
    }
    *at = '\0';
    int rc = coir_response_add_header(res, "Location", uri);
    return rc < 0 ? rc : coir_respond_text(res, 301, "301 Moved Permanently\n");
}

static int pass(coir_request *req, coir_response *res, const struct ci_fcgi_site *site,
                struct found_script *found, const char *raw, size_t prefix_len)
{
    coir_fastcgi_script script = COIR_FASTCGI_SCRIPT;
    char *name = coir_request_alloc(req, prefix_len + found->len + 1);
    if (!name)
        return -ENOMEM;
    ci_url_decode(name, raw, prefix_len, false); /* the route has matched it: it is valid */
    strncat(name, found->rest, found->len);
    found->file[found->root_len + found->len] = '\0';
    script.filename = found->file;
    script.name = name;
    script.path_info = found->rest + found->len;
    script.root = site->root;
    return coir_fastcgi_pass(site->client, req, res, &script);
}

static int serve_script(coir_request *req, coir_response *res, void *arg)
{
    const struct ci_fcgi_site *site = arg;
    const coir_fastcgi_options *options = &site->client->options;
    const struct ci_match *match = &req->exchange->match;
    struct ci_span span = match->params[match->param_count - 1].value;
    const char *path = req->exchange->target.path, *raw = path + span.at;
    struct found_script found = {.root_len = strlen(site->root) + 1};
    size_t room = span.len + strlen(options->index) + 1;
    enum found what;
    found.rest = coir_request_alloc(req, room);
    found.file = coir_request_alloc(req, found.root_len + room);
    if (!found.rest || !found.file)
        return -ENOMEM;
    if (has_escaped_slash(raw, span.len) || !ci_url_decode(found.rest, raw, span.len, false))
        return not_found(res);
    memcpy(found.file, site->root, found.root_len - 1);
    found.file[found.root_len - 1] = '/';
    memcpy(found.file + found.root_len, found.rest, strlen(found.rest) + 1);
    int rc = find(&found, options, &what);
    if (rc < 0)
        return rc;
    if (what == DIRECTORY)
        return redirect_to_slash(req, res);
    return what == SCRIPT ? pass(req, res, site, &found, path, span.at) : not_found(res);
}

/* ---- the routes ---- */

static struct ci_fcgi_site *new_site(coir_fastcgi *client, const char *root)
{
    size_t len = strlen(root);
    while (len > 1 && root[len - 1] == '/')
        len--;
    struct ci_fcgi_site *site = ci_alloc_zero(&client->allocator, sizeof *site + len + 1);
    if (!site)
        return NULL;
    site->client = client;
    site->size = sizeof *site + len + 1;
    memcpy(site->root, root, len);
    site->next = client->sites;
    client->sites = site;
    return site;
}

int coir_route_fastcgi(coir_router *router, const char *pattern, coir_fastcgi *client,
                       const char *root)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
    if (ci_forked())
        return -COIR_EFORKED;
    if (!router || !pattern || !client || !root)
        return CI_MISUSE(-EINVAL, "router, pattern, client or root is NULL");
    size_t len = strlen(pattern);
    if (!*root || len < 4 || strcmp(pattern + len - 4, "...}") != 0)
        return -EINVAL;
    struct ci_fcgi_site *site = new_site(client, root);
    int rc = site ? 0 : -ENOMEM;
    for (size_t i = 0; rc == 0 && i < ci_countof(methods); i++)
        rc = coir_route(router, methods[i], pattern, serve_script, site);
    return rc;
}

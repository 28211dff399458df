/* A client of FastCGI applications, such as php-fpm: requests of an HTTP server (coir/web.h) are
 * answered by scripts.
 *
 *   coir_fastcgi *php;
 *   coir_fastcgi_new("unix:/run/php/php8.2-fpm.sock", &php);
 *   coir_route_fastcgi(router, "/{path...}", php, "/srv/www");
 *
 * Body and answer are streamed, both at the same time, in three buffers of 16 KiB: a script gets
 * the body as it comes, and a client that is slow makes its script wait. Connections are kept open
 * for later requests, where the application allows it, and are shared by all workers. */
#ifndef COIR_FASTCGI_H
#define COIR_FASTCGI_H

#include <coir/web.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A client of one application. It is made by coir_fastcgi_new. */
typedef struct coir_fastcgi coir_fastcgi;

/* Options of a client. What they point at is borrowed until coir_fastcgi_free. */
typedef struct coir_fastcgi_options {
    size_t size;         /* sizeof(coir_fastcgi_options), set by COIR_FASTCGI_OPTIONS */
    const char *address; /* of the application: any that coir_tcp_connect takes */
    /* [64] connections at a time, of all workers, with those that are kept: at most 65536. More
     * requests wait for their turn. For php-fpm: not more than the processes that it may have. */
    size_t connections_max;
    /* [10 s; COIR_NEVER: none] for a turn (then 503) and a connection (then 504) */
    coir_time connect_timeout;
    /* [60 s; COIR_NEVER: none] without the application sending or taking a byte: then 504 */
    coir_time answer_timeout;
    coir_time idle_timeout; /* [10 s; COIR_NEVER: none] a kept connection is closed after it */
    bool one_request;       /* [false] connections are closed after a request, not kept */
    /* [false: such a client has left] a client that closes its direction behind its request still
     * gets its answer */
    bool ignore_end;
    /* [128 KiB] a body in chunks is read into memory, for scripts must know its length: past it
     * 411 */
    size_t chunked_max;
    const char *server_name; /* [the host that the request names] SERVER_NAME */
    const char *index;       /* ["index.php"] the script of a directory */
    const char *suffix;      /* [".php"] how names of scripts end */
    /* [none] more variables for every script, as "NAME=value"; a NULL is behind the last */
    const char *const *variables;
    /* [none: such an answer is 502] the routes that an answer's X-Accel-Redirect leads to. Clients
     * do not reach them, unless a server serves them too. */
    coir_router *internal;
    const coir_allocator *allocator; /* [the runtime's] copied */
} coir_fastcgi_options;

#define COIR_FASTCGI_OPTIONS                                                           \
    {                                                                                  \
        sizeof(coir_fastcgi_options), 0, 0, 0, 0, 0, false, false, 0, 0, 0, 0, 0, 0, 0 \
    }

/* Makes a client of the application at `address`. It connects when a request needs it.
 * Suspends: no.  Threads: worker.  Owns: `address` is borrowed until coir_fastcgi_free;
 * *ret_client is the caller's to free.
 * Errors: -EINVAL no address or no ret_client; -ENOMEM; those of coir_go. */
COIR_API int coir_fastcgi_new(const char *address, coir_fastcgi **ret_client);

/* Makes a client with options. As coir_fastcgi_new.
 * Errors also: -EINVAL a negative time, too many connections, or a variable without "=";
 * -COIR_EUNSIZED; -COIR_ENEWER. */
COIR_API int coir_fastcgi_new_with(const coir_fastcgi_options *options, coir_fastcgi **ret_client);

/* Frees a client that no request uses any more, and closes its connections. Takes NULL.
 * Suspends: no.  Threads: worker. */
COIR_API void coir_fastcgi_free(coir_fastcgi *client);

/* What a request is to be answered by. Initialise it with COIR_FASTCGI_SCRIPT. */
typedef struct coir_fastcgi_script {
    size_t size;           /* sizeof(coir_fastcgi_script), set by COIR_FASTCGI_SCRIPT */
    const char *filename;  /* SCRIPT_FILENAME: its path, as the application sees it */
    const char *name;      /* SCRIPT_NAME: the part of the URL's path that names it, decoded */
    const char *path_info; /* [none] PATH_INFO: what follows of the URL's path, decoded */
    const char *root;      /* [none] DOCUMENT_ROOT */
} coir_fastcgi_script;

#define COIR_FASTCGI_SCRIPT                     \
    {                                           \
        sizeof(coir_fastcgi_script), 0, 0, 0, 0 \
    }

/* Answers a request by a script: passes its head (RFC 3875) and its body on, and streams the
 * answer. To be called in the handler of the request, instead of coir_respond.
 *
 * An application that cannot be reached, breaks the protocol, sends no header or ends too early is
 * answered by 502, one that is overloaded by 503, one that does not answer in time by 504; what was
 * wrong, and what the script has written to its stderr, is logged. If the answer has begun by then,
 * it is cut off. A client that leaves, also by closing its direction once its body has come,
 * and a deadline abort the script: FCGI_ABORT_REQUEST, and the
 * connection is closed. A request is sent once more, if its connection was a kept one that turns
 * out to be closed, and that is safe: nothing of it was sent, or it is a GET, HEAD, OPTIONS or
 * TRACE without a body.
 *
 * Suspends: yes.  Threads: owner of the request.
 * Errors: -EINVAL no client, request, response, script, or a script without filename or name;
 * -EALREADY the answer has begun; -EXDEV; those of coir_request_read and coir_response_write;
 * -COIR_EEND and -COIR_EPROTOCOL the answer was cut off, and others of coir_read.
 * Cancel safety: an unknown part has been sent; the connection ends after the handler. */
COIR_SUSPENDS int coir_fastcgi_pass(coir_fastcgi *client, coir_request *req, coir_response *res,
                                    const coir_fastcgi_script *script);

/* Adds routes, one for each method, that answer by the scripts below the directory `root`.
 * `pattern` ends with a parameter for the rest of the path, as "/app/{path...}", which is looked up
 * below `root`: directories are passed through, and the first that is none must be a regular file
 * whose name ends with `suffix` of the options. That is the script; what follows is its PATH_INFO.
 * A directory is answered by `index` in it, or by 301 if its slash is missing. Anything else is
 * 404: names that begin with a dot, empty segments, slashes that are escaped, symbolic links below
 * `root` (that may be one itself), and files that are no scripts. Static files are not served.
 * Suspends: no.  Threads: worker.  Owns: `root` is copied; the client is borrowed as long as the
 * router is used.
 * Errors: -EINVAL no router, client or root, or the pattern does not end so; those of coir_route:
 * some routes may have been added then. */
COIR_API int coir_route_fastcgi(coir_router *router, const char *pattern, coir_fastcgi *client,
                                const char *root);

#ifdef __cplusplus
}
#endif

#endif

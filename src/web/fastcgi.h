/* The client of a FastCGI application, as the files that pass requests on see it.
 *
 * 1. Connections in use and connections kept are never more than connections_max: a request first
 *    takes a turn, and connects only when none is kept.
 * 2. Nothing is kept while a new connection has not been heard of. The application may be one that
 *    serves a connection until its end, as each process of php-fpm does: what is kept would hold a
 *    process, and the new connection would wait in the backlog for it.
 * 3. A kept stream belongs to no worker (it is detached), unless there is only one.
 */
#ifndef CI_WEB_FASTCGI_H
#define CI_WEB_FASTCGI_H

#include "coir/event.h"
#include "coir/fastcgi.h"
#include "coir/semaphore.h"
#include "sys/lock.h"

struct ci_fcgi_kept {
    coir_stream *stream;
    coir_time until; /* when it is closed */
};

/* A directory that routes lead to. */
struct ci_fcgi_site {
    struct ci_fcgi_site *next;
    coir_fastcgi *client;
    size_t size; /* of this memory, with the text behind it */
    char root[];
};

struct coir_fastcgi {
    coir_fastcgi_options options; /* complete */
    coir_allocator allocator;
    coir_semaphore turns;
    coir_event changed; /* for the keeper: something is kept, or the client is freed */
    struct ci_fcgi_site *sites;
    bool shared; /* more than one worker */
    size_t
        *counted_in; /* fastcgi_max of the worker that made it: connections_max is part of that */

    struct ci_lock lock; /* of what follows */
    bool freed;
    unsigned references; /* the owner's and the keeper's */
    size_t unheard;      /* new connections in use from which nothing has come */
    size_t kept_count;
    struct ci_fcgi_kept kept[]; /* the oldest first */
};

/* A connection in use. */
struct ci_fcgi_connection {
    coir_stream *stream; /* NULL: there is none, nor a turn */
    bool reused;         /* it was kept */
    bool unheard;        /* it is new, and nothing has come from it */
};

/* Takes a turn, and a kept connection or a new one. 0, -EAGAIN there was no turn in time, -ETIME
 * no connection in time, others of coir_tcp_connect; -ECANCELED and -ETIME also when the caller was
 * interrupted. Suspends. */
int ci_fcgi_connect(coir_fastcgi *client, struct ci_fcgi_connection *connection);

/* Replaces a connection that was kept and turned out to be closed. As ci_fcgi_connect. */
int ci_fcgi_reconnect(coir_fastcgi *client, struct ci_fcgi_connection *connection);

/* Something has come. */
void ci_fcgi_heard(coir_fastcgi *client, struct ci_fcgi_connection *connection);

/* Gives the turn back, and keeps the connection for later, or closes it. */
void ci_fcgi_disconnect(coir_fastcgi *client, struct ci_fcgi_connection *connection, bool keep);

#endif

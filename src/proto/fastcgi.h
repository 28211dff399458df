/* FastCGI as bytes, for a client: records and name-value pairs that it writes, and the framing of
 * the answer. Without descriptor, clock, memory or thread. One request at a time is on a
 * connection, with the id 1 (there is no multiplexing: php-fpm has none).
 *
 *    record = version type id(2) length(2) padding-length reserved | content | padding
 *
 * An answer is records of STDOUT and STDERR, in any order, and then END_REQUEST. Framing is
 * consumed, content is left in place.
 *
 * 1. The caller takes off only content that ci_fcgi_answer_frame has found.
 * 2. A record has at most CI_FCGI_CONTENT_MAX bytes of content.
 */
#ifndef CI_PROTO_FASTCGI_H
#define CI_PROTO_FASTCGI_H

#include "base/compiler.h"

enum {
    CI_FCGI_HEADER = 8,          /* bytes */
    CI_FCGI_CONTENT_MAX = 65535, /* bytes of a record's content */
    CI_FCGI_BEGIN = 16,          /* bytes of a whole BEGIN_REQUEST record */
    CI_FCGI_LENGTHS_MAX = 8,     /* bytes of the lengths before a name-value pair */
    CI_FCGI_ID = 1,
    CI_FCGI_EMPTY_MAX = 1000 /* records without content in a row: more are refused */
};

enum ci_fcgi_type {
    CI_FCGI_BEGIN_REQUEST = 1,
    CI_FCGI_ABORT_REQUEST = 2,
    CI_FCGI_END_REQUEST = 3,
    CI_FCGI_PARAMS = 4,
    CI_FCGI_STDIN = 5,
    CI_FCGI_STDOUT = 6,
    CI_FCGI_STDERR = 7,
};

/* protocolStatus of END_REQUEST. */
enum ci_fcgi_status {
    CI_FCGI_COMPLETE = 0,
    CI_FCGI_CANNOT_MULTIPLEX = 1,
    CI_FCGI_OVERLOADED = 2,
    CI_FCGI_UNKNOWN_ROLE = 3
};

/* ---- writing: to `at`, where there is room; what follows is returned ---- */

/* The header of a record of `len` bytes, at most CI_FCGI_CONTENT_MAX, without padding. */
unsigned char *ci_fcgi_put_header(unsigned char *at, enum ci_fcgi_type type, size_t len);

/* A whole BEGIN_REQUEST record, for the role of a responder. `keep`: the application is asked to
 * leave the connection open. */
unsigned char *ci_fcgi_put_begin(unsigned char *at, bool keep);

/* The lengths that stand before a name and its value, at most CI_FCGI_LENGTHS_MAX bytes. Neither
 * is longer than INT32_MAX. */
unsigned char *ci_fcgi_put_lengths(unsigned char *at, size_t name_len, size_t value_len);

/* ---- reading ---- */

enum ci_fcgi_answer_state {
    CI_FCGI_IN_HEADER,  /* of a record */
    CI_FCGI_IN_CONTENT, /* `content` bytes of a stream are to come */
    CI_FCGI_IN_END,     /* in the content of END_REQUEST */
    CI_FCGI_IN_SKIPPED, /* `content` bytes of no meaning here are to come */
    CI_FCGI_DONE        /* END_REQUEST and its padding have come */
};

/* The progress of an answer; zeroes are its beginning. */
struct ci_fcgi_answer {
    uint8_t state;
    uint8_t have;        /* bytes in `small` */
    uint8_t padding;     /* bytes behind the content of the record */
    uint8_t type;        /* of the record: CI_FCGI_STDOUT or CI_FCGI_STDERR, in its content */
    bool out_ended;      /* the empty STDOUT record has come */
    bool ended;          /* END_REQUEST has come */
    uint8_t status;      /* enum ci_fcgi_status, when it is done */
    uint32_t app_status; /* what the application's exit status would be, when it is done */
    uint32_t content;
    uint32_t empty;         /* records without content since the last one with some */
    unsigned char small[8]; /* a header, or the content of END_REQUEST, as far as it has come */
};

/* Consumes framing at the front of `bytes` and returns its length. The next *ret_data bytes are of
 * the stream answer->type: report with ci_fcgi_answer_took how many of them were taken. < 0: the
 * application broke the protocol. Nothing is consumed once answer->state is CI_FCGI_DONE. */
int64_t ci_fcgi_answer_frame(struct ci_fcgi_answer *answer, const unsigned char *bytes, size_t len,
                             size_t *ret_data);
void ci_fcgi_answer_took(struct ci_fcgi_answer *answer, size_t len);

#endif

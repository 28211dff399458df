/* The Date field (RFC 9110, 5.6.7), formatted once a second on each worker.
 *
 * 1. The text is CI_HTTP_DATE_LEN bytes long: "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n".
 */
#ifndef CI_WEB_DATE_H
#define CI_WEB_DATE_H

#include "task/timer.h"

enum { CI_HTTP_DATE_LEN = 37 };

struct ci_http_date {
    int64_t second; /* of the worker's monotonic clock, in which `text` was made; -1: never */
    char text[48];
};

/* Makes the text for `wall`, a time since 1970. */
void ci_http_date_format(struct ci_http_date *date, coir_time wall);

/* The date now, as the worker's turn knows it: it may be a second late. */
static inline const char *ci_http_date_now(struct ci_http_date *date, struct ci_worker *worker)
{
    int64_t second = ci_worker_now(worker) / COIR_S;
    if (ci_unlikely(second != date->second)) {
        date->second = second;
        ci_http_date_format(date, ci_worker_wall(worker));
    }
    return date->text;
}

#endif

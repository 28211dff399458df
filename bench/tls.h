/* What the servers of the TLS benchmarks answer: coir's (tls.c) and the bare one (bare_tls.c). */
#ifndef BENCH_TLS_H
#define BENCH_TLS_H

#include <stdlib.h>
#include <string.h>

enum { RECORD = 16384 };

static const char page[] =
    "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\nHello, World!";

/* How many records of zeros "GET /big/N" asks for; 0: it asks for the page. */
static inline long records_wanted(const char *request)
{
    return strncmp(request, "GET /big/", 9) == 0 ? atol(request + 9) : 0;
}

#endif

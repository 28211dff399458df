/* The time by which OpenSSL dates and checks certificates: always the same, so that a certificate
 * made with openssl_random.h has the same bytes in every process. Its signature is one to three
 * bytes shorter at some times. Included by one file of a program: it takes the place of time(2). */
#ifndef TEST_OPENSSL_TIME_H
#define TEST_OPENSSL_TIME_H

#include <time.h>

time_t time(time_t *ret_now)
{
    static const time_t now = 1800000000; /* January 2027 */
    if (ret_now)
        *ret_now = now;
    return now;
}

#endif

/* Randomness of OpenSSL that a seed decides, so that a failure repeats. The file that includes this
 * defines OPENSSL_SUPPRESS_DEPRECATED first: there is no other way in. */
#ifndef TEST_OPENSSL_RANDOM_H
#define TEST_OPENSSL_RANDOM_H

#include <openssl/rand.h>
#include <stdint.h>

static uint64_t openssl_random_state;

static int openssl_seeded_bytes(unsigned char *buf, int len)
{
    for (int i = 0; i < len; i++) { /* splitmix64 */
        uint64_t z = openssl_random_state += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        buf[i] = (unsigned char)(z >> 40);
    }
    return 1;
}

static int openssl_seeded_always(void)
{
    return 1;
}

static const RAND_METHOD openssl_seeded = {NULL, openssl_seeded_bytes, NULL,
                                           NULL, openssl_seeded_bytes, openssl_seeded_always};

#endif

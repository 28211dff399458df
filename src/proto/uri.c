#include "proto/uri.h"

#include <string.h>

#include "proto/characters.h"

static bool all_digits(const char *at, const char *end)
{
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at == end;
}

bool ci_uri_escapes_are_valid(const char *at, const char *end, bool nul_allowed)
{
    while ((at = memchr(at, '%', (size_t)(end - at)))) {
        if (end - at < 3 || !ci_char_is(at[1], CI_CHAR_HEX) || !ci_char_is(at[2], CI_CHAR_HEX) ||
            (!nul_allowed && at[1] == '0' && at[2] == '0'))
            return false;
        at += 3;
    }
    return true;
}

/* dec-octet *3( "." dec-octet ) */
static bool valid_ipv4(const char *at, const char *end)
{
    for (int i = 0; i < 4; i++) {
        const char *from = at;
        int octet = 0;
        while (at < end && at - from < 3 && *at >= '0' && *at <= '9')
            octet = octet * 10 + (*at++ - '0');
        if (at == from || octet > 255 || (*from == '0' && at - from > 1))
            return false;
        if (i < 3 && (at == end || *at++ != '.'))
            return false;
    }
    return at == end;
}

/* Eight groups of 16 bits. "::" stands for one or more of them, an IPv4 address for the last two.
 * Zone identifiers are refused: they have no meaning on another machine. */
static bool valid_ipv6(const char *at, const char *end)
{
    int groups = 0;
    bool gap = end - at >= 2 && at[0] == ':' && at[1] == ':';
    at += gap ? 2 : 0;
    while (at < end) {
        const char *from = at;
        while (at < end && at - from < 5 && ci_char_is(*at, CI_CHAR_HEX))
            at++;
        if (at < end && *at == '.') {
            groups += 2;
            return valid_ipv4(from, end) && (gap ? groups < 8 : groups == 8);
        }
        if (at == from || at - from > 4)
            return false;
        groups++;
        if (at == end)
            break;
        if (*at++ != ':' || at == end)
            return false;
        if (*at == ':') {
            if (gap)
                return false;
            gap = true;
            at++;
        }
    }
    return gap ? groups < 8 : groups == 8;
}

/* "v" 1*HEXDIG "." 1*( unreserved / sub-delims / ":" ) */
static bool valid_ip_future(const char *at, const char *end)
{
    const char *dot = memchr(at, '.', (size_t)(end - at));
    if (!dot || dot - at < 2 || dot + 1 == end || (*at | 0x20) != 'v' ||
        !ci_chars_are(at + 1, (size_t)(dot - at - 1), CI_CHAR_HEX))
        return false;
    for (const char *c = dot + 1; c < end; c++)
        if (!ci_char_is(*c, CI_CHAR_HOST) && *c != ':')
            return false;
    return !memchr(dot, '%', (size_t)(end - dot));
}

/* uri-host [ ":" port ] (RFC 9110, 7.2; RFC 3986, 3.2.2). A port with an empty host is refused: an
 * http URI has a host (RFC 9110, 4.2.1). *ret_port: the port without the colon, or NULL. */
static bool valid_authority(const char *at, const char *end, const char **ret_port)
{
    const char *host_end, *port;
    if (at < end && *at == '[') {
        const char *close = memchr(at, ']', (size_t)(end - at));
        if (!close || !(valid_ipv6(at + 1, close) || valid_ip_future(at + 1, close)))
            return false;
        host_end = close + 1;
    } else {
        const char *colon = memchr(at, ':', (size_t)(end - at));
        host_end = colon ? colon : end;
        if (host_end == at || !ci_chars_are(at, (size_t)(host_end - at), CI_CHAR_HOST) ||
            !ci_uri_escapes_are_valid(at, host_end, true))
            return false;
    }
    port = host_end < end ? host_end + 1 : NULL;
    *ret_port = port;
    return !port || (*host_end == ':' && all_digits(port, end));
}

bool ci_uri_host_is_valid(const char *at, const char *end)
{
    const char *port;
    return at == end || valid_authority(at, end, &port);
}

bool ci_uri_connect_target_is_valid(const char *at, const char *end)
{
    const char *port;
    if (!valid_authority(at, end, &port) || !port)
        return false;
    while (port < end && *port == '0')
        port++;
    int number = 0;
    for (; port < end && number <= 65535; port++)
        number = number * 10 + (*port - '0');
    return number > 0 && number <= 65535;
}

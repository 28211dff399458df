#include "proto/websocket_deflate.h"

#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "proto/characters.h"

/* ---- the form of an extension (RFC 6455, 9.1) ----
 * extension = token *( ";" param ); param = token [ "=" ( token / quoted-string ) ] */

struct text {
    const char *at, *end;
};

struct parameter {
    const char *name, *value; /* value: NULL, there is none */
    size_t name_len, value_len;
};

static void skip_space(struct text *text)
{
    while (text->at < text->end && (*text->at == ' ' || *text->at == '\t'))
        text->at++;
}

static size_t take_token(struct text *text)
{
    const char *from = text->at;
    while (text->at < text->end && ci_char_is(*text->at, CI_CHAR_TOKEN))
        text->at++;
    return (size_t)(text->at - from);
}

static bool take(struct text *text, char c)
{
    skip_space(text);
    if (text->at == text->end || *text->at != c)
        return false;
    text->at++;
    skip_space(text);
    return true;
}

/* A quoted value has to be a token, too: a backslash is none. */
static bool take_value(struct text *text, struct parameter *parameter)
{
    bool quoted = take(text, '"');
    parameter->value = text->at;
    parameter->value_len = take_token(text);
    if (!parameter->value_len)
        return false;
    return !quoted || (text->at < text->end && *text->at++ == '"');
}

/* 1: a parameter; 0: the end; -1: neither. */
static int next_parameter(struct text *text, struct parameter *parameter)
{
    skip_space(text);
    if (text->at == text->end)
        return 0;
    if (!take(text, ';'))
        return -1;
    parameter->name = text->at;
    parameter->value = NULL;
    parameter->value_len = 0;
    if (!(parameter->name_len = take_token(text)))
        return -1;
    return !take(text, '=') || take_value(text, parameter) ? 1 : -1;
}

/* ---- permessage-deflate (RFC 7692, 7.1) ---- */

static bool is(const char *text, size_t len, const char *name)
{
    return strlen(name) == len && ci_ascii_same_bytes(text, name, len);
}

/* 8 to 15, without leading zeros; 0: none. */
static uint8_t bits_of(const struct parameter *parameter)
{
    const char *value = parameter->value;
    if (parameter->value_len == 1 && (value[0] == '8' || value[0] == '9'))
        return (uint8_t)(value[0] - '0');
    if (parameter->value_len == 2 && value[0] == '1' && value[1] >= '0' && value[1] <= '5')
        return (uint8_t)(10 + value[1] - '0');
    return 0;
}

static bool set_flag(bool *flag, const struct parameter *parameter)
{
    if (*flag || parameter->value)
        return false; /* twice, or with a value */
    *flag = true;
    return true;
}

static bool set_bits(uint8_t *bits, const struct parameter *parameter)
{
    if (*bits || !parameter->value)
        return false;
    *bits = bits_of(parameter);
    return *bits;
}

/* An offer may leave out the value of client_max_window_bits (7.1.2.2); an answer may not. */
static bool set_client_bits(struct ci_ws_deflate *deflate, const struct parameter *parameter,
                            bool answer)
{
    if (deflate->client_bits_known)
        return false;
    deflate->client_bits_known = true;
    return (!answer && !parameter->value) || set_bits(&deflate->client_bits, parameter);
}

static bool set(struct ci_ws_deflate *deflate, const struct parameter *parameter, bool answer)
{
    const char *name = parameter->name;
    size_t len = parameter->name_len;
    if (is(name, len, "server_no_context_takeover"))
        return set_flag(&deflate->server_resets, parameter);
    if (is(name, len, "client_no_context_takeover"))
        return set_flag(&deflate->client_resets, parameter);
    if (is(name, len, "server_max_window_bits"))
        return set_bits(&deflate->server_bits, parameter);
    return is(name, len, "client_max_window_bits") && set_client_bits(deflate, parameter, answer);
}

int ci_ws_parse_deflate(const char *bytes, size_t len, bool answer,
                        struct ci_ws_deflate *ret_deflate)
{
    struct text text = {bytes, bytes + len};
    struct parameter parameter;
    struct ci_ws_deflate deflate = {.on = true};
    skip_space(&text);
    const char *name = text.at;
    size_t name_len = take_token(&text);
    bool valid = is(name, name_len, "permessage-deflate");
    int rc = name_len ? 1 : -1;
    while (rc > 0 && (rc = next_parameter(&text, &parameter)) > 0)
        valid = valid && set(&deflate, &parameter, answer);
    if (rc < 0)
        return -1;
    if (valid)
        *ret_deflate = deflate;
    return valid;
}

static uint8_t smaller(uint8_t a, uint8_t b)
{
    return !a || (b && b < a) ? b : a;
}

/* A server may reset its own context unasked, and have the client do so (7.1.1); the client's
 * window it may limit only where the client knows how to (7.1.2.2). */
bool ci_ws_agree_deflate(const struct ci_ws_deflate *ours, const struct ci_ws_deflate *offer,
                         struct ci_ws_deflate *ret_agreed)
{
    if (!ours->on || !offer->on || (offer->server_bits && offer->server_bits < CI_WS_BITS_MADE_MIN))
        return false;
    *ret_agreed = (struct ci_ws_deflate){
        .on = true,
        .server_resets = ours->server_resets || offer->server_resets,
        .client_resets = ours->client_resets || offer->client_resets,
        .server_bits = smaller(ours->server_bits, offer->server_bits),
    };
    if (offer->client_bits_known)
        ret_agreed->client_bits = smaller(ours->client_bits, offer->client_bits);
    return true;
}

bool ci_ws_accept_deflate(const struct ci_ws_deflate *offered, struct ci_ws_deflate *answer)
{
    if (!offered->on)
        return false;
    if (offered->server_resets && !answer->server_resets)
        return false;
    if (offered->server_bits &&
        (!answer->server_bits || answer->server_bits > offered->server_bits))
        return false;
    if (answer->client_bits_known && !offered->client_bits_known)
        return false;
    answer->client_resets |= offered->client_resets;
    answer->client_bits = smaller(answer->client_bits, offered->client_bits);
    return true;
}

size_t ci_ws_write_deflate(const struct ci_ws_deflate *deflate, bool answer,
                           char text[CI_WS_DEFLATE_TEXT])
{
    int len = snprintf(text, CI_WS_DEFLATE_TEXT, "permessage-deflate%s%s",
                       deflate->server_resets ? "; server_no_context_takeover" : "",
                       deflate->client_resets ? "; client_no_context_takeover" : "");
    if (deflate->server_bits)
        len += snprintf(text + len, CI_WS_DEFLATE_TEXT - (size_t)len, "; server_max_window_bits=%d",
                        deflate->server_bits);
    if (deflate->client_bits)
        len += snprintf(text + len, CI_WS_DEFLATE_TEXT - (size_t)len, "; client_max_window_bits=%d",
                        deflate->client_bits);
    else if (!answer && deflate->client_bits_known)
        len += snprintf(text + len, CI_WS_DEFLATE_TEXT - (size_t)len, "; client_max_window_bits");
    return (size_t)len;
}

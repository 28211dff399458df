/* Keys of session tickets (RFC 5077, RFC 8446 section 4.6.1). They belong to the configuration, not
 * to an SSL_CTX: every worker uses the same, and they survive a reload. The newest key encrypts,
 * for half a day; a ticket of an older one is accepted and renewed. Another process may take them
 * over. */
#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <stddef.h>
#include <string.h>

#include "base/ascii.h"
#include "base/time.h"
#include "tls/tls.h"

static const coir_time rotation = 12LL * 3600 * COIR_S;

/* Makes a new key when there is none or the newest is too old. Under the lock. */
static bool rotate(coir_tls *tls)
{
    coir_time now = coir_now();
    if (tls->ticket_count && now < ci_time_after(tls->tickets[0].made, rotation))
        return true;
    struct ci_ticket_key key = {.made = now};
    if (RAND_bytes(key.name, sizeof key.name) != 1 ||
        RAND_priv_bytes(key.cipher, sizeof key.cipher) != 1 ||
        RAND_priv_bytes(key.mac, sizeof key.mac) != 1)
        return tls->ticket_count > 0;
    memmove(tls->tickets + 1, tls->tickets, sizeof *tls->tickets * (CI_TICKET_KEYS - 1));
    tls->tickets[0] = key;
    if (tls->ticket_count < CI_TICKET_KEYS)
        tls->ticket_count++;
    OPENSSL_cleanse(&key, sizeof key);
    return true;
}

/* Adds a key of another process, in the order of their ages. Under the lock. */
static void add_key(coir_tls *tls, const struct ci_ticket_key *key)
{
    int at = 0;
    for (int i = 0; i < tls->ticket_count; i++) {
        if (memcmp(tls->tickets[i].name, key->name, sizeof key->name) == 0)
            return;
        at += tls->tickets[i].made >= key->made;
    }
    if (at == CI_TICKET_KEYS)
        return;
    int moved = tls->ticket_count - at - (tls->ticket_count == CI_TICKET_KEYS);
    memmove(tls->tickets + at + 1, tls->tickets + at, sizeof *key * (size_t)moved);
    tls->tickets[at] = *key;
    tls->ticket_count += tls->ticket_count < CI_TICKET_KEYS;
}

/* Copies the key to use to *ret_key and returns its index; -1: there is none. */
static int choose(coir_tls *tls, const unsigned char *name, bool encrypting,
                  struct ci_ticket_key *ret_key)
{
    int found = -1;
    pthread_mutex_lock(&tls->lock);
    if (rotate(tls) && encrypting)
        found = 0;
    for (int i = 0; !encrypting && found < 0 && i < tls->ticket_count; i++)
        if (memcmp(tls->tickets[i].name, name, sizeof tls->tickets[i].name) == 0)
            found = i;
    if (found >= 0)
        *ret_key = tls->tickets[found];
    pthread_mutex_unlock(&tls->lock);
    return found;
}

/* Encrypts a ticket, or decrypts one. */
static int use_key(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                   EVP_MAC_CTX *mac, int encrypting)
{
    struct ci_ticket_key key;
    int index = choose(ci_tls_stream_of(ssl)->tls, name, encrypting, &key);
    if (index < 0)
        return 0; /* does a full handshake, or issues no ticket */
    int result = -1;
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key.mac, sizeof key.mac),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    if (!EVP_MAC_CTX_set_params(mac, params))
        goto out;
    if (encrypting) {
        memcpy(name, key.name, sizeof key.name);
        if (RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) == 1 &&
            EVP_EncryptInit_ex2(cipher, EVP_aes_256_cbc(), key.cipher, iv, NULL))
            result = 1;
    } else if (EVP_DecryptInit_ex2(cipher, EVP_aes_256_cbc(), key.cipher, iv, NULL)) {
        /* With 2 the client gets a new one: one of TLS 1.3 uses each ticket only once. */
        result = index == 0 && SSL_version(ssl) < TLS1_3_VERSION ? 1 : 2;
    }
out:
    OPENSSL_cleanse(&key, sizeof key);
    return result;
}

/* ---- what a ticket says: when the client was verified, and the host that it asked for ---- */

struct note {
    coir_time verified;
    char host[256]; /* as long as it is */
};

static bool read_note(SSL_SESSION *session, struct note *ret_note)
{
    void *data;
    size_t len;
    if (!session || SSL_SESSION_get0_ticket_appdata(session, &data, &len) != 1 ||
        len <= offsetof(struct note, host) || len > sizeof *ret_note)
        return false;
    memcpy(ret_note, data, len);
    return ((const char *)data)[len - 1] == '\0';
}

/* The ticket that takes the place of another says of the verification what that one said. */
static int issue(SSL *ssl, void *unused)
{
    struct note note;
    SSL_SESSION *session = SSL_get_session(ssl);
    (void)unused;
    if (!read_note(session, &note))
        note.verified = coir_now();
    size_t len = strlen(ci_tls_stream_of(ssl)->host) + 1;
    memcpy(note.host, ci_tls_stream_of(ssl)->host, len);
    return SSL_SESSION_set1_ticket_appdata(session, &note, offsetof(struct note, host) + len);
}

/* Another name means a full handshake, also where it leads to the same host (RFC 6066, section
 * 3). */
static bool may_resume(const SSL *ssl, SSL_SESSION *session)
{
    struct note note;
    return read_note(session, &note) && ci_session_is_fresh(session, note.verified) &&
           ci_ascii_same(note.host, ci_tls_stream_of(ssl)->host);
}

static SSL_TICKET_RETURN accept_ticket(SSL *ssl, SSL_SESSION *session, const unsigned char *name,
                                       size_t name_len, SSL_TICKET_STATUS status, void *unused)
{
    (void)name, (void)name_len, (void)unused;
    if ((status == SSL_TICKET_SUCCESS || status == SSL_TICKET_SUCCESS_RENEW) &&
        may_resume(ssl, session))
        return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
    return SSL_TICKET_RETURN_IGNORE_RENEW; /* a full handshake, and a new ticket */
}

void ci_ticket_install(SSL_CTX *context)
{
    SSL_CTX_set_num_tickets(context, 1);
    SSL_CTX_set_tlsext_ticket_key_evp_cb(context, use_key);
    SSL_CTX_set_session_ticket_cb(context, issue, accept_ticket, NULL);
}

void ci_tls_wipe_tickets(coir_tls *tls)
{
    OPENSSL_cleanse(tls->tickets, sizeof tls->tickets);
    tls->ticket_count = 0;
}

/* ---- for the next process ---- */

/* What is handed over: this, their number, and the keys, each in this order. */
static const char keys_heading[] = "coir ticket keys 1";

enum {
    KEYS_HEAD = sizeof keys_heading,
    KEY_LEN = sizeof(((struct ci_ticket_key *)0)->name) +
              sizeof(((struct ci_ticket_key *)0)->cipher) +
              sizeof(((struct ci_ticket_key *)0)->mac) + sizeof(coir_time)
};
_Static_assert(KEYS_HEAD + CI_TICKET_KEYS * KEY_LEN <= COIR_TLS_TICKETS_MAX, "as the header says");

static unsigned char *copy_out(unsigned char *at, const void *data, size_t len)
{
    memcpy(at, data, len);
    return at + len;
}

static const unsigned char *copy_in(const unsigned char *at, void *data, size_t len)
{
    memcpy(data, at, len);
    return at + len;
}

int coir_tls_server_save_tickets(coir_tls *server, void *buf, size_t size)
{
    int rc = -ENOMEM;
    if (!server || !server->server || !buf)
        return CI_MISUSE(-EINVAL, "server is NULL or a client's, or buf is NULL");
    pthread_mutex_lock(&server->lock);
    if (rotate(server)) {
        size_t len = KEYS_HEAD + (size_t)server->ticket_count * KEY_LEN;
        rc = len > size ? -EMSGSIZE : (int)len;
    }
    unsigned char *at = rc > 0 ? copy_out(buf, keys_heading, KEYS_HEAD) : NULL;
    for (int i = 0; rc > 0 && i < server->ticket_count; i++) {
        const struct ci_ticket_key *key = &server->tickets[i];
        at = copy_out(at, key->name, sizeof key->name);
        at = copy_out(at, key->cipher, sizeof key->cipher);
        at = copy_out(at, key->mac, sizeof key->mac);
        at = copy_out(at, &key->made, sizeof key->made);
    }
    pthread_mutex_unlock(&server->lock);
    return rc;
}

int coir_tls_server_restore_tickets(coir_tls *server, const void *buf, size_t len)
{
    if (!server || !server->server || !buf)
        return CI_MISUSE(-EINVAL, "server is NULL or a client's, or buf is NULL");
    if (len <= KEYS_HEAD || (len - KEYS_HEAD) % KEY_LEN ||
        len > KEYS_HEAD + CI_TICKET_KEYS * KEY_LEN || memcmp(buf, keys_heading, KEYS_HEAD) != 0)
        return -EINVAL;
    const unsigned char *at = (const unsigned char *)buf + KEYS_HEAD;
    coir_time now = coir_now();
    pthread_mutex_lock(&server->lock);
    for (size_t i = 0; i < (len - KEYS_HEAD) / KEY_LEN; i++) {
        struct ci_ticket_key key;
        at = copy_in(at, key.name, sizeof key.name);
        at = copy_in(at, key.cipher, sizeof key.cipher);
        at = copy_in(at, key.mac, sizeof key.mac);
        at = copy_in(at, &key.made, sizeof key.made);
        if (key.made > now) /* of another clock */
            key.made = now;
        add_key(server, &key);
        OPENSSL_cleanse(&key, sizeof key);
    }
    pthread_mutex_unlock(&server->lock);
    return 0;
}

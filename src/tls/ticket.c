/* Keys of session tickets (RFC 5077, RFC 8446 section 4.6.1). They belong to the configuration, not
 * to an SSL_CTX: every worker uses the same, and they survive a reload. The newest key encrypts,
 * for half a day; a ticket of an older one is accepted and renewed. */
#include <openssl/core_names.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <string.h>

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

/* ---- when the client was verified: a ticket says so, and the one that takes its place, too ----
 */

static bool read_verified(SSL_SESSION *session, coir_time *ret_verified)
{
    void *data;
    size_t len;
    if (!session || SSL_SESSION_get0_ticket_appdata(session, &data, &len) != 1 ||
        len != sizeof *ret_verified)
        return false;
    memcpy(ret_verified, data, len);
    return true;
}

static int issue(SSL *ssl, void *unused)
{
    coir_time verified;
    SSL_SESSION *session = SSL_get_session(ssl);
    (void)unused;
    if (!read_verified(session, &verified))
        verified = coir_now();
    return SSL_SESSION_set1_ticket_appdata(session, &verified, sizeof verified);
}

static SSL_TICKET_RETURN accept_ticket(SSL *ssl, SSL_SESSION *session, const unsigned char *name,
                                       size_t name_len, SSL_TICKET_STATUS status, void *unused)
{
    coir_time verified;
    (void)ssl, (void)name, (void)name_len, (void)unused;
    if ((status == SSL_TICKET_SUCCESS || status == SSL_TICKET_SUCCESS_RENEW) &&
        read_verified(session, &verified) && ci_session_is_fresh(session, verified))
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

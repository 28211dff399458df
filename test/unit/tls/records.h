/* Records of TLS 1.3 as a client sends them that has the keys and keeps no other rule. */
#ifndef TEST_UNIT_TLS_RECORDS_H
#define TEST_UNIT_TLS_RECORDS_H

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include "pair.h"
#include "tls/tls.h"

struct forger {
    struct pair pair;
    unsigned char key[32], iv[12];
    unsigned char number; /* of the next record */
};

/* The client's secret of the last connection, for TLS_AES_256_GCM_SHA384. */
static unsigned char forger_secret[48];

static inline void forger_keep_secret(const SSL *ssl, const char *line)
{
    static const char label[] = "CLIENT_TRAFFIC_SECRET_0 ";
    (void)ssl;
    if (strncmp(line, label, sizeof label - 1) != 0)
        return;
    const char *hex = strrchr(line, ' ') + 1;
    CHECK_EQ(strlen(hex), 2 * sizeof forger_secret);
    for (size_t i = 0; i < sizeof forger_secret; i++)
        forger_secret[i] =
            (unsigned char)strtoul((char[]){hex[2 * i], hex[2 * i + 1], 0}, NULL, 16);
}

/* HKDF-Expand-Label (RFC 8446, section 7.1) of the secret. */
static inline void forger_derive(const char *label, unsigned char *to, size_t len)
{
    unsigned char info[64] = {0, (unsigned char)len, (unsigned char)(6 + strlen(label))};
    size_t info_len = 3 + 6 + strlen(label) + 1;
    snprintf((char *)info + 3, sizeof info - 3, "tls13 %s", label);
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *context = EVP_KDF_CTX_new(kdf);
    int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
    char digest[] = "SHA384";
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, forger_secret, sizeof forger_secret),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, info_len),
        OSSL_PARAM_construct_end(),
    };
    CHECK_EQ(EVP_KDF_derive(context, to, len, params), 1);
    EVP_KDF_CTX_free(context);
    EVP_KDF_free(kdf);
}

/* A connection whose client is a forger. */
static inline struct forger forger_open(coir_tls *client, coir_tls *server)
{
    struct forger forger = {.pair = {.client = client, .server = server}};
    SSL_CTX_set_keylog_callback(client->hosts->context, forger_keep_secret);
    connect_pair(&forger.pair);
    CHECK_EQ(forger.pair.server_rc, 0);
    forger_derive("key", forger.key, sizeof forger.key);
    forger_derive("iv", forger.iv, sizeof forger.iv);
    return forger;
}

static inline void forger_close(struct forger *forger)
{
    close_pair(&(struct pair){.tls_a = forger->pair.tls_a, .tls_b = forger->pair.tls_b});
}

/* Sends a record with this content and type, sealed as RFC 8446, section 5.2 says. */
static inline void forger_send(struct forger *forger, int type, const void *data, size_t len)
{
    static unsigned char inner[20000], record[20100];
    unsigned char nonce[12];
    int n;
    memcpy(inner, data, len);
    inner[len] = (unsigned char)type;
    size_t body = len + 1 + 16;
    memcpy(record, (unsigned char[]){23, 3, 3, (unsigned char)(body >> 8), (unsigned char)body}, 5);
    memcpy(nonce, forger->iv, sizeof nonce);
    nonce[11] ^= forger->number++;
    EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new();
    CHECK_EQ(EVP_EncryptInit_ex2(cipher, EVP_aes_256_gcm(), forger->key, nonce, NULL), 1);
    CHECK_EQ(EVP_EncryptUpdate(cipher, NULL, &n, record, 5), 1);
    CHECK_EQ(EVP_EncryptUpdate(cipher, record + 5, &n, inner, (int)len + 1), 1);
    CHECK_EQ(EVP_EncryptFinal_ex(cipher, record + 5 + n, &n), 1);
    CHECK_EQ(EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_GET_TAG, 16, record + 5 + len + 1), 1);
    EVP_CIPHER_CTX_free(cipher);
    CHECK_EQ(coir_write_all(forger->pair.a, record, 5 + body), 0);
}

#endif

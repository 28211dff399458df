/* Makes OpenSSL cheaper for a program of one thread of the system, as the simulated world is: its
 * locks do nothing, and a certificate or key that was decoded before is shared, as
 * SSL_CTX_use_certificate shares it, instead of being decoded again for each world and handshake.
 * Included by one file of a program, whose functions take the place of OpenSSL's. */
#ifndef TEST_OPENSSL_ALONE_H
#define TEST_OPENSSL_ALONE_H

#include <dlfcn.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdint.h>
#include <string.h>

typedef X509 *openssl_decode_fn(X509 **ret, const unsigned char **from, long len);
typedef int openssl_each_name_fn(const EVP_KEYMGMT *of, void (*fn)(const char *name, void *arg),
                                 void *arg);

/* ---- locks: a tenth of a handshake's time ---- */

int CRYPTO_THREAD_read_lock(CRYPTO_RWLOCK *lock)
{
    (void)lock;
    return 1;
}

int CRYPTO_THREAD_write_lock(CRYPTO_RWLOCK *lock)
{
    (void)lock;
    return 1;
}

int CRYPTO_THREAD_unlock(CRYPTO_RWLOCK *lock)
{
    (void)lock;
    return 1;
}

/* ---- names of a kind of key ---- */

/* For each operation OpenSSL 3.0 looks for them among all names that it has. */

enum { OPENSSL_KINDS = 64, OPENSSL_KIND_NAMES = 8 };

struct openssl_kind {
    const EVP_KEYMGMT *kind; /* which lives as long as the program, as its names do */
    int count;
    const char *names[OPENSSL_KIND_NAMES];
};

static void openssl_kind_add(const char *name, void *arg)
{
    struct openssl_kind *kind = arg;
    if (kind->count < OPENSSL_KIND_NAMES)
        kind->names[kind->count] = name;
    kind->count++;
}

/* NULL: it does not fit into the table. */
static const struct openssl_kind *openssl_kind_find(const EVP_KEYMGMT *of,
                                                    openssl_each_name_fn *each_name)
{
    static struct openssl_kind kinds[OPENSSL_KINDS];
    struct openssl_kind *kind = kinds;
    while (kind < kinds + OPENSSL_KINDS && kind->kind && kind->kind != of)
        kind++;
    if (kind == kinds + OPENSSL_KINDS)
        return NULL;
    if (!kind->kind) {
        kind->kind = of;
        EVP_KEYMGMT_up_ref((EVP_KEYMGMT *)(uintptr_t)of);
        each_name(of, openssl_kind_add, kind);
    }
    return kind->count <= OPENSSL_KIND_NAMES ? kind : NULL;
}

int EVP_KEYMGMT_names_do_all(const EVP_KEYMGMT *of, void (*fn)(const char *name, void *arg),
                             void *arg)
{
    static openssl_each_name_fn *each_name;
    if (!each_name)
        *(void **)&each_name = dlsym(RTLD_NEXT, "EVP_KEYMGMT_names_do_all");
    const struct openssl_kind *kind = openssl_kind_find(of, each_name);
    for (int i = 0; kind && i < kind->count; i++)
        fn(kind->names[i], arg);
    return kind ? 1 : each_name(of, fn, arg);
}

/* ---- what was decoded last; it lives as long as the program ---- */

enum { OPENSSL_DECODED_MOST = 4096 };

struct openssl_decoded {
    unsigned char from[OPENSSL_DECODED_MOST];
    size_t len;
    void *object; /* with a reference of its own */
};

static void *openssl_decoded_find(const struct openssl_decoded *decoded, const void *from,
                                  size_t len)
{
    bool same = decoded->object && decoded->len == len && memcmp(decoded->from, from, len) == 0;
    return same ? decoded->object : NULL;
}

static void openssl_decoded_keep(struct openssl_decoded *decoded, const void *from, size_t len,
                                 void *object)
{
    memcpy(decoded->from, from, len);
    decoded->len = len;
    decoded->object = object;
}

X509 *d2i_X509(X509 **ret, const unsigned char **from, long len)
{
    static struct openssl_decoded decoded;
    static openssl_decode_fn *decode;
    const unsigned char *begin = *from;
    X509 *found = openssl_decoded_find(&decoded, begin, (size_t)len);
    if (found) {
        X509_up_ref(found);
        *from += len;
        if (ret) {
            X509_free(*ret);
            *ret = found;
        }
        return found;
    }
    if (!decode)
        *(void **)&decode = dlsym(RTLD_NEXT, "d2i_X509");
    X509 *made = decode(ret, from, len);
    if (made && *from == begin + len && len <= OPENSSL_DECODED_MOST) {
        X509_free(decoded.object);
        X509_up_ref(made);
        openssl_decoded_keep(&decoded, begin, (size_t)len, made);
    }
    return made;
}

EVP_PKEY *PEM_read_bio_PrivateKey(BIO *bio, EVP_PKEY **ret, pem_password_cb *password, void *arg)
{
    static struct openssl_decoded decoded;
    char *text = NULL;
    long len = ret || BIO_method_type(bio) != BIO_TYPE_MEM ? 0 : BIO_get_mem_data(bio, &text);
    bool keeps = len > 0 && len <= OPENSSL_DECODED_MOST;
    EVP_PKEY *key = keeps ? openssl_decoded_find(&decoded, text, (size_t)len) : NULL;
    if (key) {
        EVP_PKEY_up_ref(key);
        return key; /* the caller reads no further */
    }
    unsigned char from[OPENSSL_DECODED_MOST];
    if (keeps)
        memcpy(from, text, (size_t)len);
    key = PEM_read_bio_PrivateKey_ex(bio, ret, password, arg, NULL, NULL);
    if (key && keeps) {
        EVP_PKEY_free(decoded.object);
        EVP_PKEY_up_ref(key);
        openssl_decoded_keep(&decoded, from, (size_t)len, key);
    }
    return key;
}

#endif

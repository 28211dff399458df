/* A configuration: its reload. */
#include <coir.h>
#include <coir/sim.h>
#include <coir/tls.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pair.h"

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

TEST_REAL(a_reload_takes_what_the_files_hold_or_changes_nothing)
{
    char folder[] = "/tmp/coir-tls-XXXXXX", certificate_path[64], key_path[64];
    CHECK(mkdtemp(folder));
    snprintf(certificate_path, sizeof certificate_path, "%s/certificate", folder);
    snprintf(key_path, sizeof key_path, "%s/key", folder);
    char *other, *other_key;
    make_once();
    CHECK_EQ(coir_tls_make_certificate("other.example", &other, &other_key), 0);
    write_file(certificate_path, own_certificate);
    write_file(key_path, own_key);
    coir_tls_options server = COIR_TLS_OPTIONS, client = COIR_TLS_OPTIONS;
    server.certificate = certificate_path;
    server.key = key_path;
    client.insecure = COIR_TLS_INSECURE_NO_VERIFICATION;
    struct pair pair = {.client = client_of(client), .server = server_of(server)};
    CHECK(strcmp(met(&pair), "CN=example.org") == 0);

    write_file(key_path, other_key);
    CHECK_EQ(coir_tls_reload(pair.server), -COIR_ETLS_KEY);
    CHECK(strcmp(met(&pair), "CN=example.org") == 0);
    write_file(certificate_path, "nonsense");
    CHECK_EQ(coir_tls_reload(pair.server), -COIR_ECERT);
    CHECK_EQ(unlink(certificate_path), 0);
    CHECK_EQ(coir_tls_reload(pair.server), -ENOENT);
    CHECK(strcmp(met(&pair), "CN=example.org") == 0);
    write_file(certificate_path, other);
    CHECK_EQ(coir_tls_reload(pair.server), 0);
    coir_tls_unref(
        pair.client); /* without a session, which would bring the certificate of before */
    pair.client = client_of(client);
    CHECK(strcmp(met(&pair), "CN=other.example") == 0);

    close_pair(&(struct pair){.client = pair.client, .server = pair.server});
    unlink(certificate_path);
    unlink(key_path);
    rmdir(folder);
    free(other);
    free(other_key);
}

/* ---- while one reads ---- */

static int reload(void *arg)
{
    return coir_tls_reload(arg);
}

/* Opens a FIFO for writing, once somebody reads it. */
static int open_fifo(const char *path)
{
    int fd;
    while ((fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0) {
        CHECK_EQ(errno, ENXIO);
        CHECK_EQ(coir_yield(), 0);
    }
    return fd;
}

static void feed(int fd, const char *text)
{
    CHECK_EQ(write(fd, text, strlen(text)), strlen(text));
    CHECK_EQ(close(fd), 0);
}

/* The first reload has read the certificate, and its key comes from a FIFO, when the files are
 * replaced and read again. */
TEST_REAL(the_reload_that_began_last_counts_and_each_holds_the_configuration)
{
    char folder[] = "/tmp/coir-tls-XXXXXX", certificate[64], key[64];
    char *other, *other_key;
    CHECK(mkdtemp(folder));
    snprintf(certificate, sizeof certificate, "%s/certificate", folder);
    snprintf(key, sizeof key, "%s/key", folder);
    make_once();
    CHECK_EQ(coir_tls_make_certificate("other.example", &other, &other_key), 0);
    write_file(certificate, own_certificate);
    write_file(key, own_key);
    coir_tls_options server = COIR_TLS_OPTIONS, client = COIR_TLS_OPTIONS;
    server.certificate = certificate;
    server.key = key;
    client.insecure = COIR_TLS_INSECURE_NO_VERIFICATION;
    struct pair pair = {.client = client_of(client), .server = server_of(server)};
    CHECK_EQ(unlink(key), 0);
    CHECK_EQ(mkfifo(key, 0600), 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, reload, pair.server), 0);
    int fd = open_fifo(key);
    CHECK_EQ(unlink(key), 0);
    write_file(key, other_key);
    write_file(certificate, other);
    CHECK_EQ(coir_tls_reload(pair.server), 0);
    feed(fd, own_key);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK(strcmp(met(&pair), "CN=other.example") == 0);

    CHECK_EQ(unlink(key), 0);
    CHECK_EQ(mkfifo(key, 0600), 0);
    CHECK_EQ(coir_go(scope, reload, pair.server), 0);
    fd = open_fifo(key);
    coir_tls_unref(pair.server);
    feed(fd, other_key);
    CHECK_EQ(coir_scope_wait(scope), 0);

    coir_tls_unref(pair.client);
    unlink(certificate);
    unlink(key);
    rmdir(folder);
    free(other);
    free(other_key);
}

/* ---- a host that comes too late ---- */

struct late_host {
    coir_tls *server;
    coir_tls_options options;
};

static int add_late_host(void *arg)
{
    const struct late_host *late = arg;
    CHECK_EQ(coir_tls_server_add_host(late->server, "late.example", &late->options), -EBUSY);
    return 0;
}

static int add_late_host_on_pool(void *arg)
{
    return coir_offload(add_late_host, arg);
}

/* The server is reloaded and used while the files of a host are read. */
TEST_REAL(a_server_that_is_used_meanwhile_gets_no_host)
{
    char path[] = "/tmp/coir-tls-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    CHECK_EQ(close(fd), 0);
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(mkfifo(path, 0600), 0);
    struct pair pair = {.client = client_of((coir_tls_options)COIR_TLS_OPTIONS),
                        .server = server_of((coir_tls_options)COIR_TLS_OPTIONS)};
    struct late_host late = {pair.server, COIR_TLS_OPTIONS};
    late.options.certificate = own_certificate;
    late.options.key = path;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, add_late_host_on_pool, &late), 0);
    fd = open_fifo(path);
    CHECK_EQ(coir_tls_reload(pair.server), 0);
    CHECK(strcmp(met(&pair), "CN=example.org") == 0);
    feed(fd, own_key);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_tls_reload(pair.server), 0);
    close_pair(&(struct pair){.client = pair.client, .server = pair.server});
    unlink(path);
}

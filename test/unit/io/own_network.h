/* A network of the test's own, with loopback alone, and its own files about names: there a name
 * server may have port 53, which getaddrinfo asks. The machine's files stay as they are. */
#ifndef TEST_OWN_NETWORK_H
#define TEST_OWN_NETWORK_H

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"

static inline void put_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

/* The user is root there; TSan's thread keeps a process out of it. */
static inline bool enter_as_root(void)
{
    char map[64];
    unsigned uid = getuid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET) < 0)
        return false;
    snprintf(map, sizeof map, "0 %u 1", uid);
    put_file("/proc/self/uid_map", map);
    return true;
}

static inline void replace_file(const char *path, const char *text)
{
    char own[] = "/tmp/coir-etc-XXXXXX";
    int fd = mkstemp(own);
    CHECK(fd >= 0);
    close(fd);
    put_file(own, text);
    CHECK_EQ(mount(own, path, NULL, MS_BIND, NULL), 0);
    unlink(own);
}

/* False, and says so: this process may not have a network. To be called before there are threads
 * that use it. */
static inline bool enter_own_network(const char *resolv_conf)
{
    struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    if (unshare(CLONE_NEWNS | CLONE_NEWNET) < 0 && !enter_as_root()) {
        printf("left out: no network namespace: %s\n", strerror(errno));
        return false;
    }
    CHECK_EQ(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(ioctl(fd, SIOCSIFFLAGS, &loopback), 0);
    close(fd);
    replace_file("/etc/resolv.conf", resolv_conf);
    replace_file("/etc/nsswitch.conf", "hosts: files dns\n");
    replace_file("/etc/hosts", "127.0.0.1 localhost\n192.0.2.9 kept.test\n");
    return true;
}

#endif

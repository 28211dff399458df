/* The server's process, seen from outside. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "connections/fuzz.h"

enum { START_SECONDS = 60, STOP_SECONDS = 60, STATS_SECONDS = 20 };

int64_t time_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

/* What it writes: its address. */
static int read_port(int fd)
{
    char text[80] = "";
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (poll(&ready, 1, START_SECONDS * 1000) != 1 || read(fd, text, sizeof text - 1) <= 0)
        return -1;
    const char *colon = strrchr(text, ':');
    return colon ? atoi(colon + 1) : -1;
}

bool server_start(struct server *server, const char *driver, unsigned workers, bool tls,
                  int send_buffer)
{
    int ready[2];
    pid_t parent = getpid();
    *server = (struct server){.driver = driver, .workers = workers, .tls = tls, .pid = -1};
    server->log = memfd_create("log", MFD_CLOEXEC);
    if (server->log < 0 || pipe2(ready, O_CLOEXEC) < 0)
        return false;
    fflush(NULL);
    server->pid = fork();
    if (server->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent || dup2(server->log, STDERR_FILENO) < 0)
            _exit(1);
        close(server->log);
        close(ready[0]);
        server_main(server, send_buffer, ready[1]);
    }
    close(ready[1]);
    server->port = server->pid > 0 ? read_port(ready[0]) : -1;
    close(ready[0]);
    if (server->port > 0)
        return true;
    printf("the server did not start on %s\n", driver);
    server_print_log(server);
    server_kill(server);
    return false;
}

bool server_ended(struct server *server, int *ret_status)
{
    if (server->pid <= 0 || waitpid(server->pid, ret_status, WNOHANG) != server->pid)
        return false;
    server->pid = -1;
    return true;
}

int server_stop(struct server *server)
{
    int status;
    kill(server->pid, SIGTERM);
    for (int64_t end = time_now() + STOP_SECONDS * SECOND; time_now() < end; usleep(500))
        if (server_ended(server, &status))
            return status;
    return -1;
}

void server_kill(struct server *server)
{
    if (server->pid > 0) {
        kill(server->pid, SIGKILL);
        waitpid(server->pid, NULL, 0);
    }
    if (server->log >= 0)
        close(server->log);
    server->pid = server->log = -1;
}

void server_print_log(const struct server *server)
{
    char bytes[4096];
    ssize_t n;
    off_t at = 0;
    fflush(stdout);
    while (at < 40 * 4096 && (n = pread(server->log, bytes, sizeof bytes, at)) > 0) {
        fwrite(bytes, 1, (size_t)n, stdout);
        at += n;
    }
}

/* ---- /proc ---- */

static DIR *open_proc(const struct server *server, const char *what)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)server->pid, what);
    return opendir(path);
}

static char thread_state(const struct server *server, const char *thread)
{
    char path[350], text[400] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%s/stat", (int)server->pid, thread);
    FILE *file = fopen(path, "r");
    size_t len = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    const char *name_end = len ? strrchr(text, ')') : NULL;
    return name_end ? name_end[2] : 'S';
}

bool server_asleep(const struct server *server)
{
    DIR *threads = open_proc(server, "task");
    if (!threads)
        return false;
    bool asleep = true;
    for (struct dirent *entry; asleep && (entry = readdir(threads));)
        if (entry->d_name[0] != '.')
            asleep = thread_state(server, entry->d_name) == 'S';
    closedir(threads);
    return asleep;
}

long server_descriptors(const struct server *server)
{
    DIR *open_ones = open_proc(server, "fd");
    long count = 0;
    while (open_ones && readdir(open_ones))
        count++;
    if (open_ones)
        closedir(open_ones);
    return count;
}

long server_resident(const struct server *server)
{
    char path[64];
    long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)server->pid);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%*d %ld", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* ---- a request for its counters ---- */

static bool ask(int fd, char *text, size_t size)
{
    static const char request[] = "GET /stats HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    struct timeval limit = {.tv_sec = STATS_SECONDS};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) != sizeof request - 1)
        return false;
    ssize_t n;
    size_t len = 0;
    while ((n = recv(fd, text + len, size - 1 - len, 0)) > 0)
        len += (size_t)n;
    text[len] = '\0';
    return n == 0;
}

bool server_stats(const struct server *server, struct stats *stats)
{
    char text[1000];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)server->port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok =
        connect(fd, (struct sockaddr *)&address, sizeof address) == 0 && ask(fd, text, sizeof text);
    close(fd);
    const char *body = ok ? strstr(text, "\r\n\r\n") : NULL;
    return body && sscanf(body, "%ld %ld %ld %ld %ld", &stats->tasks, &stats->stacks,
                          &stats->connections, &stats->requests, &stats->bytes) == 5;
}

/* Processes: a host's program, its descriptors, and what its machine reports (CPUs, random numbers,
 * names). */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "sim/audit.h"
#include "sim/kernel/kernel.h"
#include "sim/name.h"
#include "sys/call.h"
#include "sys/cpu.h"

void (*ci_kconsole)(const void *bytes, size_t len);

static ssize_t write_console(struct ci_kfile *file, const struct iovec *iov, int count)
{
    ssize_t len = 0;
    (void)file;
    for (int i = 0; i < count; i++) {
        ci_kconsole(iov[i].iov_base, iov[i].iov_len);
        len += (ssize_t)iov[i].iov_len;
    }
    return len;
}

static void release_console(struct ci_kfile *file)
{
    free(file);
}

static const struct ci_kfile_type console_type = {
    .name = "console", .write = write_console, .release = release_console};

static void open_console(void *arg)
{
    (void)arg;
    for (int fd = 0; fd < 3; fd++) {
        struct ci_kfile *file = ci_kalloc(sizeof *file);
        ci_kfile_init(file, &console_type);
        ci_kfd_install(file);
    }
}

struct ci_kprocess *ci_kprocess_start(struct ci_node *node, void *(*fn)(void *arg), void *arg)
{
    struct ci_kprocess *process = calloc(1, sizeof *process);
    if (!process)
        return NULL;
    *process = (struct ci_kprocess){
        .next = ci_k.processes, .node = node, .cpus = 1 + (unsigned)ci_kbelow(4)};
    ci_k.processes = process;
    if (ci_kconsole)
        ci_kprocess_as(process, open_console, NULL);
    process->first = ci_kthread_start(process, fn, arg);
    return process;
}

bool ci_kprocess_ended(const struct ci_kprocess *process)
{
    return process->ended;
}

int ci_kprocess_id(const struct ci_kprocess *process)
{
    return 1000 + process->node->number;
}

void ci_kprocess_as(struct ci_kprocess *process, void (*fn)(void *arg), void *arg)
{
    struct ci_kprocess *before = ci_k.process;
    struct ci_kthread *thread = ci_k.thread;
    ci_k.process = process;
    if (thread)
        thread->process = process; /* for when this thread is switched to again */
    fn(arg);
    if (thread)
        thread->process = before;
    ci_k.process = before;
}

void ci_kprocess_audit(const struct ci_kprocess *process)
{
    for (size_t fd = 0; fd < process->file_room; fd++)
        if (process->files[fd] && process->files[fd]->type != &console_type)
            ci_world_leave(ci_k.world, process->node, "%s fd=%zu", process->files[fd]->type->name,
                           fd);
    ci_kchildren_audit(process);
    if (process->threads)
        ci_world_leave(ci_k.world, process->node, "%d threads", process->threads);
}

void ci_kprocesses_free(void)
{
    while (ci_k.processes) {
        struct ci_kprocess *process = ci_k.process = ci_k.processes;
        for (size_t fd = 0; fd < process->file_room; fd++)
            if (process->files[fd])
                ci_kfd_close((coir_fd)fd);
        ci_k.processes = process->next;
        ci_free(&ci_system_allocator, process->files, process->file_room * sizeof *process->files);
        free(process);
    }
    ci_k.process = NULL;
}

/* ---- sys/cpu.h ---- */

unsigned ci_cpu_available(void)
{
    long real = ci_k.process ? 0 : sysconf(_SC_NPROCESSORS_ONLN);
    return ci_k.process ? ci_k.process->cpus : real > 0 ? (unsigned)real : 1;
}

int ci_cpu_pin(unsigned index)
{
    (void)index;
    return 0;
}

void ci_cpu_unpin(void)
{
}
void ci_cpu_exchange_pin(void)
{
}

/* ---- names, random numbers, memory ---- */

int ci_sys_resolve(const char *host, int family, struct ci_ips *ret_ips, coir_time *ret_delay)
{
    int rc = ci_world_resolve(ci_k.world, host, family, ret_ips, ret_delay);
    if (!ci_k.settings.lookups_block || !*ret_delay)
        return rc;
    *ret_delay = 0;
    return -EAGAIN;
}

/* getaddrinfo(3): the answer is that of the time when it was asked for. */
int ci_sys_lookup(const char *host, int family, struct ci_ips *ret_ips)
{
    coir_time delay;
    ci_kcall();
    int rc = ci_world_resolve(ci_k.world, host, family, ret_ips, &delay);
    ci_kthread_sleep("a name server", ci_time_after(ci_know(), delay));
    return rc;
}

bool ci_sys_hosts_lack(const char *host, int family)
{
    (void)host, (void)family;
    return false;
}

uint64_t ci_sys_lookup_stamp(void)
{
    return 0;
}

/* The real number would make what contains it longer or shorter, depending on the run. */
int ci_sys_process_id(void)
{
    return ci_k.process ? ci_kprocess_id(ci_k.process) : (int)getpid();
}

uint64_t ci_sys_random(void)
{
    return ci_random_next(&ci_k.world->random);
}

void ci_sys_trim_heap(void)
{
}

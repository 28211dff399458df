/* A protocol of lines: a counter for each name. Usage: 16_lines [ADDRESS], then:
 * printf 'add apples 3\nget apples\nquit\n' | nc -N 127.0.0.1 7779 */
#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { NAMES_MAX = 100 };

static struct {
    char name[32];
    long count;
} table[NAMES_MAX];

static coir_mutex lock; /* the workers share the table */

static long *find(const char *name)
{
    for (int i = 0; i < NAMES_MAX; i++) {
        if (!table[i].name[0])
            strcpy(table[i].name, name);
        if (strcmp(table[i].name, name) == 0)
            return &table[i].count;
    }
    return NULL;
}

static int answer(const char *line, char *text, size_t size)
{
    char name[32];
    long n, *count;
    bool adds = sscanf(line, "add %31s %ld", name, &n) == 2,
         gets = sscanf(line, "get %31s", name) == 1;
    if (!adds && !gets)
        return snprintf(text, size, "what?\n");
    int rc = coir_mutex_lock(&lock);
    if (rc < 0)
        return rc;
    if ((count = find(name)) && adds)
        *count += n;
    rc = count ? snprintf(text, size, "%ld\n", *count) : snprintf(text, size, "full\n");
    coir_mutex_unlock(&lock);
    return rc;
}

static int serve(coir_stream *client, void *arg)
{
    coir_reader *reader;
    char *line, text[64];
    (void)arg;
    /* a client that sends longer lines is cut off */
    int rc = coir_reader_new(client, 256, &reader);
    if (rc < 0)
        return rc;
    while ((rc = coir_reader_read_line(reader, &line, NULL)) == 1 && strcmp(line, "quit") != 0) {
        rc = answer(line, text, sizeof text);
        if (rc < 0 || (rc = coir_write_all(client, text, (size_t)rc)) < 0)
            break;
    }
    coir_reader_free(reader);
    return rc < 0 ? rc : 0;
}

static int start(void *address)
{
    printf("counting on %s\n", (const char *)address);
    return coir_serve_tcp(address, serve, NULL);
}

int main(int argc, char **argv)
{
    return coir_main(start, argc > 1 ? argv[1] : "127.0.0.1:7779");
}

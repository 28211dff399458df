/* Copies files into a directory, as cp does, several at a time. Their last names must differ.
 * Usage: 27_copy FILE... DIRECTORY */
#include <coir.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { AT_A_TIME = 8, NEW = O_WRONLY | O_CREAT | O_EXCL };

/* Of all tasks, which share one worker. */
static char **next_path;
static coir_file *directory;
static int error; /* of the last file that could not be copied */

/* A file that is copied onto itself stays as it was. */
static int copy_contents(coir_file *from, coir_file *to, const struct stat *what, bool is_new)
{
    size_t len = what->st_size > 0 ? (size_t)what->st_size : COIR_UNLIMITED; /* 0: not known */
    ssize_t n = coir_file_copy(to, 0, from, 0, len, NULL);
    return n < 0 ? (int)n : is_new ? 0 : coir_file_truncate(to, n);
}

static int copy(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    struct stat what;
    coir_file *from = NULL, *to = NULL;
    int rc = coir_file_open(path, O_RDONLY, 0, &from);
    if (rc == 0 && (rc = coir_file_stat(from, &what)) == 0 && S_ISDIR(what.st_mode))
        rc = -EISDIR;
    if (rc == 0)
        rc = coir_file_open_at(directory, name, NEW, what.st_mode & 0777, &to);
    bool is_new = rc == 0;
    if (rc == -EEXIST)
        rc = coir_file_open_at(directory, name, O_WRONLY, 0, &to);
    if (rc == 0)
        rc = copy_contents(from, to, &what, is_new);
    coir_file_close(from);
    coir_file_close(to);
    return rc;
}

/* Copies one after the other. One that fails does not keep the others back. */
static int copy_some(void *arg)
{
    int rc = 0;
    (void)arg;
    while (*next_path && rc != -ECANCELED) {
        const char *path = *next_path++;
        if ((rc = copy(path)) < 0)
            fprintf(stderr, "%s: %s\n", path, coir_strerror(error = rc));
    }
    return 0;
}

static int start(void *arg)
{
    char **last = next_path = arg;
    while (last[1])
        last++;
    int rc = coir_file_open(*last, O_RDONLY, 0, &directory);
    if (rc < 0)
        return rc;
    *last = NULL;
    {
        COIR_SCOPE(scope);
        for (int i = 0; i < AT_A_TIME && rc == 0; i++)
            rc = coir_go(scope, copy_some, NULL);
        if (rc == 0)
            rc = coir_scope_wait(scope);
    }
    coir_file_close(directory);
    return rc < 0 ? rc : error;
}

int main(int argc, char **argv)
{
    return argc < 3 ? 2 : coir_main(start, argv + 1);
}

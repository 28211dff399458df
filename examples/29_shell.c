/* Runs a program, by default a shell, on a terminal of its own, and writes all that it prints to a
 * file too, as script(1) does.
 * Usage: 29_shell FILE [COMMAND [ARGUMENT...]] */
#include <coir.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static coir_terminal *here; /* the one that this program runs on */
static coir_pty *there;     /* that of the child */

static int pass_keys(void *arg)
{
    (void)arg;
    ssize_t n =
        coir_stream_copy(coir_pty_stream(there), coir_terminal_stream(here), COIR_UNLIMITED, NULL);
    return n < 0 ? (int)n : 0;
}

static int pass_sizes(void *arg)
{
    struct winsize size;
    int rc;
    (void)arg;
    while ((rc = coir_terminal_resized(here, &size)) == 0)
        rc = coir_pty_set_size(there, &size);
    return rc;
}

/* Until no program has its terminal open any more. */
static int pass_output(coir_file *file)
{
    char text[4096];
    ssize_t n;
    int rc = 0;
    while (rc == 0 && (n = coir_read(coir_pty_stream(there), text, sizeof text)) != 0) {
        rc = n < 0 ? (int)n : coir_write_all(coir_terminal_stream(here), text, (size_t)n);
        if (rc == 0)
            rc = coir_file_write_all(file, text, (size_t)n, COIR_POSITION);
    }
    return rc;
}

static int run(coir_process *child, const char *const *command, coir_file *file)
{
    struct winsize size;
    coir_process_options options = COIR_PROCESS_OPTIONS;
    COIR_SCOPE(scope);
    options.terminal = there;
    int rc = coir_terminal_size(here, &size);
    if (rc == 0 && (rc = coir_pty_open(there, &size)) == 0 &&
        (rc = coir_process_spawn_with(child, command, &options)) == 0 &&
        (rc = coir_terminal_set_mode(here, COIR_TERMINAL_RAW)) == 0 &&
        (rc = coir_go(scope, pass_keys, NULL)) == 0 && (rc = coir_go(scope, pass_sizes, NULL)) == 0)
        rc = pass_output(file);
    return rc < 0 ? rc : coir_process_wait(child);
}

static int start(void *arg)
{
    static const char *const shell[] = {"sh", NULL};
    const char *const *arguments = arg;
    coir_file *file = NULL;
    COIR_TERMINAL(terminal); /* however this block is left, it is as it was */
    COIR_PTY(pty);
    COIR_PROCESS(child);
    here = terminal;
    there = pty;
    int rc = coir_file_open(arguments[0], O_WRONLY | O_CREAT | O_TRUNC, 0666, &file);
    if (rc == 0 && (rc = coir_terminal_open(terminal, STDIN_FILENO)) == 0)
        rc = run(child, arguments[1] ? arguments + 1 : shell, file);
    coir_file_close(file);
    return rc < 0 ? rc : 0;
}

int main(int argc, char **argv)
{
    return argc < 2 ? 2 : coir_main(start, argv + 1);
}

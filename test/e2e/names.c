/* Asks for names for test/e2e/names. Usage: names system|c-ares SERVERS DRIVER
 *
 * Each line of the input is a command: "ask NAME" prints the addresses of both families, or the
 * error; "many" has 10,000 tasks ask for n0.many.test to n99.many.test. Answers are kept until the
 * files change. */
#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { NAMES = 100, ASKERS = 10000, FOUND_MAX = 16 };

static void ask(const char *name)
{
    coir_address found[FOUND_MAX];
    char text[80];
    int count = coir_resolve(name, found, FOUND_MAX);
    printf("%s:", name);
    if (count < 0)
        printf(" %s", coir_strerror(count));
    for (int i = 0; i < count && i < FOUND_MAX; i++)
        printf(" %s", coir_address_format(&found[i], text, sizeof text) > 0 ? text : "?");
    puts("");
}

static int ask_numbered(void *arg)
{
    char name[40];
    coir_address one;
    coir_resolve_options options = COIR_RESOLVE_OPTIONS;
    options.family = COIR_IPV4;
    snprintf(name, sizeof name, "n%d.many.test:1", (int)((uintptr_t)arg % NAMES));
    int rc = coir_resolve_with(name, &options, &one, 1);
    return rc == 1 ? 0 : rc < 0 ? rc : -EPROTO;
}

static int ask_many(void)
{
    COIR_SCOPE(scope);
    for (uintptr_t i = 0; i < ASKERS; i++) {
        int rc = coir_go_anywhere(scope, ask_numbered, (void *)i);
        if (rc < 0)
            return rc;
    }
    int rc = coir_scope_wait(scope);
    printf("many: %s\n", coir_strerror(rc));
    return rc;
}

static int read_line(void *line)
{
    return fgets(line, 200, stdin) ? 1 : 0;
}

static int obey(void *arg)
{
    char line[200];
    (void)arg;
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (coir_offload(read_line, line) == 1) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "ask ", 4) == 0)
            ask(line + 4);
        else if (ask_many() < 0)
            return -EIO;
    }
    return 0;
}

int main(int argc, char **argv)
{
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    if (argc != 4)
        return 2;
    config.workers = 2;
    config.resolver = argv[1];
    config.name_servers = argv[2][0] ? argv[2] : NULL;
    config.driver = argv[3];
    config.name_cache_time = COIR_NEVER;
    int rc = coir_runtime_new(&config, &runtime);
    if (rc == -EINVAL && strcmp(argv[1], "c-ares") == 0)
        return 77; /* this coir was built without it */
    if (rc == 0) {
        rc = coir_runtime_run(runtime, obey, NULL);
        coir_runtime_free(runtime);
    }
    if (rc < 0)
        fprintf(stderr, "names: %s\n", coir_strerror(rc));
    return rc < 0;
}

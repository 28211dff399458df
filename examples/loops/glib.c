/* Fibers inside of GLib's main context: a source that is ready when the runtime has work. */
#include <coir.h>
#include <glib-unix.h>
#include <stdio.h>

static int nap(void *arg)
{
    (void)arg;
    return coir_sleep_for(5 * COIR_MS);
}

/* The first task runs on the host's thread, as worker 0; worker 1 has a thread of its own. */
static int start(void *arg)
{
    for (int i = 1; i <= 3; i++) {
        int rc = nap(arg);
        if (rc < 0 || (rc = coir_call_on(1, nap, arg)) < 0)
            return rc;
        printf("fiber: %d\n", i);
    }
    return 0;
}

static coir_runtime *runtime;

/* Before each wait of the context: 0, or the time of the runtime's next timer, in us. */
static gboolean prepare(GSource *source, int *timeout)
{
    coir_time next = coir_runtime_next(runtime);
    *timeout = -1;
    g_source_set_ready_time(source, next == COIR_NEVER ? -1 : (next + 999) / 1000);
    return FALSE;
}

/* The source's descriptor was readable, or its time has come. */
static gboolean dispatch(GSource *source, GSourceFunc quit, void *main_loop)
{
    (void)source;
    if (coir_runtime_step(runtime))
        return G_SOURCE_CONTINUE;
    return quit(main_loop);
}

static GSourceFuncs functions = {.prepare = prepare, .dispatch = dispatch};

static gboolean quit(void *main_loop)
{
    g_main_loop_quit(main_loop);
    return G_SOURCE_REMOVE;
}

static gboolean tick(void *ticks)
{
    ++*(int *)ticks;
    return G_SOURCE_CONTINUE;
}

int main(void)
{
    coir_config config = COIR_CONFIG;
    int ticks = 0;
    config.workers = 2;
    if (coir_runtime_new(&config, &runtime) < 0 || coir_runtime_begin(runtime, start, NULL) < 0)
        return 1;
    GMainLoop *loop = g_main_loop_new(NULL, FALSE);
    GSource *source = g_source_new(&functions, sizeof(GSource));
    g_source_add_unix_fd(source, coir_runtime_fd(runtime), G_IO_IN);
    g_source_set_callback(source, quit, loop, NULL);
    g_source_attach(source, NULL);
    g_timeout_add(1, tick, &ticks);
    g_main_loop_run(loop);
    printf("host: its timer ran beside them%s\n", ticks ? "" : " not");
    g_source_unref(source);
    g_main_loop_unref(loop);
    int rc = coir_runtime_end(runtime);
    coir_runtime_free(runtime);
    return rc < 0;
}

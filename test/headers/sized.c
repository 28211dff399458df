/* Uses every struct that begins with its size. test/e2e/install runs this with libraries in which
 * the structs have a field more or less than in the headers it was compiled with. */
#include <coir.h>
#include <coir/sim.h>
#include <coir/web.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRY(call)                                                                            \
    do {                                                                                     \
        int64_t error_ = (call);                                                             \
        if (error_ < 0) {                                                                    \
            fprintf(stderr, "sized.c:%d: %s: %s\n", __LINE__, #call, coir_strerror(error_)); \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

static void *allocate(size_t bytes, void *arg)
{
    (void)arg;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void release(void *memory, size_t bytes, void *arg)
{
    (void)bytes, (void)arg;
    free(memory);
}

static const coir_allocator allocator = COIR_ALLOCATOR(allocate, release, NULL);

static coir_future *once(coir_future *future)
{
    COIR_BEGIN(future);
    COIR_RETURN(future, 7);
    COIR_END(future);
}

static const coir_future_kind kind = COIR_FUTURE_KIND("once", once, NULL);

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int refuse(coir_stream *stream, void *arg)
{
    (void)stream, (void)arg;
    return 0;
}

/* A filter that changes nothing; its argument is the transport. */
static ssize_t pass_read(void *buf, size_t len, int *events, void *arg)
{
    (void)events;
    return coir_try_read(arg, buf, len);
}

static ssize_t pass_write(const void *buf, size_t len, int *events, void *arg)
{
    (void)events;
    return coir_try_write(arg, buf, len);
}

static int pass_flush(void *arg)
{
    (void)arg;
    return 0;
}

static bool pass_readable(int *events, void *arg)
{
    (void)events, (void)arg;
    return true;
}

static int pass_end(void *arg)
{
    return coir_shutdown_write(arg);
}

static void pass_free(void *arg)
{
    (void)arg;
}

static const coir_filter_kind pass =
    COIR_FILTER_KIND(pass_read, pass_write, pass_flush, pass_readable, pass_end, pass_free);

static void filters(void)
{
    coir_stream *a, *b, *over;
    char word[5];
    TRY(coir_duplex(0, &a, &b));
    TRY(coir_filter_new(&pass, a, a, &over));
    TRY(coir_write_all(over, "hello", 5));
    TRY(coir_read(b, word, 5) == 5 ? 0 : -EPROTO);
    coir_close(over);
    coir_close(b);
}

/* Servers and what serves them; each is stopped by a deadline. */
static void servers(void)
{
    coir_listen_options listening = COIR_LISTEN_OPTIONS;
    coir_listener *listener;
    TRY(coir_tcp_listen_with("127.0.0.1:0", &listening, &listener));
    coir_serve_tcp_options tcp = COIR_SERVE_TCP_OPTIONS;
    tcp.listener = listener;
    coir_router_options routing = COIR_ROUTER_OPTIONS;
    routing.allocator = &allocator;
    coir_router *router;
    TRY(coir_router_new_with(&routing, &router));
    coir_serve_http_options http = COIR_SERVE_HTTP_OPTIONS;
    http.address = "127.0.0.1:0";
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        if (coir_serve_tcp_with(&tcp, refuse, NULL) != -ETIME)
            TRY(-EPROTO);
    }
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        if (coir_serve_http_with(&http, router) != -ETIME)
            TRY(-EPROTO);
    }
    struct {
        coir_http_counters counters;
        uint64_t behind;
    } http_got = {COIR_HTTP_COUNTERS, 1};
    TRY(coir_http_counters_get(&http_got.counters));
    TRY(http_got.behind == 1 ? 0 : -EFAULT);
    coir_listener_close(listener);
    coir_router_free(router);
}

static int in_a_fiber(void *arg)
{
    (void)arg;
    coir_channel_options sending = COIR_CHANNEL_OPTIONS;
    sending.item_size = sizeof(int);
    sending.capacity = 1;
    coir_channel *channel;
    TRY(coir_channel_new_with(&sending, &channel));
    coir_channel_free(channel);
    coir_topic_options publishing = COIR_TOPIC_OPTIONS;
    publishing.item_size = sizeof(int);
    coir_topic *topic;
    TRY(coir_topic_new_with(&publishing, &topic));
    coir_topic_free(topic);
    coir_topic_tree_options naming = COIR_TOPIC_TREE_OPTIONS;
    naming.item_size = sizeof(int);
    coir_topic_tree *tree;
    TRY(coir_topic_tree_new_with(&naming, &tree));
    coir_topic_tree_free(tree);

    COIR_SCOPE(scope);
    COIR_HANDLE(handle);
    coir_go_options going = COIR_GO_OPTIONS;
    going.handle = handle;
    TRY(coir_go_with(scope, &going, nothing, NULL));
    TRY(coir_join(handle));
    coir_future future;
    TRY(coir_await(coir_future_init(&future, &kind)) == 7 ? 0 : -EPROTO);

    coir_parker parker;
    TRY(coir_parker_init(&parker));
    coir_waker waker = coir_parker_waker(&parker), copy = coir_waker_clone(&waker);
    TRY(coir_waker_will_wake(&waker, &copy) ? 0 : -EPROTO);
    coir_waker_drop(waker);
    coir_waker_wake(copy);
    TRY(coir_parker_wait(&parker));
    coir_parker_done(&parker);
    filters();
    servers();
    return coir_scope_wait(scope);
}

static int scenario(coir_sim *sim, void *arg)
{
    coir_sim_link(sim, NULL, NULL, (coir_link){.latency = 2 * COIR_MS});
    coir_sim_faults(sim, NULL, (coir_faults){.late = 0.1});
    return coir_sim_host_main(sim, "host", in_a_fiber, arg);
}

static void simulated(void)
{
    coir_sim_options options = COIR_SIM_OPTIONS;
    static struct {
        coir_sim_result result;
        uint64_t behind;
    } got = {COIR_SIM_RESULT, 1};
    TRY(coir_sim_run(&options, scenario, NULL, &got.result));
    TRY(got.behind == 1 ? 0 : -EFAULT);
}

static void without_a_runtime(void)
{
    coir_loop_options looping = COIR_LOOP_OPTIONS;
    looping.allocator = &allocator;
    coir_loop *loop;
    TRY(coir_loop_new_with(&looping, &loop));
    TRY(coir_loop_run(loop));
    coir_loop_free(loop);
    coir_poller_options polling = COIR_POLLER_OPTIONS;
    coir_poller *poller;
    TRY(coir_poller_new_with(&polling, &poller));
    coir_poller_free(poller);
}

int main(void)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.allocator = &allocator;
    coir_runtime *runtime;
    TRY(coir_runtime_new(&config, &runtime));
    TRY(coir_runtime_run(runtime, in_a_fiber, NULL));
    struct {
        coir_counters counters;
        uint64_t behind;
    } got = {COIR_COUNTERS, 1};
    TRY(coir_counters_get(runtime, &got.counters));
    TRY(got.behind == 1 && got.counters.tasks_started > 0 ? 0 : -EFAULT);
    coir_runtime_free(runtime);
    without_a_runtime();
    simulated();
    puts("every struct was accepted");
    return 0;
}

/* Programs that were compiled against an older coir, whose structs are a field shorter, and against
 * a newer one, whose structs are longer. The structs end where memory ends: what is behind them is
 * not looked at. */
#include "base/options.h"

#include <coir.h>
#include <coir/web.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "harness.h"

enum { GROWN = 24 }; /* bytes of a future version's fields */

static char *page;
static size_t page_size;

/* `size` bytes at the end of memory, which begin with `bytes` and are zero after that. */
static void *at_the_end(const void *bytes, size_t len, size_t size)
{
    if (!page) {
        page_size = (size_t)sysconf(_SC_PAGESIZE);
        page =
            mmap(NULL, 2 * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(page != MAP_FAILED);
        CHECK_EQ(mprotect(page + page_size, page_size, PROT_NONE), 0);
    }
    CHECK(size <= page_size);
    char *at = page + page_size - size;
    memset(at, 0, size);
    if (len)
        memcpy(at, bytes, len < size ? len : size);
    memcpy(at, &size, sizeof size < len ? sizeof size : len);
    return at;
}

/* An older struct ended where a word does. */
static size_t size_before(size_t field)
{
    return field / sizeof(size_t) * sizeof(size_t);
}

/* Of structs that were not set to their initialiser; or which end inside of a field. */
static const size_t never_sizes[] = {
    0, 1, 7, sizeof(size_t) + 1, 8 << 20, SIZE_MAX, SIZE_MAX - 7, SIZE_MAX / 2 + 1};

/* Every function that takes options: what it answers to options of this version. */
typedef int call_fn(const void *options);

static void take_each_size(call_fn *call, const void *initial, size_t size, size_t last_field)
{
    int answer = call(at_the_end(initial, size, size));
    CHECK(answer != -COIR_EUNSIZED && answer != -COIR_ENEWER && answer != -EINVAL);
    /* an older program's */
    CHECK_EQ(call(at_the_end(initial, size, size_before(last_field))), answer);
    CHECK_EQ(call(at_the_end(initial, size, size + GROWN)), answer);
    for (size_t at = size; at < size + GROWN; at++) {
        char *newer = at_the_end(initial, size, size + GROWN);
        newer[at] = 1;
        CHECK_EQ(call(newer), -COIR_ENEWER);
    }
    for (size_t i = 0; i < sizeof never_sizes / sizeof *never_sizes; i++) {
        char *bare = at_the_end(initial, size, size);
        memcpy(bare, &never_sizes[i], sizeof never_sizes[i]);
        CHECK_EQ(call(bare), -COIR_EUNSIZED);
    }
}

#define TAKE_EACH_SIZE(call, type, initialiser, last) \
    take_each_size(call, &(type)initialiser, sizeof(type), offsetof(type, last))

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int serve_nobody(coir_stream *stream, void *arg)
{
    (void)stream, (void)arg;
    return 0;
}

static int call_go_with(const void *options)
{
    COIR_SCOPE(scope);
    int rc = coir_go_with(scope, options, nothing, NULL);
    return rc < 0 ? rc : coir_scope_wait(scope);
}

static int call_go_future_with(const void *options)
{
    coir_sleep_op sleep;
    COIR_SCOPE(scope);
    int rc = coir_go_future_with(scope, options, coir_sleep_for_op(&sleep, 1));
    return rc < 0 ? rc : coir_scope_wait(scope);
}

static int call_channel_new_with(const void *options)
{
    coir_channel *channel;
    int rc = coir_channel_new_with(options, &channel);
    if (rc == 0)
        coir_channel_free(channel);
    return rc;
}

static int call_topic_new_with(const void *options)
{
    coir_topic *topic;
    int rc = coir_topic_new_with(options, &topic);
    if (rc == 0)
        coir_topic_free(topic);
    return rc;
}

static int call_topic_tree_new_with(const void *options)
{
    coir_topic_tree *tree;
    int rc = coir_topic_tree_new_with(options, &tree);
    if (rc == 0)
        coir_topic_tree_free(tree);
    return rc;
}

static int call_tcp_listen_with(const void *options)
{
    coir_listener *listener;
    int rc = coir_tcp_listen_with("127.0.0.1:0", options, &listener);
    if (rc == 0)
        coir_listener_close(listener);
    return rc;
}

/* Options that are accepted are served with until the deadline. */
static int call_serve_tcp_with(const void *options)
{
    COIR_DEADLINE(coir_in(COIR_MS));
    return coir_serve_tcp_with(options, serve_nobody, NULL);
}

static int call_serve_http_with(const void *options)
{
    coir_router *router;
    CHECK_EQ(coir_router_new(&router), 0);
    COIR_DEADLINE(coir_in(COIR_MS));
    int rc = coir_serve_http_with(options, router);
    coir_router_free(router);
    return rc;
}

static int call_router_new_with(const void *options)
{
    coir_router *router;
    int rc = coir_router_new_with(options, &router);
    if (rc == 0)
        coir_router_free(router);
    return rc;
}

TEST_REAL(options_of_any_size_in_a_fiber)
{
    TAKE_EACH_SIZE(call_go_with, coir_go_options, COIR_GO_OPTIONS, copy_size);
    TAKE_EACH_SIZE(call_go_future_with, coir_go_options, COIR_GO_OPTIONS, copy_size);
    coir_channel_options channel = COIR_CHANNEL_OPTIONS;
    channel.item_size = 8;
    take_each_size(call_channel_new_with, &channel, sizeof channel,
                   offsetof(coir_channel_options, arg));
    coir_topic_options topic = COIR_TOPIC_OPTIONS;
    topic.item_size = 8;
    take_each_size(call_topic_new_with, &topic, sizeof topic, offsetof(coir_topic_options, arg));
    coir_topic_tree_options tree = COIR_TOPIC_TREE_OPTIONS;
    tree.item_size = 8;
    take_each_size(call_topic_tree_new_with, &tree, sizeof tree,
                   offsetof(coir_topic_tree_options, levels_max));
    TAKE_EACH_SIZE(call_tcp_listen_with, coir_listen_options, COIR_LISTEN_OPTIONS, ipv6_only);
    coir_serve_tcp_options tcp = COIR_SERVE_TCP_OPTIONS;
    tcp.address = "127.0.0.1:0";
    take_each_size(call_serve_tcp_with, &tcp, sizeof tcp,
                   offsetof(coir_serve_tcp_options, drain_timeout));
    coir_serve_http_options http = COIR_SERVE_HTTP_OPTIONS;
    http.address = "127.0.0.1:0";
    take_each_size(call_serve_http_with, &http, sizeof http,
                   offsetof(coir_serve_http_options, end_cancels));
    TAKE_EACH_SIZE(call_router_new_with, coir_router_options, COIR_ROUTER_OPTIONS, allocator);
}

static int call_runtime_new(const void *config)
{
    coir_runtime *runtime;
    int rc = coir_runtime_new(config, &runtime);
    if (rc == 0)
        coir_runtime_free(runtime);
    return rc;
}

static int call_loop_new_with(const void *options)
{
    coir_loop *loop;
    int rc = coir_loop_new_with(options, &loop);
    if (rc == 0)
        coir_loop_free(loop);
    return rc;
}

static void no_timer(coir_loop *loop, coir_timer *timer, void *arg)
{
    (void)loop, (void)timer, (void)arg;
}

static int call_timer_start_with(const void *options)
{
    coir_loop *loop;
    coir_timer timer = {{0}};
    CHECK_EQ(coir_loop_new(&loop), 0);
    int rc = coir_timer_start_with(loop, &timer, options, no_timer, NULL);
    coir_loop_free(loop);
    return rc;
}

static int call_poller_new_with(const void *options)
{
    coir_poller *poller;
    int rc = coir_poller_new_with(options, &poller);
    if (rc == 0)
        coir_poller_free(poller);
    return rc;
}

static int no_scenario(coir_sim *sim, void *arg)
{
    (void)sim, (void)arg;
    return 0;
}

static int call_sim_run(const void *options)
{
    return coir_sim_run(options, no_scenario, NULL, NULL);
}

static int call_with_allocator(const void *allocator)
{
    coir_loop_options options = COIR_LOOP_OPTIONS;
    options.allocator = allocator;
    return call_loop_new_with(&options);
}

TEST(options_of_any_size_outside)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    take_each_size(call_runtime_new, &config, sizeof config, offsetof(coir_config, environment));
    TAKE_EACH_SIZE(call_loop_new_with, coir_loop_options, COIR_LOOP_OPTIONS, allocator);
    TAKE_EACH_SIZE(call_timer_start_with, coir_timer_options, COIR_TIMER_OPTIONS, weak);
    TAKE_EACH_SIZE(call_poller_new_with, coir_poller_options, COIR_POLLER_OPTIONS, allocator);
    TAKE_EACH_SIZE(call_sim_run, coir_sim_options, COIR_SIM_OPTIONS, choose_faults);
    coir_allocator allocator = COIR_ALLOCATOR(NULL, NULL, NULL);
    CHECK_EQ(ci_allocator_read(&allocator, NULL), 0);
    take_each_size(call_with_allocator, &allocator, sizeof allocator,
                   offsetof(coir_allocator, arg));
}

/* An older program's options mean what they meant: fields behind their end have the default. */
TEST(what_is_not_given_has_its_default)
{
    coir_config config = COIR_CONFIG, given = COIR_CONFIG;
    config.budget = 7;
    given.workers = 3;
    given.budget = 9;
    given.size = offsetof(coir_config, budget);
    CHECK_EQ(ci_options_read(&config, sizeof config, &given), 0);
    CHECK(config.workers == 3 && config.budget == 7 && config.size == sizeof config);
}

/* ---- allocators of what has no runtime ---- */

static size_t lives, made;

static void *count_alloc(size_t size, void *arg)
{
    CHECK(arg == &lives);
    void *memory = ci_system_allocator.alloc(size, NULL);
    lives += memory ? size : 0;
    made++;
    return memory;
}

static void count_free(void *memory, size_t size, void *arg)
{
    CHECK(arg == &lives);
    lives -= size;
    ci_system_allocator.free(memory, size, NULL);
}

static int never_handle(coir_request *req, coir_response *res, void *arg)
{
    (void)req, (void)res, (void)arg;
    return 0;
}

/* The allocator is copied; everything is from it, and goes back to it with its size. */
TEST(an_allocator_of_ones_own)
{
    coir_allocator counting = COIR_ALLOCATOR(count_alloc, count_free, &lives);
    coir_poller_options poller_options = {sizeof poller_options, NULL, &counting};
    coir_loop_options loop_options = {sizeof loop_options, NULL, &counting};
    coir_router_options router_options = {sizeof router_options, &counting};
    coir_poller *poller;
    coir_loop *loop;
    coir_router *router;
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(coir_poller_new_with(&poller_options, &poller), 0);
    CHECK_EQ(coir_loop_new_with(&loop_options, &loop), 0);
    CHECK_EQ(coir_router_new_with(&router_options, &router), 0);
    counting = (coir_allocator){0};
    size_t before = made;
    CHECK_EQ(coir_poller_add(poller, ends[0], 1, COIR_READ), 0);
    CHECK_EQ(coir_route(router, "GET", "/", never_handle, NULL), 0);
    CHECK(before >= 3 && made >= before + 2);
    coir_poller_remove(poller, ends[0]);
    coir_poller_free(poller);
    coir_loop_free(loop);
    coir_router_free(router);
    CHECK_EQ(lives, 0);
}

/* ---- structs that are filled in ---- */

static int call_counters(coir_runtime *runtime, void *counters)
{
    return coir_counters_get(runtime, counters);
}

static void fill_in_each_size(int (*call)(coir_runtime *, void *), coir_runtime *runtime,
                              size_t size, size_t last_field)
{
    char ones[512];
    memset(ones, 1, sizeof ones);
    char *grown = at_the_end(ones, sizeof ones, size + GROWN);
    CHECK_EQ(call(runtime, grown), 0);
    for (size_t at = size; at < size + GROWN; at++)
        CHECK_EQ(grown[at], 0); /* a later version's counters: not counted */
    char *shorter = at_the_end(ones, sizeof ones, last_field);
    CHECK_EQ(call(runtime, shorter), 0);
    size_t same;
    memcpy(&same, shorter, sizeof same);
    CHECK_EQ(same, last_field);
    for (size_t i = 0; i < sizeof never_sizes / sizeof *never_sizes; i++) {
        memcpy(shorter, &never_sizes[i], sizeof never_sizes[i]);
        CHECK_EQ(call(runtime, shorter), -COIR_EUNSIZED);
    }
}

static int call_http_counters(coir_runtime *runtime, void *counters)
{
    (void)runtime;
    return coir_http_counters_get(counters);
}

TEST_REAL(results_of_any_size)
{
    coir_runtime *here = coir_runtime_current();
    fill_in_each_size(call_counters, here, sizeof(coir_counters),
                      offsetof(coir_counters, task_errors));
    fill_in_each_size(call_http_counters, here, sizeof(coir_http_counters),
                      offsetof(coir_http_counters, errors_sent));
    coir_counters counters = COIR_COUNTERS;
    CHECK_EQ(coir_counters_get(here, &counters), 0);
    CHECK_EQ(counters.tasks_live, 1);
}

enum { FAULTS = 20 };

static int fail_to_open(void *arg)
{
    (void)arg;
    coir_udp *udp;
    for (int i = 0; i < FAULTS; i++)
        CHECK(coir_udp_open("127.0.0.1:0", NULL, &udp) < 0);
    return 0;
}

static int faulty_scenario(coir_sim *sim, void *arg)
{
    (void)arg;
    coir_sim_faults(sim, NULL, (coir_faults){.no_descriptor = 1});
    return coir_sim_host_main(sim, "host", fail_to_open, NULL);
}

/* An older program's result holds the first fields, and so many of the faults as it has room
 * for. */
TEST(a_shorter_result_of_a_simulation)
{
    coir_sim_options options = COIR_SIM_OPTIONS;
    static coir_sim_result whole = COIR_SIM_RESULT;
    CHECK_EQ(coir_sim_run(&options, faulty_scenario, NULL, &whole), 0);
    CHECK_EQ(whole.fault_count, FAULTS);
    CHECK(whole.steps && whole.trace_hash && whole.faults[FAULTS - 1]);
    for (size_t size = sizeof(size_t); size < offsetof(coir_sim_result, faults[FAULTS]);
         size += sizeof(size_t)) {
        char *shorter = at_the_end(NULL, 0, size);
        memcpy(shorter, &size, sizeof size);
        CHECK_EQ(coir_sim_run(&options, faulty_scenario, NULL, (coir_sim_result *)(void *)shorter),
                 0);
        size_t at = sizeof size;
        CHECK(memcmp(shorter + at, (const char *)&whole + at, size - at) == 0);
    }
}

TEST(the_result_of_a_simulation)
{
    coir_sim_options options = COIR_SIM_OPTIONS;
    static union {
        coir_sim_result result;
        char bytes[sizeof(coir_sim_result) + GROWN];
    } given;
    for (size_t i = 0; i < sizeof never_sizes / sizeof *never_sizes; i++) {
        given.result.size = never_sizes[i];
        CHECK_EQ(coir_sim_run(&options, no_scenario, NULL, &given.result), -COIR_EUNSIZED);
    }
    given.result.size = offsetof(coir_sim_result, left);
    given.result.left[0] = 'x';
    CHECK_EQ(coir_sim_run(&options, no_scenario, NULL, &given.result), 0);
    CHECK_EQ(given.result.left[0], 'x');
    given.result.size = sizeof given.bytes;
    given.bytes[sizeof given.bytes - 1] = 'x';
    CHECK_EQ(coir_sim_run(&options, no_scenario, NULL, &given.result), 0);
    CHECK_EQ(given.result.left[0], '\0');
    CHECK_EQ(given.bytes[sizeof given.bytes - 1], '\0'); /* a later version's field */
}

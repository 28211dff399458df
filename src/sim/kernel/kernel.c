/* The simulated kernel as a whole: its start, with settings drawn from the seed, and its end. */
#include "sim/kernel/socket.h"

#include "sim/kernel.h"
#include "sys/stack.h"

static uint32_t one_of(const uint32_t *rates, size_t count)
{
    return rates[ci_kbelow(count)];
}

static void choose_settings(void)
{
    static const uint32_t yields[] = {2, 8, 64, 1000}, points[] = {0, 50, 500, 5000},
                          interrupts[] = {0, 0, 30, 300}, spins[] = {2000, 20000, 100000};
    enum { AWAKE_MOST = 100000 }; /* some hundredths of a second */
    static const uint32_t spurious[] = {0, 5, 100}, at_once[] = {0, 2, 8, 1},
                          parts[] = {0, 2, 8, 50}, sizes[] = {1, 4, 7}, lates[] = {0, 2, 10},
                          datagrams[] = {2, 11, 513};
    ci_k.settings = (struct ci_ksettings){
        .yield_one_in = one_of(yields, ci_countof(yields)),
        .point_one_in = one_of(points, ci_countof(points)),
        .interrupt_one_in = one_of(interrupts, ci_countof(interrupts)),
        .spurious_one_in = one_of(spurious, ci_countof(spurious)),
        .at_once_one_in = one_of(at_once, ci_countof(at_once)),
        .spin_most = one_of(spins, ci_countof(spins)),
        .late_one_in = one_of(lates, ci_countof(lates)),
        .part_one_in = one_of(parts, ci_countof(parts)),
        .buffer_sizes = one_of(sizes, ci_countof(sizes)),
        .datagrams_most = one_of(datagrams, ci_countof(datagrams)),
        .awake_most = AWAKE_MOST,
        .adopts = ci_kone_in(2),
        .no_reaper = ci_kone_in(4),
        .tells_of_reaped = ci_kone_in(2),
        .lookups_block = ci_kone_in(2),
    };
}

void ci_kcalm(void)
{
    struct ci_ksettings *settings = &ci_k.settings;
    settings->interrupt_one_in = settings->spurious_one_in = settings->part_one_in =
        settings->late_one_in = settings->buffer_sizes = settings->awake_most = 0;
    settings->at_once_one_in = 1;
    settings->lookups_block = false;
    settings->datagrams_most = 11;
    ci_krings_calm();
}

/* Forces lookups that the library makes once per process and caches. They take atomic operations,
 * which are counted: otherwise a second run of the seed would have fewer. */
static void ask_once(void)
{
    struct ci_stacks stacks;
    ci_stacks_init(&stacks, &ci_system_allocator, 1, 1);
}

static void open_kernel(struct ci_world *world, coir_time time_max, void **const *locals,
                        int local_count)
{
    ci_k = (struct ci_kernel){.world = world, .time_max = time_max};
    ask_once();
    choose_settings();
    ci_krings_open();
    ci_kthreads_open(locals, local_count);
}

static void close_kernel(void)
{
    ci_kthreads_close();
    ci_kprocesses_free();
    ci_krings_free();
    ci_kchildren_free();
    ci_kunix_free_all();
    ci_ksocket_free_all();
    ci_k.world = NULL;
}

static const struct ci_sim_kernel kernel = {
    .open = open_kernel,
    .close = close_kernel,
    .start = ci_kprocess_start,
    .ended = ci_kprocess_ended,
    .run = ci_kthreads_run,
    .as = ci_kprocess_as,
    .links_changed = ci_knetwork_links_changed,
    .dump = ci_kthreads_dump,
    .audit = ci_kprocess_audit,
};

const struct ci_sim_kernel *const ci_sim_kernel = &kernel;

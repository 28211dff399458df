/* The random programs of test/programs, which run on the real drivers too (test/e2e/programs), in a
 * simulated world: every act says what its actors must have seen, whatever ran below.
 *
 * What must hold:
 * 1. What each act says: nothing twice, nothing out of order, everything accounted for.
 * 2. What nothing has interrupted is complete, and every program ends. */
#include "programs/program.h"
#include "sim/must.h"
#include "sim/scenario.h"

static struct program *program;

/* Here it is known how many workers there are. */
static int draw_and_run(void *arg)
{
    coir_sim *sim = arg;
    size_t workers = coir_worker_count(coir_runtime_current());
    program = program_draw(coir_sim_random(sim), "sim", (unsigned)workers, NULL);
    MUST(program);
    coir_sim_link(sim, NULL, NULL, program->link);
    coir_sim_faults(sim, NULL, (coir_faults){.late = program->late});
    decoys_init(&program->runs[0]);
    return program_run(&program->runs[0]);
}

int scenario(coir_sim *sim)
{
    MUST_BE(coir_sim_host_main(sim, "host", draw_and_run, sim), 0);
    program_check(program);
    decoys_check(&program->runs[0]);
    decoys_free(&program->runs[0]);
    program_free(program);
    return 0;
}

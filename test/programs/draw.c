/* A seed becomes a program, and a program text. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

const char *const life_names[] = {"plain",   "abrupt",  "twice", "pair",
                                  "stepped", "stopped", "early", "signal"};
static const char *const way_names[] = {
    "call",      "deadline",     "select",   "select in order", "await",
    "any",       "any in order", "call any", "task joined",     "task cancelled",
    "stackless", "generator",    "shield"};
static const char *const hurry_names[] = {"", ", cancelled after %u us", ", deadline after %u us",
                                          ", its task cancelled after %u us"};

/* ---- scripts ---- */

void script_draw(struct script *script, struct ci_random *random)
{
    script->count = (int)draw_from(random, 1, STEPS_MOST);
    for (int i = 0; i < script->count; i++)
        script->steps[i] = (struct step){
            .way = (uint8_t)(draw(random, 3) ? draw(random, WAY_CALL_ANY) : draw(random, WAYS)),
            .decoys = (uint8_t)draw(random, 256),
            .place = (uint8_t)draw(random, 8),
            .rest = (uint8_t)draw(random, 12),
            .us = draw(random, 1u << draw(random, 11)),
        };
}

static void print_step(const struct step *step, FILE *file)
{
    fprintf(file, "%s", way_names[step->way]);
    switch ((enum way)step->way) {
    case WAY_SELECT:
    case WAY_SELECT_IN_ORDER:
    case WAY_ANY:
    case WAY_ANY_IN_ORDER:
        fprintf(file, "(%u us, decoys %02x at %u)", step->us, step->decoys, step->place);
        break;
    case WAY_DEADLINE:
    case WAY_CALL_ANY:
    case WAY_TASK_CANCEL:
    case WAY_SHIELD: fprintf(file, "(%u us)", step->us); break;
    default: break;
    }
    if (step->rest < 6)
        fprintf(file, " rest %u", step->rest);
}

void script_print(const struct script *script, FILE *file)
{
    for (int i = 0; i < script->count; i++) {
        fprintf(file, "%s", i ? "; " : "");
        print_step(&script->steps[i], file);
    }
}

/* ---- acts ---- */

static const struct act_kind *draw_kind(struct ci_random *random)
{
    unsigned sum = 0;
    for (int i = 0; act_kinds[i]; i++)
        sum += act_kinds[i]->weight;
    unsigned at = draw(random, sum);
    for (int i = 0;; i++) {
        if (at < act_kinds[i]->weight)
            return act_kinds[i];
        at -= act_kinds[i]->weight;
    }
}

static int draw_worker(struct ci_random *random, unsigned workers)
{
    unsigned which = draw(random, workers + 2);
    return which < workers    ? COIR_ON_WORKER((int)which)
           : which == workers ? COIR_HERE
                              : COIR_ANYWHERE;
}

static void draw_actor(struct act *act, int number, struct ci_random *random, unsigned workers)
{
    struct actor *actor = &act->actors[number];
    *actor = (struct actor){.act = act, .number = number};
    actor->place = draw_worker(random, workers);
    actor->thread = draw(random, 4) == 0;
    script_draw(&actor->script, random);
    actor->random.state = ci_random_next(random);
}

static int draw_act(struct program *program, int number, struct ci_random *of_program)
{
    struct act *act = &program->acts[number];
    struct ci_random random = {ci_random_next(of_program)};
    *act = (struct act){.number = number, .seed = random.state};
    act->kind = draw_kind(&random);
    act->run = &program->runs[number % program->run_count];
    act->hurry = draw(&random, 3) ? HURRY_NOT : (enum hurry)draw(&random, HURRY_HANDLE + 1);
    act->hurry_us = draw(&random, 1u << draw(&random, 14));
    act->serving = draw(&random, 2);
    act->place = draw_worker(&random, program->workers);
    act->any_thread = !program->simulated;
    act->actor_count = (int)draw_from(&random, act->kind->actors_least, act->kind->actors_most);
    for (int i = 0; i < act->actor_count; i++)
        draw_actor(act, i, &random, program->workers);
    act->left_out = act->kind->real && program->simulated;
    return act->kind->draw ? act->kind->draw(act, &random) : 0;
}

/* ---- the program ---- */

static void draw_world(struct program *program, struct ci_random *random)
{
    static const coir_time latencies[] = {0, 10 * COIR_US, 500 * COIR_US, 20 * COIR_MS};
    static const double parts[] = {0, 0, 0.1, 0.5};
    program->link.latency = latencies[draw(random, 4)];
    program->link.jitter = latencies[draw(random, 4)];
    program->link.bandwidth = draw(random, 3) ? 0 : 100000 + draw(random, 10000000);
    program->link.short_io = parts[draw(random, 4)];
    program->late = parts[draw(random, 4)];
}

struct program *program_draw(uint64_t seed, const char *driver, unsigned workers, const char *lives)
{
    struct program *program = calloc(1, sizeof *program);
    if (!program)
        return NULL;
    struct ci_random random = {seed * 0x2545f4914f6cdd1du + 1};
    program->seed = seed;
    program->driver = driver;
    program->simulated = strcmp(driver, "sim") == 0;
    unsigned drawn_workers = draw_from(&random, 1, WORKERS_MOST), life = draw(&random, 2 * LIVES);
    program->workers = workers ? workers : drawn_workers;
    program->life = life < LIVES ? (enum life)life : LIFE_PLAIN;
    if (lives && !strstr(lives, life_names[program->life]))
        program->life = LIFE_PLAIN;
    if (program->simulated && program->life > LIFE_ABRUPT)
        program->life = LIFE_PLAIN;
    if (program->life == LIFE_STEPPED && strcmp(driver, "epoll") != 0)
        program->life = LIFE_PLAIN;
    program->run_count =
        program->life == LIFE_TWICE || program->life == LIFE_PAIR || program->life == LIFE_SIGNAL
            ? 2
            : 1;
    program->stops = program->life >= LIFE_STOPPED;
    program->deadlock_ends = draw(&random, 3) && !program->stops;
    program->budget = draw(&random, 3) ? 0 : draw_from(&random, 1, 20);
    program->offload_threads = draw(&random, 2) ? 0 : draw_from(&random, 1, 3);
    program->late_allowed = !program->simulated && (!lives || strstr(lives, "late"));
    program->late_call = draw(&random, 4) == 0 && program->late_allowed;
    program->stop_us = draw(&random, draw(&random, 2) ? 100 : 1u << draw(&random, 15));
    program->start_us = draw(&random, 2) ? 0 : draw(&random, 200);
    program->fail_at = draw(&random, 6) ? 0 : draw_from(&random, 1, 15 * program->workers + 20);
    draw_world(program, &random);
    program->act_count = (int)draw_from(&random, 1, ACTS_MOST);
    for (int i = 0; i < program->run_count; i++)
        program->runs[i] = (struct run){.program = program, .number = i};
    for (int i = 0; i < program->act_count; i++)
        if (draw_act(program, i, &random) < 0)
            program_fail(&program->acts[i], "the act cannot be made");
    return program;
}

void program_free(struct program *program)
{
    for (int i = 0; i < program->act_count; i++)
        if (program->acts[i].kind->free)
            program->acts[i].kind->free(&program->acts[i]);
    free(program);
}

static void print_worker(int place, FILE *file)
{
    if (place == COIR_HERE)
        fprintf(file, "here");
    else if (place == COIR_ANYWHERE)
        fprintf(file, "anywhere");
    else
        fprintf(file, "on %d", place - COIR_ON_WORKER(0));
}

static void print_act(const struct act *act, FILE *file)
{
    fprintf(file, "act %d: %s%s, ", act->number, act->left_out ? "(left out) " : "",
            act->kind->name);
    print_worker(act->place, file);
    if (act->run->program->run_count > 1)
        fprintf(file, ", run %d", act->run->number);
    if (act->serving)
        fprintf(file, ", serving");
    fprintf(file, hurry_names[act->hurry], act->hurry_us);
    if (act->kind->print)
        act->kind->print(act, file);
    fprintf(file, "\n");
    for (int i = 0; i < act->actor_count && !act->left_out; i++) {
        const struct actor *actor = &act->actors[i];
        fprintf(file, "  actor %d %s", i, actor->thread ? "(a thread, where it may be) " : "");
        print_worker(actor->place, file);
        fprintf(file, ": ");
        script_print(&actor->script, file);
        fprintf(file, "\n");
    }
}

void program_print(const struct program *program, FILE *file)
{
    fprintf(file, "program %llu: %s, %u workers, %s", (unsigned long long)program->seed,
            program->driver, program->workers, life_names[program->life]);
    if (program->stops)
        fprintf(file, " after %u us", program->stop_us);
    if (program->deadlock_ends)
        fprintf(file, ", deadlocks end it");
    if (program->budget)
        fprintf(file, ", budget %u", program->budget);
    if (program->offload_threads)
        fprintf(file, ", %u offload threads", program->offload_threads);
    if (program->late_call)
        fprintf(file, ", a call after its end");
    if (program->fail_at && !program->simulated)
        fprintf(file, ", allocation %u fails while it starts", program->fail_at);
    fprintf(file, "\n");
    for (int i = 0; i < program->act_count; i++)
        print_act(&program->acts[i], file);
}

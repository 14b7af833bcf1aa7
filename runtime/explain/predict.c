/* SPDX-License-Identifier: Apache-2.0 */
/* Predicts the time of a kernel from what its launches require of each part of a device. The
 * purpose is to rank schedules before any of them runs, not to give exact times.
 *
 * A launch waits for global memory, L2 and arithmetic, which overlap as all resources of the cost
 * model do (passes/analysis/cost_model.h). The speed
 * of memory depends on the bytes in flight: each multiprocessor needs its fraction of bandwidth
 * times latency (Little's law). Work on the multiprocessors takes as long as on the one with most
 * blocks. A dot that the tile model covers takes the time of that model.
 *
 * For a CPU, a core takes the place of a multiprocessor and its caches the place of L2. Each block
 * and each contiguous run of memory has a startup cost, and packing the operands of dots is added.
 */
#include "runtime/explain/explain_occupancy.h"

#include "ir/target/machine.h"
#include "passes/analysis/cost_model.h"
#include "runtime/explain/explain_point.h"

#include <math.h>

static const double WARP_ACCESSES = 4; /* accesses of a warp that are under way at once */
/* Fitted to sweeps on the H200 (docs/lab/tuning_sweeps.md): of a multiprocessor's blocks, what the
 * last round loses; what a ring of one slot adds to a product's time, by the square of its
 * slots. */
static const double LAST_ROUND = 0.5, UNHIDDEN = 0.3;
static const double ABOUT = 1.1; /* times what a walk through a tensor once moves: edges */

enum { SUMS = 8 /* of a reduction, where no line says how many */ };

/* ---- GPUs ---- */

typedef struct Gpu {
    double clock, units, start;
} Gpu;

/* While the matrix units rest, power allows the highest clock: that of the part's f32 rate. */
static double thread_clock(const Report *report)
{
    return report->card->clock * 1e6;
}

/* How much longer than if all multiprocessors had as much to do. */
static double imbalance(const LaunchReport *launch, double units)
{
    double blocks = (double)launch->blocks, each = ceil(blocks / units);
    if (launch->plan->persistent && launch->product.op) { /* in whole waves of tiles */
        return 1 / (1 - launch->product.tail);
    }
    double capacity = units * launch->occupancy.resident;
    if (blocks <= 0 || capacity <= 0) {
        return 1;
    }
    /* Blocks that end at different times hand their places on: only whole rounds are lost. */
    return blocks < capacity ? each * units / blocks : 1 + LAST_ROUND * units / blocks;
}

static double memory_time(const Report *report, const LaunchReport *launch)
{
    /* The bytes in flight of a multiprocessor: a few accesses of each resident warp, and the stages
     * of ring buffers that are not in use. */
    double widest = 0, ahead = 0;
    bool copied = false;
    for (size_t i = 0; i < launch->accesses.n; i++) {
        const AccessReport *at = &launch->accesses.items[i];
        bool bulk = at->kind == BULK_LOADS;
        copied = copied || at->kind == COPIES;
        widest = at->kind == LOADS && at->bytes > widest ? at->bytes : widest;
        ahead += bulk ? at->bytes : 0;
    }
    ahead += copied ? (double)launch->product.slot_bytes : 0;
    double warps = launch->occupancy.warps;
    double slots = launch->product.slots > 1 ? launch->product.slots - 1 : 1;
    double there = warps * report->target->warp * widest * WARP_ACCESSES +
                   launch->occupancy.resident * ahead * slots;
    double reached = report->card->memory_percent / 100.0;
    double share = reached * machine_memory_reached(report->card, there);
    double busy = cost_busy(report->card, (double)launch->blocks);
    return launch->roofline.memory_seconds / (share * busy);
}

/* Products whose operands no engine brings, of counted accesses: registers, shared memory and
 * caches have more to do than memory. */
static bool multiplies(const Report *report, const LaunchReport *launch)
{
    const Roofline *r = &launch->roofline;
    const Op *product = launch->product.op;
    bool fma = product && !launch->product.modelled;
    bool walks = launch->plan->persistent && !product;
    return !report->input->brief && !walks && launch->blocks > 0 && launch->warps > 0 &&
           (fma || (!r->memory_bound && r->asked_read > 4 * r->read));
}

/* ---- what follows what ---- */

void course_alone(TimeCourse *course, const char *what, double seconds)
{
    if (seconds > 0 && course->n_alone < MAX_TIME_PARTS) {
        course->alone[course->n_alone++] = (TimePart){what, seconds};
    }
}

void course_part(TimeCourse *course, const char *what, double seconds)
{
    if (seconds > 0 && course->n_parts < MAX_TIME_PARTS) {
        course->parts[course->n_parts++] = (TimePart){what, seconds};
    }
}

/* Of things that overlap, the longest one follows, and what the others add to it. */
static void course_overlap(TimeCourse *course, double together)
{
    const TimePart *longest = &course->alone[0];
    for (int i = 1; i < course->n_alone; i++) {
        longest = course->alone[i].seconds > longest->seconds ? &course->alone[i] : longest;
    }
    if (course->n_alone > 0 && longest->seconds <= together) {
        course_part(course, longest->what, longest->seconds);
        course_part(course, "the rest, as far as that does not hide it",
                    together - longest->seconds);
    }
}

/* Steps of the loop around the product, of the busiest multiprocessor. */
static double product_steps(const Report *report, const LaunchReport *launch)
{
    double steps = ceil((double)launch->blocks / report->card->num_sms);
    const Op *op = launch->product.op, *loop = op ? op_enclosing(op, OP_FOR) : NULL;
    if (!loop || launch->plan->persistent || launch->data_loops) {
        return 0;
    }
    for (; loop; loop = op_enclosing(loop, OP_FOR)) {
        steps *= loop_iterations(report, loop);
    }
    return steps;
}

/* ---- models ---- */

/* Products that the tile model covers. */
static double modelled_launch(const LaunchReport *launch, const Gpu *gpu, TimeCourse *course)
{
    const ProductReport *p = &launch->product;
    const DotCost *cost = &p->cost;
    /* Slots of a ring hide what a step waits for: one hides nothing. */
    double slots = p->slots > 0 ? p->slots : 1, open = UNHIDDEN / (slots * slots);
    double steps = cost->tiles_per_sm * (double)cost->steps;
    double work = steps * cost->step, results = cost->tiles_per_sm * cost->epilogue;
    double waits = p->cycles - cost->combine - work - results;
    course->steps = steps;
    course->step_seconds = steps > 0 ? (work + waits + p->cycles * open) / steps / gpu->clock : 0;
    course_part(course, "steps of the products", work / gpu->clock);
    course_part(course, "waits of the steps for memory", waits / gpu->clock);
    course_part(course, "waits that the ring's stages do not hide", p->cycles * open / gpu->clock);
    course_part(course, "work on the tiles' results", results / gpu->clock);
    course_part(course, "the launch that adds the shares", cost->combine / gpu->clock);
    course_alone(course, "the matrix units", steps * cost->matrix / gpu->clock);
    course_alone(course, "bytes from L2", steps * cost->l2 / gpu->clock);
    course_alone(course, "memory", cost->memory / gpu->clock);
    return p->cycles / gpu->clock * (1 + open);
}

/* Products of warp groups that depend on one another. */
static double groups_launch(const GroupsCost *cost, double memory, const Gpu *gpu,
                            TimeCourse *course)
{
    double steps = cost->steps * cost->step / gpu->clock, tiles = cost->tiles / gpu->clock;
    double parts[] = {steps + tiles, memory}, together = cost_overlap(parts, 2);
    double waits = together - steps - tiles;
    course->steps = cost->steps;
    course->step_seconds = cost->steps > 0 ? (steps + waits) / cost->steps : 0;
    course_part(course, "steps of the products", steps);
    course_part(course, "waits of the steps for memory", waits);
    course_part(course, "begins and ends of tiles", tiles);
    course_alone(course, "the matrix units", cost->matrix / gpu->clock);
    course_alone(course, "work on elements", cost->lanes / gpu->clock);
    course_alone(course, "memory", memory);
    return together;
}

/* Products whose operands go through registers. */
static double pipes_launch(const Report *report, const LaunchReport *launch, double memory,
                           double even, const char **limiter, TimeCourse *course)
{
    Pipes pipes = pipes_of(report, launch);
    double cycles = chained_cycles(report, launch, pipes.cycles);
    double clock =
        launch->roofline.matrix_flops > 0 ? report->card->matrix_clock * 1e6 : thread_clock(report);
    double work = even * cycles / clock, parts[] = {memory, work};
    double together = cost_overlap(parts, 2);
    *limiter = memory > work ? "memory" : pipes.limiter;
    course->steps = product_steps(report, launch);
    course->step_seconds = course->steps > 0 ? together / course->steps : 0;
    course_part(course, "work of the blocks, with what they wait for", work);
    course_part(course, "waits for memory", together - work);
    course_alone(course, "instructions that warps issue", pipes.issue / clock);
    course_alone(course, "the matrix units", pipes.matrix / clock);
    course_alone(course, "wavefronts of L1", pipes.l1 / clock);
    course_alone(course, "wavefronts of shared memory", (pipes.shared + pipes.operands) / clock);
    course_alone(course, "bytes from L2", pipes.l2 / clock);
    course_alone(course, "memory", memory);
    return together;
}

/* All others. */
static double streamed_launch(const Report *report, const LaunchReport *launch, double memory,
                              double even, TimeCourse *course)
{
    const Roofline *r = &launch->roofline;
    double asked = l2_bytes_of(report, launch);
    const Machine *card = report->card;
    double cache = (double)card->l2_loaded_bytes * card->num_sms * card->matrix_clock * 1e6;
    double slots = (double)card->lanes / report->target->warp * card->num_sms;
    double issue = launch->issued / slots / thread_clock(report);
    double arithmetic = cost_arithmetic(fmax(r->compute_seconds, issue));
    double times[] = {memory, even * asked / cache, even * arithmetic};
    double most = times[0] > times[1] ? times[0] : times[1];
    double together =
        launch->product.op ? 0 : course_seconds(report, launch, thread_clock(report), most, course);
    if (together <= 0) {
        together = cost_overlap(times, 3);
        course_alone(course, "memory", times[0]);
        course_alone(course, "bytes from L2", times[1]);
        course_alone(course, "instructions that warps issue", times[2]);
    }
    course_overlap(course, together);
    return together;
}

static double gpu_launch(const Report *report, const LaunchReport *launch, const char **limiter,
                         TimeCourse *course)
{
    const Machine *card = report->card;
    double matrix_clock = card->matrix_clock * 1e6;
    Gpu gpu = {matrix_clock, card->num_sms, card->start / matrix_clock};
    GroupsCost groups;
    *course = (TimeCourse){0};
    *limiter = NULL;
    course_part(course, "start of the launch", gpu.start);
    if (launch->product.modelled) {
        *limiter = launch->product.limiter;
        return modelled_launch(launch, &gpu, course) + gpu.start;
    }
    double memory = memory_time(report, launch), even = imbalance(launch, gpu.units);
    if (groups_cost(report, launch, &groups)) {
        return groups_launch(&groups, memory, &gpu, course) + gpu.start;
    }
    return (multiplies(report, launch) ? pipes_launch(report, launch, memory, even, limiter, course)
                                       : streamed_launch(report, launch, memory, even, course)) +
           gpu.start;
}

/* ---- CPUs ---- */

static double held_bytes(const EvalPoint *context, const AccessReport *at)
{
    const Value *value = NULL;
    if (at->op->n_results) {
        value = at->op->results[0];
    } else if (at->op->n_operands > 1) {
        value = at->op->operands[at->op->n_operands - 1];
    }
    double elements = value && value->type->kind == TYPE_ARRAY ? 1 : 0;
    for (int axis = 0; elements > 0 && axis < value->type->rank; axis++) {
        Dim dim = value->type->dims[axis];
        const DimVar *range = poly_as_range(dim);
        int64_t capacity = poly_capacity(dim), there;
        if (range && range->axis_extent && context_dim(context, range->axis_extent, &there) &&
            there < capacity) {
            capacity = there;
        }
        elements *= capacity > 0 ? (double)capacity : 1;
    }
    return elements * (value ? dtype_bytes(value->type->dtype) : 0);
}

static double whole_bytes(const EvalPoint *context, const Value *tensor)
{
    double bytes = dtype_bytes(tensor->type->dtype);
    for (int axis = 0; axis < tensor->type->rank; axis++) {
        int64_t extent;
        bytes *= context_dim(context, tensor->type->dims[axis], &extent) ? (double)extent : 0;
    }
    return bytes;
}

/* Bytes of the tiles that a block goes through again and again, each tensor's once. Where loops go
 * through what there is once, only what many blocks read comes again. */
static double tile_bytes(const Report *report, const LaunchReport *launch)
{
    EvalPoint context = context_of(report->input->func, report->input->sizes);
    bool unique =
        launch->cpu.loop_bytes <= ABOUT * (launch->roofline.read + launch->roofline.written);
    double bytes = 0;
    for (size_t i = 0; i < launch->accesses.n; i++) {
        const AccessReport *at = &launch->accesses.items[i];
        if (unique && at->moved <= ABOUT * whole_bytes(&context, at->value)) {
            continue;
        }
        double own = held_bytes(&context, at), before = 0;
        for (size_t k = 0; k < i; k++) {
            const AccessReport *other = &launch->accesses.items[k];
            double its = other->value == at->value ? held_bytes(&context, other) : 0;
            before = its > before ? its : before;
        }
        bytes += own > before ? own - before : 0;
    }
    return bytes;
}

static double cache_rate(const Machine *core, double bytes)
{
    const struct {
        double kib;
        int gbs;
    } caches[] = {{core->core_l1_kib, core->l1_gbs},
                  {core->core_l2_kib, core->l2_gbs},
                  {core->l3_mib * 1024.0, core->l3_gbs}};
    for (size_t i = 0; i < sizeof caches / sizeof *caches; i++) {
        if (bytes <= caches[i].kib * 1024) {
            return caches[i].gbs * 1e9;
        }
    }
    return core->memory_gbs * 1e9;
}

/* What is summed in one register waits for each addition; in more of them for fewer. */
static double chain_seconds(const Machine *core, const LaunchReport *launch, double lanes)
{
    double sums = (double)op_int(launch->op, ATTR_UNROLL, SUMS);
    return launch->cpu.chain_cycles / lanes / sums / (core->clock * 1e6);
}

static double cpu_launch(const Report *report, const LaunchReport *launch, int threads)
{
    const Roofline *r = &launch->roofline;
    const Machine *core = report->target->machine;
    double blocks = launch->blocks > 0 ? (double)launch->blocks : 1;
    int most = launch->plan->workers;
    threads = most > 0 && most < threads ? most : threads;
    double waves = ceil(blocks / threads), at_once = blocks < threads ? blocks : threads;
    double even = waves * at_once / blocks;
    double lanes = (double)report->target->vector_bytes / 4;
    double unique = r->read + r->written, requested = r->asked_read + r->asked_written;
    double walked = requested + launch->cpu.loop_bytes;
    /* What is folded is gone through again; else a tile is a stream. */
    double reread_bytes = launch->cpu.chain_cycles > 0 ? tile_bytes(report, launch) : 0;
    double times[] = {unique / cache_rate(core, unique / at_once),
                      walked / cache_rate(core, reread_bytes),
                      (r->flops + r->matrix_flops) / (core->clock * 1e6 * core->issue * lanes) +
                          chain_seconds(core, launch, lanes)};
    double begun = launch->cpu.startup_bytes / (core->run_gbs * 1e9) *
                   (requested > unique ? unique / requested : 1);
    double lines = launch->cpu.l2_line_bytes / (core->line_gbs * 1e9) +
                   launch->cpu.far_line_bytes / (core->far_line_gbs * 1e9);
    double work =
        cost_overlap(times, 3) + lines + begun + launch->cpu.packed_bytes / (core->pack_gbs * 1e9);
    return even * work / at_once + waves * core->block_ns * 1e-9 + core->launch_ns * 1e-9;
}

/* No launch is faster than its roofline, nor than memory moves what caches do not keep, at the rate
 * that the best launches reach. */
static double least_seconds(const Report *report, const LaunchReport *launch, bool *bound)
{
    const Roofline *r = &launch->roofline;
    double unique = r->read + r->written, moved = r->memory_read + r->memory_written;
    double reached = report->card->memory_percent / 100.0;
    double memory = r->memory_seconds / reached;
    memory *= unique > 0 && moved > unique ? moved / unique : 1;
    *bound = r->memory_bound || memory > r->compute_seconds;
    return *bound ? memory : r->compute_seconds;
}

/* What `explain` prints of a launch, and what schedules are ranked by. */
static double gpu_seconds(const Report *report, const LaunchReport *launch, const char **limiter,
                          TimeCourse *course)
{
    bool bound;
    double predicted = gpu_launch(report, launch, limiter, course);
    double least = least_seconds(report, launch, &bound);
    if (predicted < least) {
        course_part(course, "what the device's rates require at least", least - predicted);
        *limiter = bound ? "memory" : "arithmetic";
        return least;
    }
    return predicted;
}

void predict_make(const Report *report, LaunchReport *launch)
{
    if (report->card && report->sized && launch->blocks > 0) {
        launch->predicted = gpu_seconds(report, launch, &launch->limiter, &launch->course);
    }
}

Predicted report_predict(const Report *report, int threads)
{
    Predicted all = {0};
    for (int i = 0; i < report->n_launches && report->sized; i++) {
        const LaunchReport *launch = &report->launches[i];
        const Roofline *r = &launch->roofline;
        if (launch->blocks == 0) {
            continue;
        }
        const char *limiter;
        TimeCourse course;
        all.seconds += report->card ? gpu_seconds(report, launch, &limiter, &course)
                                    : cpu_launch(report, launch, threads);
        all.roof += r->memory_bound ? r->memory_seconds : r->compute_seconds;
    }
    return all;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* How long a kernel takes, by what its launches ask of the parts of a device: a ranking of
 * schedules before any of them runs, not a promise.
 *
 * A launch waits for memory, the second-level cache and arithmetic, which overlap as
 * in passes/an_waves.c: the norm of their times with exponent 4. Memory is as fast as bytes are on
 * their way: a multiprocessor needs its share of bandwidth times latency (Little's law). What a
 * multiprocessor does takes as long as that of the one with most blocks. A product that the model
 * of its tiles knows takes what that says. */
#include "runtime/explain/resources.h"

#include "ir/rates.h"

#include <math.h>

/* Where no rates of a target are known: those of the generation that most were measured on. */
static const double CLOCK = 1.5e9, UNIT_BYTES = 64, START = 3500, LANES = 128;
static const double MEMORY_LATENCY = 700e-9, REACHED = 0.93; /* of the bandwidth, at best */
static const double WARP_TURNS = 4; /* accesses of a warp that are under way at once */

/* A CPU: a core's first-level, second-level and memory bandwidth, and arithmetic. What counts is
 * how they relate. */
static const double CORE_L1 = 100e9, CORE_L2 = 40e9, CORE_MEMORY = 10e9, CORE_FLOPS = 50e9;
static const double BLOCK_SECONDS = 0.05e-6, LAUNCH_SECONDS = 2e-6;
enum { L1_BYTES = 32 << 10, L2_BYTES = 1 << 20 };

static double together(const double *times, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double square = times[i] * times[i];
        sum += square * square;
    }
    return sqrt(sqrt(sum));
}

/* ---- GPUs ---- */

typedef struct Gpu {
    double clock, unit_bytes, units, start;
} Gpu;

static Gpu gpu_of(const Report *report)
{
    const Rates *rates = rates_of(report->target);
    Gpu gpu = {CLOCK, UNIT_BYTES, report->target->units, START / CLOCK};
    if (rates) {
        gpu.clock = report->part->flops16 * 1e12 / ((double)rates->product16 * gpu.units);
        gpu.unit_bytes = rates->unit_bytes;
        gpu.start = rates->start / gpu.clock;
    }
    return gpu;
}

/* While the matrix units rest, power allows the highest clock: that of the part's f32 rate. */
static double thread_clock(const Report *report)
{
    const Rates *rates = rates_of(report->target);
    double lanes = rates ? rates->lanes : LANES;
    return report->part->flops32 * 1e12 / (2 * lanes * report->target->units);
}

/* How much longer than if all multiprocessors had as much to do. */
static double imbalance(const LaunchReport *launch, double units)
{
    double blocks = (double)launch->blocks, each = ceil(blocks / units);
    double room = units * launch->occupancy.resident;
    if (blocks <= 0 || room <= 0) {
        return 1;
    }
    /* Blocks that end at different times hand their places on: only whole rounds are lost. */
    return blocks < room ? each * units / blocks : 1 + 0.5 * units / blocks;
}

/* Bytes that a multiprocessor has on their way: of its resident warps, a few accesses each; of the
 * copy engine, the rings that are not being worked on. */
static double bytes_under_way(const Report *report, const LaunchReport *launch)
{
    double widest = 0, ahead = 0;
    for (size_t i = 0; i < launch->accesses.n; i++) {
        const AccessReport *at = &launch->accesses.items[i];
        bool bulk = at->kind == BULK_LOADS;
        widest = at->kind == LOADS && at->bytes > widest ? at->bytes : widest;
        ahead += bulk ? at->bytes : 0;
    }
    double warps = launch->occupancy.warps;
    double slots = launch->product.slots > 1 ? launch->product.slots - 1 : 1;
    return warps * report->target->warp * widest * WARP_TURNS +
           launch->occupancy.resident * ahead * slots;
}

static double memory_time(const Report *report, const LaunchReport *launch, const Gpu *gpu)
{
    double bandwidth = report->part->memory * 1e9;
    double needed = bandwidth / gpu->units * MEMORY_LATENCY;
    double there = bytes_under_way(report, launch);
    double share =
        there > 0 ? REACHED / sqrt(1 + (needed / there) * (needed / there) / 4) : REACHED;
    double busy = launch->blocks > 0 && launch->blocks < gpu->units / 2
                      ? (double)launch->blocks / (gpu->units / 2)
                      : 1;
    return launch->roofline.memory_seconds / (share * busy);
}

/* Products whose operands no engine brings, of counted accesses: registers, shared memory and
 * caches have more to do than memory. */
static bool multiplies(const Report *report, const LaunchReport *launch)
{
    const Roofline *r = &launch->roofline;
    bool fma = launch->product.op && !launch->product.modelled;
    return !report->input->brief && !launch->plan->persistent && launch->blocks > 0 &&
           launch->warps > 0 && (fma || (!r->memory_bound && r->asked_read > 4 * r->read));
}

static double gpu_launch(const Report *report, const LaunchReport *launch, const char **limiter)
{
    const Roofline *r = &launch->roofline;
    Gpu gpu = gpu_of(report);
    double even = imbalance(launch, gpu.units);
    if (launch->product.modelled) {
        *limiter = launch->product.limiter;
        /* Slots of a ring hide what a step waits for: one hides nothing. */
        double slots = launch->product.slots > 0 ? launch->product.slots : 1;
        return launch->product.cycles / gpu.clock * (1 + 0.3 / (slots * slots)) + gpu.start;
    }
    double asked = r->asked_read + r->asked_written;
    double cache = gpu.unit_bytes * gpu.units * gpu.clock;
    if (multiplies(report, launch)) {
        Pipes pipes = pipes_of(report, launch);
        double clock = r->matrix_flops > 0 ? gpu.clock : thread_clock(report);
        double parts[] = {memory_time(report, launch, &gpu), even * pipes.cycles / clock};
        *limiter = parts[0] > parts[1] ? "memory" : pipes.limiter;
        return together(parts, 2) + gpu.start;
    }
    *limiter = NULL;
    double times[] = {memory_time(report, launch, &gpu), even * asked / cache,
                      even * 1.2 * r->compute_seconds};
    return together(times, 3) + gpu.start;
}

/* ---- CPUs ---- */

/* Bytes of the tiles that a block goes through again and again. */
static double tile_bytes(const LaunchReport *launch)
{
    double bytes = 0;
    for (size_t i = 0; i < launch->accesses.n; i++) {
        const AccessReport *at = &launch->accesses.items[i];
        const Value *value = at->op->n_results        ? at->op->results[0]
                             : at->op->n_operands > 1 ? at->op->operands[at->op->n_operands - 1]
                                                      : NULL;
        double elements = value && value->type->kind == TYPE_ARRAY ? 1 : 0;
        for (int axis = 0; elements > 0 && axis < value->type->rank; axis++) {
            int64_t extent = poly_capacity(value->type->dims[axis]);
            elements *= extent > 0 ? (double)extent : 1;
        }
        bytes += elements * (value ? dtype_bytes(value->type->dtype) : 0);
    }
    return bytes;
}

static double cpu_launch(const LaunchReport *launch, int threads)
{
    const Roofline *r = &launch->roofline;
    double blocks = launch->blocks > 0 ? (double)launch->blocks : 1;
    double rounds = ceil(blocks / threads), at_once = blocks < threads ? blocks : threads;
    double even = rounds * at_once / blocks;
    double moved = r->asked_read + r->asked_written, tile = tile_bytes(launch);
    double cache = tile <= L1_BYTES ? CORE_L1 : tile <= L2_BYTES ? CORE_L2 : CORE_MEMORY;
    double times[] = {(r->read + r->written) / (CORE_MEMORY * at_once), moved / (cache * at_once),
                      (r->flops + r->matrix_flops) / (CORE_FLOPS * at_once)};
    return even * together(times, 3) + rounds * BLOCK_SECONDS + LAUNCH_SECONDS;
}

void predict_make(const Report *report, LaunchReport *launch)
{
    if (report->part && report->sized && launch->blocks > 0 && rates_of(report->target)) {
        launch->predicted = gpu_launch(report, launch, &launch->limiter);
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
        all.seconds +=
            report->part ? gpu_launch(report, launch, &limiter) : cpu_launch(launch, threads);
        all.roof += r->memory_bound ? r->memory_seconds : r->compute_seconds;
    }
    return all;
}

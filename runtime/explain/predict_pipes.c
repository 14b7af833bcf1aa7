/* SPDX-License-Identifier: Apache-2.0 */
/* What a launch requires of the parts of a multiprocessor, in cycles of one, if all have the same
 * amount of work:
 *
 *   issue     instructions of its warps: dots, accesses and their addresses, upcasts of narrow
 *             elements, steps of loops
 *   matrix    the matrix unit
 *   first     wavefronts of L1, whose lines are spread over 32 banks of 4 bytes
 *   shared    wavefronts of shared memory, which is the same memory: both wait for one another
 *   second    packets from L2; a repeated load of a block that hits L1 does not count
 *
 * These overlap, within one block and across all blocks of a multiprocessor. The waits of a block
 * in each step of its loops (for loads, and for its threads at barriers) overlap only with the
 * work of other blocks, or, if loads are issued a step ahead, with the step. */
#include "runtime/explain/explain_occupancy.h"
#include "runtime/explain/warp_request.h"

#include "ir/build.h"
#include "ir/layout/layout.h"
#include "ir/target/machine.h"
#include "passes/analysis/cost_model.h"

#include <math.h>

enum {
    WARP = 32,
    ADDRESS_OPS = 3,     /* of each global access: an address has 64 bits, in two halves */
    GUARD_OPS = 3,       /* of each guarded access, if a thread has more of them than */
    MAX_PREDICATES = 6,  /* predicate registers that can keep guards over a loop */
    STEP_OPS = 12,       /* of a warp, in each step of a loop */
    LINE_BYTES = 128,
    PART_BEGIN_OPS = 8, /* from a launch's index to where its part of an axis begins */
};

/* Fitted to dots on FMA units (docs/lab/products.md): the instructions that upcast one narrow
 * element of a wider access; the fraction of issue slots that warps fill at best, because they also
 * wait for registers and ports. */
static const double WIDEN_OPS = 1.5, ISSUED = 0.82;

/* ---- bytes from L2 ---- */

static int64_t walked(const Report *report, Dim dim)
{
    int64_t extent;
    const DimVar *range = poly_as_range(dim);
    bool known = poly_eval(range && range->axis_extent ? range->axis_extent : dim,
                           report->input->sizes, &extent);
    return known ? extent : -1;
}

/* How much of an axis of memory a block accesses; -1: not known. */
static int64_t extent_of(const Report *report, Type memory, int axis, const Value *index)
{
    if (!index) {
        return walked(report, memory->dims[axis]);
    }
    const Op *binder = !index->def && index->block ? index->block->parent : NULL;
    if (!binder || (index->def && index->def->kind != OP_CONST)) {
        return index->def && index->def->kind == OP_CONST ? 1 : -1;
    }
    bool loop = binder->kind == OP_FOR && index->index == 0;
    if (loop) {
        return walked(report, op_attr(binder, ATTR_DIMS)->dims[0]);
    }
    if (index->type->kind == TYPE_RANGE) {
        return poly_capacity(index->type->dims[0]);
    }
    return 1;
}

/* Bytes of a tensor that a block loads by this access, each counted once; -1: not known. */
static double block_bytes(const Report *report, const AccessReport *at)
{
    if (at->op->kind != OP_LOAD) {
        return -1;
    }
    Access access = op_access(at->op, 0);
    double bytes = dtype_bytes(access.memory->type->dtype);
    for (int i = 0; i < access.n; i++) {
        int64_t extent = extent_of(report, access.memory->type, i, access.indices[i]);
        if (extent < 0) {
            return -1;
        }
        bytes *= (double)extent;
    }
    return bytes;
}

/* Bytes of lines that are open at once: a tile's, whose rows fill lines, or a line for each of its
 * elements; no more than its requests ask for that no other load of the iteration has asked for,
 * as of windows whose elements share lines. */
static double open_bytes(const AccessReport *at)
{
    Type type = at->op->n_results ? at->op->results[0]->type : NULL;
    Access access = op_access(at->op, 0);
    double elements = 1, row = 0;
    for (int i = 0; type && i < type->rank; i++) {
        elements *= (double)poly_capacity(type->dims[i]);
        row = (double)poly_capacity(type->dims[i]) * dtype_bytes(type->dtype);
    }
    bool fills = row >= LINE_BYTES && type_stride_is(access.memory->type, access.n - 1, 1);
    double bytes = elements * (fills ? dtype_bytes(type->dtype) : LINE_BYTES);
    double asked = type ? (double)at->bytes / dtype_bytes(type->dtype) * WARP : 0;
    bool counted = at->requests > 0 && asked > 0;
    double each = counted ? at->missed / at->requests * PACKET_BYTES : 0;
    return counted ? fmin(bytes, fmax(1, elements / asked) * each) : bytes;
}

double l2_bytes_of(const Report *report, const LaunchReport *launch)
{
    double bytes = 0, open = 0;
    for (size_t i = 0; i < launch->accesses.n; i++) {
        const AccessReport *at = &launch->accesses.items[i];
        open += at->kind == LOADS ? open_bytes(at) : 0;
    }
    bool stays =
        open * launch->occupancy.resident + launch->shared_bytes < report->card->l1_kib * 1024.0;
    for (size_t i = 0; i < launch->accesses.n; i++) {
        const AccessReport *at = &launch->accesses.items[i];
        double packets = stays ? at->missed : at->packets;
        double asked = traffic_is_shared(at->kind) ? 0 : packets * PACKET_BYTES;
        double unique = at->kind == LOADS && stays ? block_bytes(report, at) : -1;
        unique *= (double)launch->blocks;
        bytes += unique >= 0 && unique < asked ? unique : asked;
    }
    return bytes;
}

/* ---- instructions ---- */

static bool is_widened(const AccessReport *at)
{
    DType dtype = at->value->type->dtype;
    return dtype_bits(dtype) < 32 && (at->kind == LOADS || at->kind == SHARED_LOADS);
}

/* Guards that do not fit the predicate registers are recomputed in each step of a loop. */
static bool is_guarded(const AccessReport *at)
{
    const Attr *guard = op_attr(at->op, ATTR_GUARD);
    bool any = false;
    for (int i = 0; guard && i < guard->n; i++) {
        any = any || guard->ints[i];
    }
    const Op *op = at->op;
    const Value *value = op->n_results ? op->results[0] : op->operands[op->n_operands - 1];
    if (!value) { /* a copy's, whose last index is a whole axis */
        return false;
    }
    Type type = value->type;
    int held = type->layout ? layout_registers(type->layout) : 1;
    return any && held / (int)op_int(at->op, ATTR_VECTOR, 1) > MAX_PREDICATES;
}

static double instructions(const LaunchReport *launch)
{
    double sum = launch->roofline.flops / (2 * WARP);
    for (size_t i = 0; i < launch->accesses.n; i++) {
        const AccessReport *at = &launch->accesses.items[i];
        bool product = at->op->kind == OP_DOT || !launch->product.op;
        double each;
        if (traffic_is_bulk(at->kind)) {
            each = 0;
        } else if (traffic_is_shared(at->kind)) {
            each = 1;
        } else {
            each = 1 + ADDRESS_OPS + GUARD_OPS * is_guarded(at);
        }
        double elements = (double)at->bytes / dtype_bytes(at->value->type->dtype);
        if (product && is_widened(at) && !launch->product.instruction) {
            each += elements * (elements > 1 ? WIDEN_OPS : 1);
        }
        sum += at->requests * each;
    }
    return sum;
}

/* Wavefronts of shared memory in which wgmma reads its operands: each element of an instruction's
 * operands is read once. */
static double matrix_wavefronts(const Report *report, const LaunchReport *launch)
{
    const ProductReport *p = &launch->product;
    const MatrixInstr *unit = p->instruction;
    if (!unit || mma_warps(unit) == 1 || p->op->kind != OP_DOT_ASYNC) {
        return 0;
    }
    double n = p->n_columns < unit->max_n ? (double)p->n_columns : unit->max_n;
    double bytes = (unit->m + n) * unit->k * dtype_bytes(unit->operands);
    return launch->roofline.matrix_flops / (2.0 * unit->m * n * unit->k) * bytes /
           report->target->shared_row;
}

/* ---- steps ---- */

typedef struct Steps {
    double n;         /* steps of a block */
    bool has_barrier; /* each has a barrier */
} Steps;

static bool has_tile_load(const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        if (op->kind == OP_LOAD && op->results[0]->type->rank > 0) {
            return true;
        }
    }
    return false;
}

static bool has_barrier(const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        if (op->kind == OP_BARRIER) {
            return true;
        }
    }
    return false;
}

/* In how many parts the launch around it shares out an axis whose parts begin here; 1: in none. */
static double parts_from(const Report *report, const Value *begin, int depth)
{
    const Op *op = begin->def, *launch = !op && begin->block ? begin->block->parent : NULL;
    if (launch && launch->kind == OP_LAUNCH) {
        int64_t parts = walked(report, op_attr(launch, ATTR_DIMS)->dims[begin->index]);
        return parts > 0 && begin->type->kind != TYPE_RANGE ? (double)parts : 1;
    }
    double parts = 1;
    for (int i = 0; op && !op->n_regions && depth > 0 && i < op->n_operands && parts <= 1; i++) {
        parts = op->operands[i] ? parts_from(report, op->operands[i], depth - 1) : 1;
    }
    return parts;
}

double loop_iterations(const Report *report, const Op *loop)
{
    const Op *from = for_lo(loop)->def;
    int64_t step = op_attr(loop, ATTR_STEPS)->ints[0];
    int64_t extent = from && from->kind == OP_START
                         ? poly_capacity(from->operands[0]->type->dims[0])
                         : walked(report, op_attr(loop, ATTR_DIMS)->dims[0]);
    double parts =
        op_int(loop, ATTR_PART, 0) ? parts_from(report, for_lo(loop), PART_BEGIN_OPS) : 1;
    extent = parts > 1 ? (int64_t)ceil((double)extent / parts) : extent;
    if (extent < 1) {
        return 1;
    }
    return step > 0 ? ceil((double)extent / (double)step) : (double)extent;
}

static void add_steps(const Report *report, const Block *block, double times, Steps *steps)
{
    for (const Op *op = block->first; op; op = op->next) {
        double n = op->kind == OP_FOR ? times * loop_iterations(report, op) : times;
        for (int i = 0; i < op->n_regions; i++) {
            bool loads = op->kind == OP_FOR && has_tile_load(op->regions[i]) &&
                         !op_int(op, ATTR_SINGLE_TRIP, 0);
            bool synchronizes = loads && has_barrier(op->regions[i]);
            if (loads && (n > steps->n || (n >= steps->n && synchronizes))) {
                *steps = (Steps){n, synchronizes}; /* if equally long, the loop with a barrier */
            }
            add_steps(report, op->regions[i], n, steps);
        }
    }
}

/* ---- the sum of all ---- */

static double total(const LaunchReport *launch, bool shared)
{
    double sum = 0;
    for (size_t i = 0; i < launch->accesses.n; i++) {
        const AccessReport *at = &launch->accesses.items[i];
        bool own = traffic_is_shared(at->kind) == shared && !traffic_is_bulk(at->kind);
        if (own) {
            sum += shared ? at->wavefronts : at->l1_wavefronts;
        }
    }
    return sum;
}

static double all_pipes(const Pipes *p)
{
    return cost_resources(&(StepCost){.busy = {[COST_ISSUE] = p->issue,
                                               [COST_MATRIX] = p->matrix,
                                               [COST_SHARED] = p->l1 + p->shared + p->operands,
                                               [COST_L2] = p->l2}});
}

static bool has_bulk_loads(const LaunchReport *launch)
{
    bool found = false;
    for (size_t i = 0; i < launch->accesses.n; i++) {
        found = found || launch->accesses.items[i].kind == BULK_LOADS;
    }
    return found;
}

/* Cycles in which a block waits and its own work, `each`, does not fill. */
static double waits(const Machine *card, const LaunchReport *launch, const Steps *steps,
                    const Pipes *p, double each, double missed)
{
    if (has_bulk_loads(launch)) { /* a producer is ahead, but of no other block's tile */
        return launch->plan->persistent ? 0 : card->block_start;
    }
    double wait = missed < 1 ? card->l1_latency + missed * card->l2_latency : card->l2_latency;
    if (steps->n == 0) {
        return 0;
    }
    if (steps->has_barrier && launch->product.slots > 1) {
        wait =
            fmax(0, card->l2_latency - each / steps->n); /* the loads are issued one step ahead */
    }
    /* A warp group loads the next tiles after its dots. */
    double busy = all_pipes(p), unit = cost_overlap2(p->matrix, p->operands);
    double threads = cost_overlap((double[]){p->issue, p->l1 + p->shared, p->l2}, 3);
    double after = p->operands > 0 ? each * fmax(0, (unit + threads) / busy - 1) : 0;
    return steps->n * (wait + (steps->has_barrier ? card->barrier : 0)) + after;
}

Pipes pipes_of(const Report *report, const LaunchReport *launch)
{
    const Machine *card = report->card;
    const Roofline *r = &launch->roofline;
    double units = card->num_sms, resident = launch->occupancy.resident;
    double schedulers = report->target->schedulers;
    double blocks = launch->blocks > 0 ? (double)launch->blocks : 1;
    double brings = card->l2_bytes;
    Steps steps = {0};
    add_steps(report, launch->op->regions[0], 1, &steps);
    double warps = blocks * launch->warps * steps.n;
    const MatrixInstr *unit = launch->product.instruction;
    double reached = unit && mma_warps(unit) == 1 ? machine_warp_share(card) : 1;
    Pipes p = {.issue = (instructions(launch) + warps * STEP_OPS) / (schedulers * ISSUED * units),
               .matrix = r->matrix_work / ((double)card->product16 * units * reached),
               .l1 = total(launch, false) / units,
               .shared = total(launch, true) / units,
               .operands = matrix_wavefronts(report, launch) / units,
               .l2 = l2_bytes_of(report, launch) / (brings * units)};
    /* A scheduler and its part of the matrix unit serve only their own warps. */
    resident = fmin(resident > 0 ? resident : 1, ceil(blocks / units));
    double working = resident * (double)warps_that_compute(launch);
    double idle = working < schedulers ? schedulers / working : 1;
    p.issue *= idle;
    p.matrix *= idle;
    double each = all_pipes(&p) * units / blocks; /* of a block */
    double missed = p.l2 * units * brings / (r->asked_read > 0 ? r->asked_read : 1);
    double wait = waits(card, launch, &steps, &p, each, missed);
    /* The work of other blocks hides part of the wait. */
    double others = (resident - 1) * each;
    double exposed = wait > 0 ? wait * wait / (wait + others) : 0;
    p.cycles = (resident * each + exposed) * blocks / (resident * units);
    double works = resident * each / 2;
    struct {
        double cycles;
        const char *name;
    } parts[] = {{p.issue, "instructions that warps issue"},
                 {p.matrix, "the matrix units"},
                 {p.l1, "wavefronts of L1"},
                 {p.shared + p.operands, "wavefronts of shared memory"},
                 {p.l2, "bytes from L2"}};
    int worst = 0;
    for (int i = 1; i < 5; i++) {
        worst = parts[i].cycles > parts[worst].cycles ? i : worst;
    }
    p.limiter = exposed > works ? "waiting for what each step loads" : parts[worst].name;
    return p;
}

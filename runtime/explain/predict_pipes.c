/* SPDX-License-Identifier: Apache-2.0 */
/* What a launch requires of the parts of a multiprocessor, in cycles of one, if all have the same
 * amount of work:
 *
 *   issue     instructions of its warps: dots, accesses and their addresses, upcasts of narrow
 *             elements, steps of loops
 *   matrix    the matrix unit
 *   first     wavefronts of L1, whose lines are spread over 32 banks of 4 bytes
 *   shared    wavefronts of shared memory, which is the same memory: both wait for one another
 *   second    bytes from L2; a repeated load of a block that hits L1 does not count
 *
 * These overlap, within one block and across all blocks of a multiprocessor. The waits of a block
 * in each step of its loops (for loads, and for its threads at barriers) overlap only with the
 * work of other blocks, or, if loads are issued a step ahead, with the step. */
#include "runtime/explain/explain_occupancy.h"

#include "ir/build.h"
#include "ir/layout/layout.h"
#include "ir/target/device_rates.h"

#include <math.h>

enum {
    WARP = 32,
    UNIT_BYTES = 64,
    MATRIX16 = 4096,
    ADDRESS_OPS = 3, /* beside an access of global memory: 64 bits, in two halves */
    GUARD_OPS = 3,   /* of one that may lie outside of its tensor, where there are more of them */
    PREDICATES = 6,  /* than registers for conditions */
    STEP_OPS = 12,   /* of a warp, of a step of a loop */
    LINE_BYTES = 128,
    NEAR = 45,               /* cycles until the first-level cache answers, */
    FAR = 950,               /* until the second-level cache or memory does */
    MEETING = 60,            /* storing to shared memory, and waiting for all threads of a block */
    FIRST_LEVEL = 256 << 10, /* bytes, shared memory among them */
};

/* Measured on products of threads (docs/lab/products.md): instructions of each narrow element of a
 * wider access, which is half of a word; the share of issue slots that warps fill at best, as they
 * also wait for one another's registers and ports. */
static const double WIDEN_OPS = 1.5, ISSUED = 0.82;

static double together(double a, double b)
{
    a *= a;
    b *= b;
    return sqrt(sqrt(a * a + b * b));
}

/* ---- what a block reads again ---- */

static int64_t walked(const Report *report, Dim dim)
{
    int64_t extent;
    const DimVar *range = poly_as_range(dim);
    bool known =
        poly_eval(range && range->whole ? range->whole : dim, report->input->sizes, &extent);
    return known ? extent : -1;
}

/* Of an axis of memory, how much of it a block goes through; -1: not known. */
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
    return loop                              ? walked(report, op_attr(binder, ATTR_DIMS)->dims[0])
           : index->type->kind == TYPE_RANGE ? poly_capacity(index->type->dims[0])
                                             : 1;
}

/* Bytes of a tensor that a block loads by this access, each once; -1: not known. */
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

/* Bytes of lines that are open at once: a tile's, a line for each of its rows at least. */
static double open_bytes(const AccessReport *at)
{
    Type type = at->op->n_results ? at->op->results[0]->type : NULL;
    double elements = 1;
    for (int i = 0; type && i < type->rank; i++) {
        elements *= (double)poly_capacity(type->dims[i]);
    }
    return elements * LINE_BYTES;
}

static double second_bytes(const Report *report, const LaunchReport *launch)
{
    int sector = report->part->sector;
    double bytes = 0, open = 0;
    for (size_t i = 0; i < launch->accesses.n; i++) {
        const AccessReport *at = &launch->accesses.items[i];
        open += at->kind == LOADS ? open_bytes(at) : 0;
    }
    bool stays = open * launch->occupancy.resident + launch->shared_bytes < FIRST_LEVEL;
    for (size_t i = 0; i < launch->accesses.n; i++) {
        const AccessReport *at = &launch->accesses.items[i];
        double asked = traffic_is_shared(at->kind) ? 0 : at->sectors * sector;
        double once = at->kind == LOADS && stays ? block_bytes(report, at) : -1;
        once *= (double)launch->blocks;
        bytes += once >= 0 && once < asked ? once : asked;
    }
    return bytes;
}

/* ---- what it executes ---- */

static bool is_widened(const AccessReport *at)
{
    DType dtype = at->value->type->dtype;
    return dtype_bits(dtype) < 32 && (at->kind == LOADS || at->kind == SHARED_LOADS);
}

/* Conditions that a loop would have to hold over all of its steps are made anew in each. */
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
    return any && held / (int)op_int(at->op, ATTR_VECTOR, 1) > PREDICATES;
}

static double instructions(const LaunchReport *launch)
{
    double sum = launch->roofline.flops / (2 * WARP);
    for (size_t i = 0; i < launch->accesses.n; i++) {
        const AccessReport *at = &launch->accesses.items[i];
        bool product = at->op->kind == OP_DOT || !launch->product.op;
        double each = traffic_is_bulk(at->kind)     ? 0
                      : traffic_is_shared(at->kind) ? 1
                                                    : 1 + ADDRESS_OPS + GUARD_OPS * is_guarded(at);
        double elements = (double)at->bytes / dtype_bytes(at->value->type->dtype);
        each += product && is_widened(at) && !launch->product.instruction
                    ? elements * (elements > 1 ? WIDEN_OPS : 1)
                    : 0;
        sum += at->requests * each;
    }
    return sum;
}

/* Turns of shared memory in which the matrix unit of a group of warps reads its operands: what one
 * instruction multiplies, each element once. */
static double matrix_turns(const Report *report, const LaunchReport *launch)
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
    double n;   /* of a block */
    bool meets; /* its threads, in each */
} Steps;

static bool loads_in(const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        if (op->kind == OP_LOAD && op->results[0]->type->rank > 0) {
            return true;
        }
    }
    return false;
}

static bool meets_in(const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        if (op->kind == OP_BARRIER) {
            return true;
        }
    }
    return false;
}

double rounds_of(const Report *report, const Op *loop)
{
    const Op *from = for_lo(loop)->def;
    int64_t step = op_attr(loop, ATTR_STEPS)->ints[0];
    int64_t extent = from && from->kind == OP_START
                         ? poly_capacity(from->operands[0]->type->dims[0])
                         : walked(report, op_attr(loop, ATTR_DIMS)->dims[0]);
    return extent < 1 ? 1 : step > 0 ? ceil((double)extent / (double)step) : (double)extent;
}

static void add_steps(const Report *report, const Block *block, double times, Steps *steps)
{
    for (const Op *op = block->first; op; op = op->next) {
        double n = op->kind == OP_FOR ? times * rounds_of(report, op) : times;
        for (int i = 0; i < op->n_regions; i++) {
            bool loads =
                op->kind == OP_FOR && loads_in(op->regions[i]) && !op_int(op, ATTR_SINGLE_TRIP, 0);
            bool meets = loads && meets_in(op->regions[i]);
            if (loads && (n > steps->n || (n >= steps->n && meets))) {
                *steps = (Steps){n, meets}; /* of loops over the same steps the one that meets */
            }
            add_steps(report, op->regions[i], n, steps);
        }
    }
}

/* ---- all ---- */

static double total(const LaunchReport *launch, bool shared)
{
    double sum = 0;
    for (size_t i = 0; i < launch->accesses.n; i++) {
        const AccessReport *at = &launch->accesses.items[i];
        bool own = traffic_is_shared(at->kind) == shared && !traffic_is_bulk(at->kind);
        sum += !own ? 0 : shared ? at->wavefronts : at->first;
    }
    return sum;
}

static double all_pipes(const Pipes *p)
{
    return together(together(p->issue, p->matrix),
                    together(p->first + p->shared + p->unit, p->second));
}

/* Cycles of a block that its own work does not fill: `each` is that work. */
static double waits(const LaunchReport *launch, const Steps *steps, const Pipes *p, double each,
                    double missed)
{
    double wait = missed < 1 ? NEAR + missed * FAR : FAR;
    if (steps->n == 0) {
        return 0;
    }
    if (steps->meets && launch->product.slots > 1) {
        wait = fmax(0, FAR - each / steps->n); /* loaded a step ahead */
    }
    /* A group of warps brings the next tiles when its products are done. */
    double busy = all_pipes(p), unit = together(p->matrix, p->unit);
    double threads = together(together(p->issue, p->first + p->shared), p->second);
    double after = p->unit > 0 ? each * fmax(0, (unit + threads) / busy - 1) : 0;
    return steps->n * (wait + (steps->meets ? MEETING : 0)) + after;
}

Pipes pipes_of(const Report *report, const LaunchReport *launch)
{
    const DeviceRates *rates = device_rates_of(report->target);
    const Roofline *r = &launch->roofline;
    double units = report->target->num_sms, resident = launch->occupancy.resident;
    double schedulers = report->target->schedulers;
    double blocks = launch->blocks > 0 ? (double)launch->blocks : 1;
    double brings = rates ? rates->sm_bytes : UNIT_BYTES;
    Steps steps = {0};
    add_steps(report, launch->op->regions[0], 1, &steps);
    double warps = blocks * launch->warps * steps.n;
    Pipes p = {.issue = (instructions(launch) + warps * STEP_OPS) / (schedulers * ISSUED * units),
               .matrix = r->matrix_work / ((rates ? rates->product16 : MATRIX16) * units),
               .first = total(launch, false) / units,
               .shared = total(launch, true) / units,
               .unit = matrix_turns(report, launch) / units,
               .second = second_bytes(report, launch) / (brings * units)};
    /* A scheduler and its part of the matrix unit work for their own warps. */
    double working = (resident > 1 ? resident : 1) * (double)warps_that_compute(launch);
    double idle = working < schedulers ? schedulers / working : 1;
    p.issue *= idle;
    p.matrix *= idle;
    double each = all_pipes(&p) * units / blocks; /* of a block */
    double missed = p.second * units * brings / (r->asked_read > 0 ? r->asked_read : 1);
    double wait = waits(launch, &steps, &p, each, missed);
    resident = fmin(resident > 0 ? resident : 1, ceil(blocks / units));
    /* Other blocks' work hides what one waits for, as far as it goes. */
    double others = (resident - 1) * each;
    double exposed = wait > 0 ? wait * wait / (wait + others) : 0;
    p.cycles = (resident * each + exposed) * blocks / (resident * units);
    double works = resident * each / 2;
    struct {
        double cycles;
        const char *name;
    } parts[] = {{p.issue, "instructions that warps issue"},
                 {p.matrix, "the matrix units"},
                 {p.first, "turns of the first-level cache"},
                 {p.shared + p.unit, "turns of shared memory"},
                 {p.second, "bytes from the second-level cache"}};
    int worst = 0;
    for (int i = 1; i < 5; i++) {
        worst = parts[i].cycles > parts[worst].cycles ? i : worst;
    }
    p.limiter = exposed > works ? "waiting for what each step loads" : parts[worst].name;
    return p;
}

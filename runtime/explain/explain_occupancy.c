/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates how many blocks and warps a multiprocessor holds at once, from registers, shared
 * memory and threads per block, and names the resource that limits them. */
#include "runtime/explain/explain_occupancy.h"

#include "ir/build.h"
#include "ir/layout/layout.h"
#include "support/int_math.h"

#include <math.h>

/* ---- occupancy ---- */

static int up(int n, int step)
{
    return (n + step - 1) / step * step;
}

/* Registers of a thread in addition to what loops carry; in addition to the widest value where none
 * do, of which the compiler keeps one. */
enum { RESERVED_DOT = 24, RESERVED_ROWS = 20 };

typedef struct Held {
    int largest, carried; /* registers of a thread: of a value; of what a loop hands on */
} Held;

static int registers_of(Type type)
{
    bool held = type->kind == TYPE_ARRAY && type->layout;
    int words = 0;
    if (held) {
        words = layout_registers(type->layout) * (dtype_bits(type->dtype) > 32 ? 2 : 1);
    }
    return held && dtype_bits(type->dtype) < 32 ? words * dtype_bits(type->dtype) / 32 : words;
}

static void see_held(Op *op, void *user)
{
    Held *held = user;
    int carried = 0;
    for (int i = 0; i < op->n_results; i++) {
        int own = registers_of(op->results[i]->type);
        held->largest = own > held->largest ? own : held->largest;
        carried += op->kind == OP_FOR ? own : 0;
    }
    held->carried = carried > held->carried ? carried : held->carried;
}

/* Of a thread: by the assembler, or before there is machine code what it holds, as far as the
 * blocks that a multiprocessor is to hold leave as many. */
Registers registers_expected(const Report *report, const LaunchReport *launch)
{
    enum { REGISTER_BYTES = 4 };
    if (launch->assembled) {
        return (Registers){launch->assembled->registers,
                           (int)ceil_div(launch->assembled->spilled, REGISTER_BYTES)};
    }
    Held held = {0};
    int blocks = launch->plan->blocks_per_unit > 0 ? launch->plan->blocks_per_unit : 1;
    int available = report->target->registers / (blocks * launch->warps * report->target->warp);
    block_walk(launch->op->regions[0], see_held, &held);
    int wanted = held.carried > 0 ? RESERVED_DOT + held.carried + held.largest * 3 / 2
                                  : RESERVED_ROWS + held.largest;
    available =
        available < report->target->registers_thread ? available : report->target->registers_thread;
    available -= available % report->target->register_step;
    return (Registers){wanted < available ? wanted : available,
                       wanted > available ? wanted - available : 0};
}

/* Each scheduler has its share of the registers, and its warps share that. */
static int blocks_by_registers(const Report *report, const LaunchReport *launch)
{
    const Target *target = report->target;
    int most = target_warps(target) / target->schedulers;
    bool expects = report->input->brief || report->input->sampled;
    int thread = 0;
    if (launch->assembled) {
        thread = launch->assembled->registers;
    } else if (expects) {
        thread = registers_expected(report, launch).used;
    }
    if (thread <= 0) {
        return target_warps(target);
    }
    int warp = up(thread, target->register_step) * target->warp;
    int warps = target->registers / target->schedulers / warp;
    int blocks = (warps < most ? warps : most) * target->schedulers / launch->warps;
    return blocks < 1 && !launch->assembled ? 1 : blocks; /* a guess refuses nothing */
}

void occupancy_make(const Report *report, LaunchReport *launch)
{
    const Target *target = report->target;
    Occupancy *o = &launch->occupancy;
    if (!report->card || launch->warps <= 0) {
        return;
    }
    o->known = true;
    o->blocks[LIMIT_WARPS] = target_warps(target) / launch->warps;
    o->blocks[LIMIT_BLOCKS] = launch->warps == 1 ? target->sm_blocks : target->sm_wide_blocks;
    o->blocks[LIMIT_REGISTERS] = blocks_by_registers(report, launch);
    int taken = up(launch->shared_bytes + target->shared_reserved, target->shared_step);
    o->blocks[LIMIT_SHARED] =
        taken > 0 ? (target->shared_bytes + target->shared_reserved) / taken : target_warps(target);
    o->limit = LIMIT_WARPS;
    for (int limit = LIMIT_WARPS; limit < LIMIT_GRID; limit++) {
        if (o->blocks[limit] < o->blocks[o->limit]) {
            o->limit = (Limit)limit;
        }
    }
    o->resident = o->blocks[o->limit];
    o->warps = o->resident * launch->warps;
    o->share = (double)o->warps / target_warps(target);
    int64_t available = (int64_t)o->resident * target->machine->num_sms;
    o->waves = launch->blocks > 0 && available > 0 ? (double)launch->blocks / (double)available : 0;
}

/* ---- roofline ---- */

static const double WHOLE_SECTORS = 0.75; /* of sectors: less is written in parts */

static double tensor_bytes(const Value *tensor, const int64_t *sizes)
{
    double bytes = dtype_memory_bits(tensor->type->dtype) / 8.0;
    for (int axis = 0; axis < tensor->type->rank; axis++) {
        int64_t extent;
        bytes *= poly_eval(tensor->type->dims[axis], sizes, &extent) ? (double)extent : 0;
    }
    return bytes;
}

static bool reads(Traffic kind)
{
    return kind == LOADS || kind == BULK_LOADS || kind == COPIES || kind == ATOMICS;
}

static bool writes(Traffic kind)
{
    return kind == STORES || kind == BULK_STORES || kind == ATOMICS;
}

/* Bytes that the launch's accesses of this tensor ask of L2. */
static double asked(const LaunchReport *launch, const Value *tensor, bool (*does)(Traffic),
                    int sector)
{
    double bytes = 0;
    for (size_t i = 0; i < launch->accesses.n; i++) {
        const AccessReport *at = &launch->accesses.items[i];
        if (at->value == tensor && does(at->kind)) {
            bytes += sector ? at->sectors * sector : at->moved;
        }
    }
    return bytes;
}

/* Bytes of elements that it stores; what atomics change and what data place may lie together. */
static double stored(const LaunchReport *launch, const Value *tensor)
{
    double bytes = 0;
    for (size_t i = 0; i < launch->accesses.n; i++) {
        const AccessReport *at = &launch->accesses.items[i];
        if (at->value == tensor && writes(at->kind)) {
            bytes += at->assumed || at->kind == ATOMICS ? INFINITY : at->moved;
        }
    }
    return bytes;
}

void roofline_make(const Report *report, const int64_t *sizes, LaunchReport *launch)
{
    Roofline *r = &launch->roofline;
    const Func *func = report->input->func;
    int sector = report->card ? report->target->sector_bytes : 0;
    for (size_t i = 0; i < func->params.n; i++) {
        const Value *tensor = func->params.items[i].value;
        const Im2colView *windows = func_im2col_of(func, tensor);
        if (tensor->type->kind == TYPE_TENSOR) {
            double whole = tensor_bytes(windows ? windows->of : tensor, sizes);
            double in = asked(launch, tensor, reads, sector);
            double out = asked(launch, tensor, writes, sector);
            r->asked_read += in;
            r->asked_written += out;
            r->read += in < whole ? in : whole;
            out = out < whole ? out : whole;
            r->written += out;
            r->written_in_parts += stored(launch, tensor) < WHOLE_SECTORS * out ? out : 0;
        }
    }
    double bytes = r->read + r->written;
    r->intensity = bytes > 0 ? (r->flops + r->matrix_flops) / bytes : 0;
    if (report->card) {
        r->memory_seconds = bytes / (report->card->memory_gbs * 1e9);
        r->compute_seconds = r->flops / (machine_flops32(report->card)) +
                             r->matrix_work / (machine_flops16(report->card));
        r->memory_bound = r->memory_seconds >= r->compute_seconds;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates what a copy of a dot's operands gains and costs. The copy takes one launch at the
 * memory's rate; without it, threads load the operand element by element, once for each tile of the
 * other operand. */
#include "passes/analysis/repack_cost.h"

#include <math.h>

#include "ir/nominal_sizes.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/analysis/cost_model.h"
#include "support/int_math.h"
#include "support/text.h"

/* Cycles of a multiprocessor that each multiplication of a product takes longer if an operand is
 * computed in it: because it goes through registers to shared memory, between barriers, and for
 * each instruction of an element. Measured on the H200 (docs/lab/products.md). */
static const double THROUGH_REGISTERS = 1.06e-3, THROUGH_REGISTERS_FMA = 2.11e-3,
                    RECOMPUTED = 1.98e-4;
/* The same if threads bring an operand: of the ladder's products by wgmma, 4096^3 by copies of 16
 * bytes, 3001x5003x2047 by elements, over those that the copy engine feeds; by single warps, which
 * reach a fifth of the rate; by threads, 36 TFLOP/s for 47 (bench/ladder.json,
 * docs/lab/products.md). */
static const double LOST[N_REPACK_WAYS] = {[REPACK_ASYNC] = 5.1e-4,
                                           [REPACK_ELEMENTS] = 2.4e-3,
                                           [REPACK_WARPS] = 2.1e-3,
                                           [REPACK_THREADS] = 3.1e-3};
/* Of a tile whose operand threads bring or compute. */
enum { TILE_ROWS = 128, FEW_ROWS = 64, TILE_COLUMNS = 128 };

/* By nominal sizes a copy must save this many times what it costs: it then pays for a quarter of
 * one of them, too, and what it costs is certain. */
static const double NOMINAL_GAIN = 4;

/* What is multiplied, and copied for that: by the facts, or for nominal sizes. */
typedef struct CopyProblem {
    int64_t elements, work; /* elements that are copied; multiplications */
    bool nominal;
} CopyProblem;

static int64_t extent(Dim dim, bool nominal)
{
    return nominal ? poly_nominal(dim) : poly_most(dim);
}

/* Of a range: what it is a part of. */
static int64_t extent_along(Type type, int axis, bool nominal)
{
    const DimVar *range = poly_as_range(type->dims[axis]);
    return extent(range ? range->axis_extent : type->dims[axis], nominal);
}

/* Times that loops around the op walk an axis element by element. */
static int64_t iterations(const Op *op, bool nominal)
{
    int64_t n = 1;
    for (const Op *up = op->parent->parent; up; up = up->parent->parent) {
        const Attr *dims = op_attr(up, ATTR_DIMS);
        for (int i = 0; dims && i < dims->n && i < up->regions[0]->n_args; i++) {
            bool range = up->regions[0]->args[i]->type->kind == TYPE_RANGE;
            n = range ? n : mul_sat(n, extent(dims->dims[i], nominal));
        }
    }
    return n;
}

static int64_t count_elements(Type type, bool nominal)
{
    int64_t n = 1;
    for (int i = 0; i < type->rank; i++) {
        n = mul_sat(n, extent_along(type, i, nominal));
    }
    return n;
}

static CopyProblem problem_of(const Op *dot, Type tensor, bool nominal)
{
    Type a = dot->operands[0]->type;
    int64_t work = mul_sat(count_elements(dot->results[0]->type, nominal),
                           extent_along(a, a->rank - 1, nominal));
    return (CopyProblem){.elements = count_elements(tensor, nominal),
                         .work = mul_sat(work, iterations(dot, nominal)),
                         .nominal = nominal};
}

static bool is_known(const CopyProblem *problem)
{
    return problem->work < INT64_MAX && problem->elements < INT64_MAX;
}

RepackBenefit an_repack_gain(const Func *func, const Op *dot, Type tensor, double gain, double cost)
{
    CopyProblem problem = problem_of(dot, tensor, false);
    problem = is_known(&problem) ? problem : problem_of(dot, tensor, true);
    const Machine *machine = func->target->machine;
    double saved = (double)problem.work * gain / (problem.nominal ? NOMINAL_GAIN : 1);
    double spent = (double)problem.elements * cost + cost_launches(machine, 1) * machine->num_sms;
    bool known = is_known(&problem);
    return (RepackBenefit){known, known && saved > spent};
}

/* How many times the product takes as long as its multiplications on a full device: tiles are
 * padded, and some multiprocessors have none, or fewer than others. `alone`: of less than a wave,
 * too; else slices of k fill the device. */
static double padding(const Func *func, Type result, bool nominal, bool alone)
{
    double sms = func->target->machine->num_sms, tiles = 1, elements = 1;
    int64_t rows = extent_along(result, result->rank - 2, nominal);
    int64_t tile_rows = rows > FEW_ROWS ? TILE_ROWS : FEW_ROWS;
    for (int i = 0; i < result->rank; i++) {
        int64_t extent = max_i64(1, extent_along(result, i, nominal));
        int64_t tile = i == result->rank - 2 ? tile_rows : 1;
        tile = i == result->rank - 1 ? TILE_COLUMNS : tile;
        tiles *= ceil((double)extent / (double)tile);
        elements *= (double)extent;
    }
    double taken = alone || tiles > sms ? ceil(tiles / sms) * sms : tiles;
    return taken * (double)(tile_rows * TILE_COLUMNS) / elements;
}

RepackBenefit an_repack_benefit(const Func *func, const RepackProblem *problem)
{
    const Machine *machine = func->target->machine;
    const Op *dot = problem->dot;
    double spent = 0, saved = 0;
    bool known = true, all = true;
    for (int i = 0; i < problem->n; i++) {
        CopyProblem copy = problem_of(dot, problem->tensors[i], false);
        bool nominal = !is_known(&copy) && problem->way <= REPACK_ELEMENTS;
        copy = nominal ? problem_of(dot, problem->tensors[i], true) : copy;
        all = all && !nominal;
        known = known && is_known(&copy);
        double bytes = 2.0 * dtype_bytes(problem->tensors[i]->dtype);
        spent += (cost_memory(machine, bytes * (double)copy.elements) + machine->start) *
                 machine->num_sms;
        saved = (double)copy.work * LOST[problem->way] *
                padding(func, dot->results[0]->type, nominal, false);
    }
    saved /= all ? 1 : NOMINAL_GAIN;
    return (RepackBenefit){known, known && problem->n > 0 && saved > spent};
}

RepackBenefit an_repack_computed(const Func *func, const Op *dot, const ComputedOperand *operand,
                                 bool warpgroups)
{
    CopyProblem problem = problem_of(dot, operand->value->type, false);
    if (!is_known(&problem)) { /* for nominal sizes the gain is less sure than the copy's cost */
        return (RepackBenefit){false, false};
    }
    double written = dtype_bits(operand->value->type->dtype) / 8.0;
    const Machine *machine = func->target->machine;
    double moved = cost_copy_each(machine, operand->bytes + written);
    double computed = cost_compute_each(machine, operand->instructions);
    double spent =
        fmax(moved, computed) + cost_copy_each(machine, fmax(0, written - operand->bytes));
    double gain = (warpgroups ? THROUGH_REGISTERS : THROUGH_REGISTERS_FMA) +
                  RECOMPUTED * operand->instructions;
    gain *= padding(func, dot->results[0]->type, false, true);
    return an_repack_gain(func, dot, operand->value->type, gain, spent);
}

void an_repack_consider(RepackDecision *decision, const RepackBenefit *copy)
{
    decision->any = true;
    decision->known = decision->known || copy->known;
    decision->pays = decision->pays || copy->pays;
}

void an_repack_decide(Func *func, const char *key, const RepackReasons *why,
                      RepackDecision *decision)
{
    if (decision->any) {
        const char *costs = decision->known ? why->costs : why->unknown;
        decision->given = schedule_user_entry(func, key, "") != NULL;
        decision->on =
            schedule_decide_on(func, key, decision->pays, "%s", decision->pays ? why->pays : costs);
    }
}

bool an_repack_is_made(const RepackDecision *decision, const RepackBenefit *copy)
{
    return decision->on && (decision->given || copy->pays);
}

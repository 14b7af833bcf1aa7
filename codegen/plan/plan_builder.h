/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the launch plan of a compiled function with everything that is the same for all back ends.
 */
#ifndef TESSERA_CODEGEN_PLAN_BUILDER_H
#define TESSERA_CODEGEN_PLAN_BUILDER_H

#include "ir/ir.h"
#include "runtime/device/plan.h"

/* Sizes with their facts, parameters, intermediates (the function's last parameters), and one
 * launch for each launch op, its arguments in the order tensor pointers, scalars, sizes. Back ends
 * then add what is theirs: maps (plan_add_map), shared bytes, clusters. */
void plan_fill(Func *func, Plan *plan);

/* The same with the shared memory of each launch, as far as the IR says it: for reports where no
 * code is made. */
void plan_fill_without_code(Func *func, Plan *plan);

/* Appends a bulk copy descriptor and an argument for it to every launch; returns its index. */
int plan_add_map(Func *func, Plan *plan, const PlanTensorMap *map);

/* The launch ops of a function, in order: launch i of the plan is the i-th. */
typedef struct LaunchOps {
    const Op **items;
    size_t n, cap;
} LaunchOps;
LaunchOps plan_launch_ops(Func *func);

/* What a print or assert says. */
void plan_message(Func *func, const Op *op, PlanMessage *message);

PlanExpr plan_expr(Func *func, Dim dim);
/* Which of the plan's sizes a variable is. */
int plan_size_index(const Func *func, const DimVar *var);
/* Which of the plan's parameters (then intermediates) a value is, or what a view is one of; and the
 * value of that number. */
int plan_param_index(const Func *func, const Value *value);
const Value *plan_param(const Func *func, int index);
/* Position of an argument in PlanLaunch.args; -1 when there is none. */
int plan_arg(const PlanLaunch *launch, PlanArgKind kind, int index);

#endif

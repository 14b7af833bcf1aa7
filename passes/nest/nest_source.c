/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the launches of a kernel as source code, in the form of a hand-tiled kernel.
 *
 *   launch dims=[M] steps=[16] warps=[8] {     kernel softmax(x: f32[M, N]) -> (out: f32[M, N]) {
 *     (%M: range)                                  parallel m in M by auto {
 *     %5 = for 0, N, %2 dims=[N] steps=[64] { →        var s = fill(-inf, f32[m, 1])
 *       …                                              for n in N by auto { … }
 *                                              schedule softmax on sm_90a {
 *                                                  tile m 16, n 64
 *                                                  warps 8
 *
 * A launch that stores intermediates is a function, whose results they are. */
#include "passes/nest/nest_source.h"

#include "ir/schedule.h"
#include "ir/target/target.h"
#include "ir/text/ir_text.h"
#include "passes/nest/nest_text.h"

#include <string.h>

/* ---- a launch ---- */

/* Warps and what else the launch was given, as entries. */
static void put_launch_entries(NestWriter *w, const Op *launch, const char *const *axes)
{
    const Attr *warps = op_attr(launch, ATTR_WARPS), *teams = op_attr(launch, ATTR_TEAMS);
    const Attr *multicast = op_attr(launch, ATTR_MULTICAST);
    if (warps && w->func->target && w->func->target->family != FAMILY_CPU) {
        nest_entry(w, "warps %lld", (long long)warps->ints[0]);
    }
    if (teams && teams->ints[0] > 1) {
        nest_entry(w, "pingpong on");
    }
    if (op_attr(launch, ATTR_RASTER_GROUP)) {
        nest_entry(w, "raster grouped %lld", (long long)op_int(launch, ATTR_RASTER_GROUP, 0));
    }
    if (op_attr(launch, ATTR_ALIGNED)) {
        nest_entry(w, "align %lld", (long long)op_int(launch, ATTR_ALIGNED, 1));
    }
    for (int i = 0; multicast && i < multicast->n; i++) {
        if (multicast->ints[i] > 1) {
            nest_entry(w, "multicast %s %lld", axes[i], (long long)multicast->ints[i]);
        }
    }
    if (op_int(launch, ATTR_CLUSTER, 1) > 1) {
        nest_refuse(w, NEST_REASON_CLUSTER, launch);
    }
    if (op_attr(launch, ATTR_AXIS_BEGIN) || op_attr(launch, ATTR_AXIS_END)) {
        nest_refuse(w, NEST_REASON_PART_OF_GRID, launch);
    }
}

typedef struct Gathers {
    bool any, guarded;
} Gathers;

static void note_gather(Op *op, void *user)
{
    Gathers *gathers = user;
    gathers->any |= op->kind == OP_GATHER;
    gathers->guarded |= op->kind == OP_GATHER && !gather_stays_inside(op);
}

static void note_start(Op *op, void *user)
{
    const Value *range = op->kind == OP_START ? op->operands[0] : NULL;
    const Op *binder = range && range->block ? range->block->parent : NULL;
    *(bool *)user |= binder && binder->kind == OP_LAUNCH;
}

static void put_launch(NestWriter *w, const Op *launch)
{
    const Attr *dims = op_attr(launch, ATTR_DIMS), *steps = op_attr(launch, ATTR_STEPS);
    const char *axes[MAX_RANK * 2];
    bool exact = false; /* the number of a tile is part of what is computed */
    block_walk(launch->regions[0], note_start, &exact);
    Text head = text_new(w->func->arena);
    for (int i = 0; i < dims->n; i++) {
        const Value *arg = launch->regions[0]->args[i];
        text_printf(&head, "%s%s", i ? ", " : "",
                    nest_axis(w, arg, dims->dims[i], steps->ints[i], NULL, exact));
        axes[i] = w->exprs[arg->id].text;
    }
    put_launch_entries(w, launch, axes);
    if (dims->n == 0) {
        nest_refuse(w, NEST_REASON_PART_OF_GRID, launch);
    }
    Gathers gathers = {0};
    block_walk(launch->regions[0], note_gather, &gathers);
    w->unchecked = gathers.any && !gathers.guarded;
    nest_line(w, "parallel %s {", head.data);
    w->indent++;
    if (w->unchecked) {
        nest_line(w, "unchecked {");
        w->indent++;
    }
    nest_block(w, launch->regions[0]);
    for (w->indent--; w->unchecked; w->unchecked = false) {
        nest_line(w, "}");
        w->indent--;
    }
    nest_line(w, "}");
}

/* ---- what launches store ---- */

typedef struct Stored {
    const NestWriter *w;
    uint64_t *bits; /* a bit a parameter */
    bool reads;     /* instead of what is stored */
} Stored;

static void note_memory(Op *op, void *user)
{
    Stored *stored = user;
    for (int at = 0; at < op->n_operands; at = access_next(op, at)) {
        const Value *value = op->operands[at];
        bool param = value && !value->def && !value->block;
        bool writes = param && op_writes(op, value);
        if (param && writes != stored->reads) {
            stored->bits[value->index / 64] |= (uint64_t)1 << value->index % 64;
        }
    }
}

static bool has(const uint64_t *bits, size_t i)
{
    return bits[i / 64] >> i % 64 & 1;
}

static uint64_t *memory_of(NestWriter *w, const Op *launch, bool reads)
{
    size_t words = w->func->params.n / 64 + 1;
    Stored stored = {w, ARENA_ARRAY(w->func->arena, uint64_t, words), reads};
    block_walk(launch->regions[0], note_memory, &stored);
    return stored.bits;
}

static const Param *param_at(const NestWriter *w, size_t i)
{
    return &w->func->params.items[i];
}

/* ---- functions for intermediates ---- */

/* `x: f32[M, N]` of each parameter that is named in `bits` and of that kind. */
static int put_params(NestWriter *w, const uint64_t *bits, bool types, Text *out)
{
    int n = 0;
    for (size_t i = 0; i < w->func->params.n; i++) {
        const Param *param = param_at(w, i);
        if (!has(bits, i)) {
            continue;
        }
        text_printf(out, "%s%s", n++ ? ", " : "", w->exprs[param->value->id].text);
        if (types) {
            text_printf(out, ": %s", nest_type_text(w, param->value->type));
        }
    }
    return n;
}

static bool mentions(Type type, const DimVar *var)
{
    for (int i = 0; i < type->rank; i++) {
        if (poly_mentions(type->dims[i], var)) {
            return true;
        }
    }
    return false;
}

/* Parameters by whose types the function knows all sizes. */
static void add_sizes(NestWriter *w, uint64_t *reads)
{
    for (size_t v = 0; v < w->func->dimvars.n; v++) {
        const DimVar *var = w->func->dimvars.items[v];
        bool known = var->kind != DIM_SIZE;
        for (size_t i = 0; i < w->func->params.n && !known; i++) {
            Dim dim = poly_var(w->func, (DimVar *)var);
            for (int k = 0; has(reads, i) && k < param_at(w, i)->value->type->rank; k++) {
                known = known || param_at(w, i)->value->type->dims[k] == dim;
            }
        }
        for (size_t i = 0; i < w->func->params.n && !known; i++) {
            if (param_at(w, i)->io == PARAM_IN && mentions(param_at(w, i)->value->type, var)) {
                reads[i / 64] |= (uint64_t)1 << i % 64;
                known = true;
            }
        }
    }
}

static bool mentions_any(const NestWriter *w, const uint64_t *bits, const DimVar *var)
{
    for (size_t i = 0; i < w->func->params.n; i++) {
        if (has(bits, i) && mentions(param_at(w, i)->value->type, var)) {
            return true;
        }
    }
    return false;
}

/* The sizes that follow from others; `bits`: those that the types of these parameters mention. */
static void put_where(NestWriter *w, const uint64_t *bits, Text *out)
{
    bool any = false;
    for (size_t i = 0; i < w->func->dimvars.n; i++) {
        const DimVar *var = w->func->dimvars.items[i];
        bool named = var->kind == DIM_SIZE && var->by > 0 && !var->unnamed;
        if (named && (!bits || mentions_any(w, bits, var))) {
            text_printf(out, "%s%s = (%s) // %lld", any ? ", " : " where ", var->name,
                        nest_dim(w, var->of), (long long)var->by);
            any = true;
        }
    }
}

/* Writes a function that stores the launch's intermediates into `functions`, and its call. */
static void put_function(NestWriter *w, const Op *launch, int nth, const uint64_t *stores,
                         Text *functions)
{
    Arena *arena = w->func->arena;
    uint64_t *reads = memory_of(w, launch, true);
    Text *kernel = w->out;
    const char *name = nest_name(w, arena_printf(arena, "%s_%d", w->func->name, nth));
    Text results = text_new(arena), names = text_new(arena), arguments = text_new(arena);
    put_params(w, stores, true, &results);
    int n = put_params(w, stores, false, &names);
    add_sizes(w, reads);
    put_params(w, reads, false, &arguments);
    w->out = functions;
    int indent = w->indent;
    w->indent = 0;
    Text typed = text_new(arena), where = text_new(arena);
    put_params(w, reads, true, &typed);
    put_where(w, stores, &where);
    nest_line(w, "fn %s(%s) -> %s%s%s%s {", name, typed.data, n > 1 ? "(" : "", results.data,
              n > 1 ? ")" : "", where.data);
    w->indent = 1;
    put_launch(w, launch);
    w->indent = 0;
    nest_line(w, "}");
    text_char(functions, '\n');
    w->out = kernel;
    w->indent = indent;
    nest_line(w, "let %s%s%s = %s(%s)", n > 1 ? "(" : "", names.data, n > 1 ? ")" : "", name,
              arguments.data);
}

/* Intermediates that a launch stores, and whether it stores results, too. */
static int intermediates_of(NestWriter *w, const Op *launch, const uint64_t *stores,
                            uint64_t *before)
{
    int n = 0, others = 0;
    for (size_t i = 0; i < w->func->params.n; i++) {
        bool scratch = param_at(w, i)->io == PARAM_SCRATCH;
        n += has(stores, i) && scratch;
        others += has(stores, i) && !scratch;
        if (has(stores, i) && scratch && has(before, i)) {
            nest_refuse(w, NEST_REASON_STORED_TWICE, launch);
        }
        before[i / 64] |= stores[i / 64] & (uint64_t)1 << i % 64;
    }
    if (n && others) {
        nest_refuse(w, NEST_REASON_STORED_BOTH, launch);
    }
    return n;
}

/* ---- the kernel ---- */

static void name_params(NestWriter *w)
{
    for (size_t i = 0; i < w->func->dimvars.n; i++) {
        const DimVar *var = w->func->dimvars.items[i];
        if (var->kind == DIM_SIZE && !var->unnamed && var->name && !strchr(var->name, '.')) {
            nest_take_name(w, var->name);
        }
    }
    for (size_t i = 0; i < w->func->dimvars.n; i++) { /* a size that a pass made */
        DimVar *var = w->func->dimvars.items[i];
        if (var->kind == DIM_SIZE && !var->unnamed && var->name && strchr(var->name, '.')) {
            var->name = nest_name(w, var->name);
        }
    }
    for (size_t i = 0; i < w->func->params.n; i++) {
        const Param *param = param_at(w, i);
        const char *name = param->name;
        if (param->io == PARAM_SCRATCH) {
            name = nest_name(w, name ? name : "scratch");
        } else {
            nest_take_name(w, name);
        }
        w->exprs[param->value->id] = (NestExpr){name, BINDS_PRIMARY};
    }
}

/* Memory whose axes are not those that a source can say. */
static void check_params(NestWriter *w)
{
    for (size_t i = 0; i < w->func->params.n; i++) {
        const Param *param = param_at(w, i);
        if (param->axis_perm || param->collapsed || param->caller_type || param->im2col ||
            param->alias ||
            (param->value->type->kind == TYPE_TENSOR && param->value->type->strides)) {
            nest_refuse(w, NEST_REASON_MEMORY, NULL);
        }
    }
}

static void put_head(NestWriter *w)
{
    Text in = text_new(w->func->arena), out = text_new(w->func->arena);
    int n_out = 0, n_in = 0;
    for (size_t i = 0; i < w->func->params.n; i++) {
        const Param *param = param_at(w, i);
        const char *type = nest_type_text(w, param->value->type);
        if (param->io == PARAM_OUT) {
            text_printf(&out, "%s%s: %s", n_out++ ? ", " : "", param->name, type);
        } else if (param->io != PARAM_SCRATCH) {
            text_printf(&in, "%s%s: %s%s", n_in++ ? ", " : "", param->name,
                        param->io == PARAM_INOUT ? "inout " : "", type);
        }
    }
    text_printf(w->out, "kernel %s(%s)", w->func->name, in.data);
    if (n_out) {
        text_printf(w->out, n_out > 1 ? " -> (%s)" : " -> %s", out.data);
    }
    put_where(w, NULL, w->out);
    text_add(w->out, " {\n");
}

static void put_facts(NestWriter *w)
{
    for (size_t i = 0; i < w->func->dimvars.n; i++) {
        const DimVar *var = w->func->dimvars.items[i];
        if (var->kind != DIM_SIZE || var->unnamed || var->by > 0) {
            continue;
        }
        if (var->multiple > 1) {
            nest_line(w, "assume %s %% %lld == 0", var->name, (long long)var->multiple);
        }
        if (var->least > 0) {
            nest_line(w, "assume %s >= %lld", var->name, (long long)var->least);
        }
        if (var->most < INT64_MAX) {
            nest_line(w, "assume %s <= %lld", var->name, (long long)var->most);
        }
    }
    for (size_t i = 0; i < w->func->params.n; i++) {
        if (param_at(w, i)->sorted) {
            nest_line(w, "assume sorted(%s)", param_at(w, i)->name);
        }
    }
}

static int put_body(NestWriter *w, Text *functions)
{
    int nth = 0, n = 0;
    uint64_t *before = ARENA_ARRAY(w->func->arena, uint64_t, w->func->params.n / 64 + 1);
    for (const Op *op = w->func->body->first; op; op = op->next) {
        n += op->kind == OP_LAUNCH;
    }
    for (const Op *op = w->func->body->first; op && !w->reason; op = op->next) {
        if (op->kind != OP_LAUNCH) {
            nest_refuse(w, NEST_REASON_SEQUENTIAL, op);
            break;
        }
        const uint64_t *stores = memory_of(w, op, false);
        w->scope = n > 1 ? arena_printf(w->func->arena, "launch %d: ", nth) : "";
        if (intermediates_of(w, op, stores, before)) {
            put_function(w, op, nth, stores, functions);
        } else {
            put_launch(w, op);
        }
        nth++;
    }
    return n;
}

void nest_source(Func *func, bool facts, NestSource *nest)
{
    Text kernel = text_new(func->arena), functions = text_new(func->arena);
    *nest = (NestSource){text_new(func->arena), text_new(func->arena), 0};
    NestWriter w = {.func = func, .out = &kernel, .schedule = &nest->schedule, .scope = ""};
    w.exprs = ARENA_ARRAY(func->arena, NestExpr, func->n_values);
    name_params(&w);
    check_params(&w);
    put_head(&w);
    w.indent = 1;
    if (facts) {
        put_facts(&w);
    }
    int n = put_body(&w, &functions);
    if (w.reason) {
        text_printf(&nest->source, "# %s cannot be written as source: %s\n", func->name,
                    nest_reasons[w.reason]);
        if (w.at) {
            text_add(&nest->source, "#   ");
            print_op(func, w.at, &nest->source);
            text_char(&nest->source, '\n');
        }
        return;
    }
    text_printf(&nest->source, "%s%s}\n", functions.data, kernel.data);
    nest->n_launches = n;
}

/* The blocks of a multiprocessor follow from registers, which a pass after `tile` counts. */
static void put_occupancy(const Func *func, int n_launches, Text *out)
{
    const ScheduleEntry *entries = func->schedule->entries.items;
    for (size_t i = 0; i < func->schedule->entries.n; i++) {
        for (int k = 0; text_equal(entries[i].key, "occupancy") && k < n_launches; k++) {
            const ScheduleEntry *entry = schedule_for_launch(&entries[i], k);
            if (entry->launch == k && n_launches > 1) {
                text_printf(out, "    launch %d: occupancy %lld\n", k, (long long)entry->number);
            } else if (entry->launch == k || entry->launch == EVERY_LAUNCH) {
                text_printf(out, "    occupancy %lld\n", (long long)entry->number);
            }
        }
    }
}

void nest_finish(const Func *func, const NestSource *nest, Text *out)
{
    text_add(out, nest->source.data);
    if (nest->n_launches && func->target) {
        text_printf(out, "\nschedule %s on %s {\n%s", func->name, func->target->name,
                    nest->schedule.data);
        put_occupancy(func, nest->n_launches, out);
        text_add(out, "}\n");
    }
}

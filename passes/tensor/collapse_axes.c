/* SPDX-License-Identifier: Apache-2.0 */
/* collapse_axes: collapses several row axes of a contraction, and several reduced axes, into one.
 *
 *   in %x: tensor<f32[B, S, K]>            in %x: tensor<f32[B*S, K]> collapsed [2, 1] of [B, S, K]
 *   %p = dot %x, %w : f32[B, S, N]    →    %p = dot %x, %w : f32[B*S, N]
 *   store %y[:, :, :], %p                  store %y[:, :], %p
 *
 *   %r = reduce %x fn=sum axis=1 : f32[B, 1, K]
 *   %t = reduce %r fn=sum axis=0 : f32[1, 1, K]    →    %t = reduce %x fn=sum axis=0 : f32[1, K]
 *
 * Two axes are collapsed if they are adjacent in each tensor that has them, if everything that is
 * made of these tensors iterates over both, reduces both or is a reshape that makes them one axis,
 * and if one factor of a dot (or of a sum of products) has both and the other neither, a reduction
 * over both is one over either in turn, or such a reshape is then no op of its own.
 * A set of axes that is reduced is then one axis: its loop has one step, its shares are of the
 * whole set, and rows are held or walked as those of one axis. Tiles of the collapsed axis are full
 * even if the inner axis is short. In schedules the axis has the inner one's name; a schedule entry
 * that names the outer axis keeps the two separate. Requires the tensor level, and tensors that are
 * contiguous and read as a whole. Axes of a product's rows change no bits; sums over several axes
 * may be added up in another order. */
#include "passes/tensor/collapse_axes.h"

#include "ir/op_axes.h"
#include "ir/schedule.h"
#include "passes/analysis/axis_dependence.h"
#include "passes/pass.h"
#include "passes/tensor/collapse_sinks.h"
#include "passes/tensor/collapse_values.h"
#include "passes/tensor/reorder_axes.h"

/* One pair of axes, and all that is made anew if it is collapsed. */
typedef struct Trial {
    Collapse f;
    struct {
        Sink *items;
        size_t n, cap;
    } sinks;
    Memo *dead; /* of is_dead */
} Trial;

/* ---- what reads a value that is collapsed ---- */

/* True if nothing needs the op: func_remove_dead has not run since its use went. */
static bool is_dead(const Func *func, const Op *op, Memo *known)
{
    int64_t found;
    if (op->n_results != 1 || !op_has(op, TRAIT_PURE)) {
        return false;
    }
    if (memo_known(known, op->results[0], 0, &found)) {
        return found;
    }
    bool dead = true;
    const Block *all = func->body;
    for (const ValueUse *use = use_first(op->results[0], all); use && dead;
         use = use_next(use, all)) {
        dead = is_dead(func, use->op, known);
    }
    return memo_keep(known, op->results[0], 0, dead);
}

/* The only op that reads the value and is needed; NULL: there are several. */
static Op *only_reader(const Func *func, const Value *value, Memo *dead)
{
    Op *reader = NULL;
    const Block *all = func->body;
    for (const ValueUse *use = use_first(value, all); use; use = use_next(use, all)) {
        if (!is_dead(func, use->op, dead)) {
            if (reader && reader != use->op) {
                return NULL;
            }
            reader = use->op;
        }
    }
    return reader;
}

/* The reduction that reduces the other axis of the pair `at`, `at` + 1 as `first` does one of them,
 * and is all that reads it, but for axes of one element that come and go; NULL: none. */
static Op *second_reduction(const Func *func, const Op *first, int at, Memo *dead)
{
    int axis = (int)op_int(first, ATTR_AXIS, 0), other = axis == at ? at + 1 : at;
    Op *reader = only_reader(func, first->results[0], dead);
    while (reader && (reader->kind == OP_EXPAND || reader->kind == OP_SQUEEZE)) {
        OpAxis moved = op_axis(reader, 0, other);
        if (moved.role != AXIS_TIED) {
            return NULL;
        }
        other = moved.result;
        reader = only_reader(func, reader->results[0], dead);
    }
    bool second = reader && reader->kind == OP_REDUCE && reader->n_operands == 1 &&
                  reader->parent == func->body && (int)op_int(reader, ATTR_AXIS, 0) == other &&
                  text_equal(op_word(reader, ATTR_FN), op_word(first, ATTR_FN));
    return second ? reader : NULL;
}

static bool reduces_pair(const Op *op, int at)
{
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    return op->kind == OP_REDUCE && op->n_operands == 1 && (axis == at || axis == at + 1);
}

static void add_sink(Trial *trial, Op *op, Op *first, int at)
{
    for (size_t i = 0; i < trial->sinks.n; i++) {
        const Sink *sink = &trial->sinks.items[i];
        if (sink->op == op && sink->first == first && sink->at == at) {
            return;
        }
    }
    Sink sink = {op, first, at};
    ARENA_PUSH(trial->f.func->arena, &trial->sinks, sink);
}

/* Where axes `at` and `at` + 1 of the operand are in the result, as neighbours; -1: nowhere. */
static int pair_in_result(const Op *op, int operand, int at)
{
    OpAxis outer = op_axis(op, operand, at), inner = op_axis(op, operand, at + 1);
    bool tied = outer.role == AXIS_TIED && inner.role == AXIS_TIED;
    return tied && inner.result == outer.result + 1 ? outer.result : -1;
}

/* Sees to it that the op, which reads a value with the pair, is made anew; false: it cannot be. */
static bool add_reader(Trial *trial, Op *op, int operand, int at)
{
    const Func *func = trial->f.func;
    if (is_dead(func, op, trial->dead)) {
        return true;
    }
    if (op->parent != func->body || op->n_regions) {
        return false;
    }
    bool merged = operand == 0 && collapse_is_merged(&trial->f, op, at);
    if (op->kind == OP_STORE || op->kind == OP_SCATTER || merged) {
        add_sink(trial, op, NULL, at);
        return true;
    }
    if (reduces_pair(op, at)) {
        Op *second = second_reduction(func, op, at, trial->dead);
        if (second) {
            add_sink(trial, second, op, at);
        }
        return second != NULL;
    }
    int to = op->n_results == 1 && op_has(op, TRAIT_PURE) ? pair_in_result(op, operand, at) : -1;
    if (to >= 0) {
        collapse_note_pair(&trial->f, op->results[0], to);
    }
    return to >= 0;
}

static bool add_readers(Trial *trial, const Value *value, int at)
{
    const Block *all = trial->f.func->body;
    bool can = true;
    for (const ValueUse *use = use_first(value, all); use && can; use = use_next(use, all)) {
        can = add_reader(trial, use->op, (int)(use - use->op->uses), at);
    }
    return can;
}

/* ---- what stays as it is ---- */

static bool is_second(const Trial *trial, const Op *op)
{
    bool second = false;
    for (size_t i = 0; i < trial->sinks.n && !second; i++) {
        second = trial->sinks.items[i].first && trial->sinks.items[i].op == op;
    }
    return second;
}

/* Does it read a tensor that is collapsed, but for what the reductions of pairs come to? `seen`:
 * values whose operands were looked at. */
static bool reads_collapsed(const Trial *trial, const Value *value, Memo *seen)
{
    const Op *op = value->def;
    if (!op || is_second(trial, op) || !memo_visit(seen, value)) {
        return false;
    }
    for (int i = 0; i < op->n_operands; i++) {
        const Value *operand = op->operands[i];
        bool memory = operand && operand->type->kind == TYPE_TENSOR;
        if (memory ? operand->index >= 64 || trial->f.axis[operand->index] >= 0
                   : operand && reads_collapsed(trial, operand, seen)) {
            return true;
        }
    }
    return false;
}

static bool keeps_collapsed(const Trial *trial)
{
    Memo *seen = memo_open(trial->f.func);
    bool found = false;
    for (size_t i = 0; i < trial->f.kept.n && !found; i++) {
        found = reads_collapsed(trial, trial->f.kept.items[i], seen);
    }
    memo_close(seen);
    return found;
}

/* ---- the trial ---- */

/* Does a line of the user's choose tiles of the axis that would be part of the next one? */
static bool is_chosen(const Func *func, Dim dim)
{
    for (size_t i = 0; i < func->schedule->entries.n; i++) {
        const ScheduleEntry *line = &func->schedule->entries.items[i];
        bool tile = line->origin != ENTRY_DERIVED && text_equal(line->key, "tile");
        for (size_t k = 0; tile && k < func->dimvars.n; k++) {
            const DimVar *var = func->dimvars.items[k];
            if (poly_mentions(dim, var) && text_equal(var->name, line->sub)) {
                return true;
            }
        }
    }
    return false;
}

static bool takes_all_accesses(const Collapse *f)
{
    bool all = true;
    for (size_t i = 0; all && i < f->func->params.n; i++) {
        const Param *param = &f->func->params.items[i];
        bool collapsed = i < 64 && f->axis[i] >= 0;
        /* Windows are of an input as the caller has it, but of a copy as it lies here. */
        const Value *of = param->im2col ? param->im2col->of : NULL;
        bool copied = of && f->func->params.items[of->index].io == PARAM_SCRATCH;
        of = copied ? of : param->alias;
        bool of_collapsed = of && of->index < 64 && f->axis[of->index] >= 0;
        all = !of_collapsed &&
              (!collapsed || f->accesses[i] == value_count_uses(f->func, param->value));
    }
    return all;
}

/* Looks at all that would be made anew, from one sink on. */
static bool try_pair(Trial *trial)
{
    Collapse *f = &trial->f;
    const Sink *asked = &trial->sinks.items[0];
    bool can = !is_chosen(f->func, sink_pair(asked)->type->dims[asked->at]);
    size_t read = 0;
    for (size_t i = 0; i < trial->sinks.n && can; i++) {
        Sink sink = trial->sinks.items[i];
        const Op *op = sink.first ? sink.first : sink.op;
        can = sink_operands(f, &sink, ARENA_ARRAY(f->func->arena, Value *, op->n_operands));
        for (; read < f->pairs.n && can; read++) {
            can = add_readers(trial, f->pairs.items[read].value, f->pairs.items[read].at);
        }
    }
    return can && takes_all_accesses(f) && !keeps_collapsed(trial);
}

/* Reshapes to more axes than those of a matrix may be the batches of products, whose axes
 * split_batches chooses. */
static bool has_reduction_or_view(const Trial *trial)
{
    bool has = false;
    for (size_t i = 0; i < trial->sinks.n && !has; i++) {
        const Sink *sink = &trial->sinks.items[i];
        bool view = sink->op->kind == OP_GATHER && sink->op->results[0]->type->rank <= 2;
        has = sink->first || view;
    }
    return has;
}

/* A product gets more rows, a reduction is of one axis instead of two, a reshape is no op of its
 * own, or what is computed of the reshape of an array may be computed with that. Where there is no
 * product, quotients and remainders of the collapsed axis would take longer than that saves. */
static bool pays(const Trial *trial)
{
    return trial->f.pays || (has_reduction_or_view(trial) && !trial->f.divides);
}

/* ---- what is made anew ---- */

void collapse_param(Func *func, Param *param, int at)
{
    Type type = param->value->type;
    Dim dims[MAX_RANK];
    int64_t *counts = ARENA_ARRAY(func->arena, int64_t, type->rank);
    for (int i = 0, to = 0; i < type->rank; i++) {
        counts[to] += param->collapsed ? param->collapsed[i] : 1;
        to += i != at;
    }
    collapse_dims(func, type, at, dims);
    param->caller_type = param_given(param);
    param->collapsed = counts;
    param->value->type = type_with_strides(
        func, type_tensor(func, type->dtype, type->rank - 1, dims), NULL, type->align);
}

/* Makes all anew, in the order of the program; returns what takes the place of the first sink. */
static Op *make_all(Func *func, Trial *trial)
{
    Op *first = NULL;
    for (size_t i = 0; i < func->params.n && i < 64; i++) {
        if (trial->f.axis[i] >= 0) {
            collapse_param(func, &func->params.items[i], trial->f.axis[i]);
        }
    }
    Collapse f = collapse_begin(func, false);
    f.varies = an_varies_all(func);
    f.all = computations_open(func);
    f.gathers = trial->f.gathers;
    for (Op *op = func->body->first, *next; op; op = next) {
        next = op->next;
        for (size_t i = 0; i < trial->sinks.n; i++) {
            if (trial->sinks.items[i].op == op) {
                Op *made = sink_make(&f, &trial->sinks.items[i]);
                first = i == 0 ? made : first;
                break;
            }
        }
    }
    memo_close(f.varies);
    computations_close(f.all);
    func_remove_dead(func);
    return first;
}

/* ---- the function ---- */

/* What trials share while nothing changes. */
typedef struct Shared {
    Func *func;
    Memo *varies;      /* of an_varies */
    Computations *all; /* maps of gathers that are reshapes */
    Memo *dead;        /* of is_dead */
    HashTable refused; /* pairs of trials that came to nothing: others from there do not, either */
} Shared;

static Shared share(Func *func)
{
    return (Shared){func, an_varies_all(func), computations_open(func), memo_open(func), {0}};
}

static void share_end(Shared *shared)
{
    memo_close(shared->varies);
    computations_close(shared->all);
    memo_close(shared->dead);
}

static void refuse(Shared *shared, const Collapse *f)
{
    for (size_t i = 0; i < f->pairs.n; i++) {
        collapse_add_pair(shared->func->arena, &shared->refused, f->pairs.items[i]);
    }
}

/* Collapses the pair of the sink, if that is possible and pays. Returns whether it did; `made`:
 * what takes the sink's place. `gathers`: values that are gathered are gathered anew. */
static bool collapse_from(Shared *shared, Op *op, Op *first, int at, bool gathers, Op **made)
{
    Trial trial = {.f = collapse_begin(shared->func, true), .dead = shared->dead};
    trial.f.varies = shared->varies;
    trial.f.all = shared->all;
    trial.f.gathers = gathers;
    add_sink(&trial, op, first, at);
    const Value *value = sink_pair(&trial.sinks.items[0]);
    if (collapse_has_pair(&shared->refused, (ValuePair){value, at})) {
        return false;
    }
    if (!try_pair(&trial) || !pays(&trial)) {
        refuse(shared, &trial.f);
        return false;
    }
    *made = make_all(shared->func, &trial);
    share_end(shared);
    *shared = share(shared->func);
    return true;
}

/* Collapses pairs of the op's axes, of which there are `rank`, the last ones first. */
static Op *collapse_sink(Shared *shared, Op *op, int rank, unsigned computed)
{
    for (int at = rank - 2; at >= 0; at--) {
        bool gathers = computed >> at & 3;
        if (at + 1 < rank && collapse_from(shared, op, NULL, at, gathers, &op)) {
            rank--;
            computed |= (unsigned)gathers << at;
        }
    }
    return op;
}

Op *collapse_axes_of(Func *func, Op *op, int rank, unsigned computed)
{
    Shared shared = share(func);
    Op *made = collapse_sink(&shared, op, rank, computed);
    share_end(&shared);
    return made == op ? NULL : made;
}

/* Collapses a pair of axes that two reductions reduce in turn, if the op is the first of them. */
static bool collapse_reduction(Shared *shared, Op *op)
{
    Op *made;
    bool found = false;
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    for (int at = axis - 1; at <= axis && op->kind == OP_REDUCE && !found; at++) {
        bool pair = at >= 0 && at + 1 < op->operands[0]->type->rank && reduces_pair(op, at);
        Op *second = pair ? second_reduction(shared->func, op, at, shared->dead) : NULL;
        found = second && collapse_from(shared, second, op, at, false, &made);
    }
    return found;
}

/* Collapses a pair of axes that the op, a reshape, makes one. */
static bool collapse_view(Shared *shared, Op *op)
{
    Op *made;
    bool found = false;
    int rank = op->kind == OP_GATHER ? op->operands[0]->type->rank : 0;
    for (int at = rank - 2; at >= 0 && !found; at--) {
        Collapse f = {.func = shared->func, .all = shared->all};
        found = collapse_is_merged(&f, op, at) && collapse_from(shared, op, NULL, at, false, &made);
    }
    return found;
}

/* Do axes `at` and `at` + 1 of the value, which is made for one reader, lie the other way round in
 * memory, as neighbours? */
static bool is_reversed(const Shared *shared, const Value *value, int at)
{
    int outer = at, inner = at + 1;
    const Op *op = value->def;
    while (op && op->kind != OP_LOAD && only_reader(shared->func, op->results[0], shared->dead)) {
        int from = -1;
        for (int i = 0; i < op->n_operands && from < 0; i++) {
            bool both = (op_moves_axes(op) || op_has(op, TRAIT_ELEMENTWISE)) &&
                        op_operand_axis(op, i, outer) >= 0 && op_operand_axis(op, i, inner) >= 0;
            from = both && an_varies(shared->varies, op->operands[i]) ? i : -1;
        }
        if (from < 0) {
            return false;
        }
        outer = op_operand_axis(op, from, outer);
        inner = op_operand_axis(op, from, inner);
        op = op->operands[from]->def;
    }
    return op && op->kind == OP_LOAD && collapse_is_whole(op) && outer == inner + 1;
}

/* The order in which reduced axes are named is of no account: that of memory is taken. */
static bool reorder_reduction(Shared *shared, Op *op, int at)
{
    bool pair = op->kind == OP_REDUCE && at >= 0 && at + 1 < op->operands[0]->type->rank &&
                reduces_pair(op, at);
    Op *second = pair ? second_reduction(shared->func, op, at, shared->dead) : NULL;
    if (!second || !is_reversed(shared, op->operands[0], at)) {
        return false;
    }
    int64_t order[MAX_RANK];
    for (int i = 0; i < op->operands[0]->type->rank; i++) {
        if (i == at) {
            order[i] = at + 1;
        } else if (i == at + 1) {
            order[i] = at;
        } else {
            order[i] = i;
        }
    }
    Builder b = build_before(shared->func, second);
    const char *fn = op_word(op, ATTR_FN);
    b.span = second->span;
    Value *inner = build_reduce(&b, fn, reorder_axes(&b, op->operands[0], order), at + 1);
    Value *both = build_reduce(&b, fn, build_squeeze(&b, inner, at + 1), at);
    Sink sink = {second, op, at};
    Value *old = second->results[0];
    func_replace_uses(shared->func, old, sink_with_unit_axes(&b, &sink, both, second->operands[0]));
    func_remove_dead(shared->func);
    share_end(shared);
    *shared = share(shared->func);
    return true;
}

/* A copy that a view is of: its own axes are its own. */
static bool is_copy(const Func *func, const Op *op)
{
    return func->params.items[op->operands[0]->index].io == PARAM_SCRATCH;
}

static bool collapse_store(Shared *shared, Op *op)
{
    return op->kind == OP_STORE && collapse_is_whole(op) && !is_copy(shared->func, op) &&
           collapse_sink(shared, op, op->operands[0]->type->rank, 0) != op;
}

/* Loads of an input that became equal are one, so that all their readers are looked at. */
static void merge_loads(Func *func)
{
    const Op **first = ARENA_ARRAY(func->arena, const Op *, func->params.n);
    for (Op *op = func->body->first; op; op = op->next) {
        const Value *memory = op->kind == OP_LOAD ? op->operands[0] : NULL;
        if (memory && memory->type->kind == TYPE_TENSOR && collapse_is_whole(op) &&
            func->params.items[memory->index].io == PARAM_IN) {
            const Op *same = first[memory->index];
            if (same && op_is_same(same, op)) {
                func_replace_uses(func, op->results[0], same->results[0]);
            }
            first[memory->index] = same ? same : op;
        }
    }
    func_remove_dead(func);
}

void pass_collapse_axes(Func *func)
{
    merge_loads(func);
    Shared shared = share(func);
    for (Op *op = func->body->first; op;) {
        int axis = (int)op_int(op, ATTR_AXIS, 0);
        bool changed = collapse_store(&shared, op) || reorder_reduction(&shared, op, axis - 1) ||
                       collapse_reduction(&shared, op) || collapse_view(&shared, op);
        op = changed ? func->body->first : op->next;
    }
    share_end(&shared);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which arrays get a buffer, and how long each value is live.
 *
 * Ops are numbered in program order; an op with regions has a second number, after its last inner
 * op. The analysis goes backwards, so it knows all readers of a value before it reaches the op
 * that defines it. A value is computed inside the loop nest of its reader, unless there are
 * several readers, or the reader is executed more often than the definition (in a loop or under a
 * broadcast) and recomputing costs more than reading a buffer. */
#include "codegen/cpu/cpu_emit.h"

#include "ir/build.h"
#include "ir/op_axes.h"

enum { CHEAP = 3, DEAR = 8, MAX_COST = 1000 };

/* ---- numbering ---- */

static void count_ops(CpuEmitter *c, const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        ARENA_PUSH(c->arena, &c->ops, op);
        for (int i = 0; i < op->n_regions; i++) {
            count_ops(c, op->regions[i]);
        }
        if (op->n_regions) {
            ARENA_PUSH(c->arena, &c->ops, op);
        }
    }
}

int cpu_position(const CpuEmitter *c, const Op *op)
{
    for (size_t i = 0; i < c->ops.n; i++) {
        if (c->ops.items[i] == op) {
            return (int)i;
        }
    }
    return -1;
}

int cpu_end_position(const CpuEmitter *c, const Op *op)
{
    for (size_t i = c->ops.n; i-- > 0;) {
        if (c->ops.items[i] == op) {
            return (int)i;
        }
    }
    return -1;
}

/* ---- properties ---- */

bool cpu_is_pointwise(const Op *op)
{
    switch (op->kind) {
    case OP_CONST:
    case OP_IOTA:
    case OP_INDEX:
    case OP_BROADCAST:
    case OP_EXPAND:
    case OP_SQUEEZE:
    case OP_PERMUTE:
    case OP_MASK:
    case OP_GATHER:
    case OP_LOAD: return true;
    default: return op_has(op, TRAIT_ELEMENTWISE);
    }
}

static bool is_array(const Value *value)
{
    return value && type_is_tile(value->type);
}

bool cpu_reads_written(const CpuEmitter *c, const Op *op)
{
    return (op->kind == OP_LOAD || op->kind == OP_GATHER) &&
           c->written[plan_param_index(c->func, op->operands[0])];
}

static int own_cost(const Op *op)
{
    switch (op->kind) {
    case OP_CONST:
    case OP_BROADCAST:
    case OP_EXPAND:
    case OP_SQUEEZE:
    case OP_PERMUTE: /* what reads it chooses its vectors by what is contiguous, or turns it */
    case OP_MASK: return 0;
    case OP_SQRT:
    case OP_DIV:
    case OP_MOD:
    case OP_FAST_EXP2: return DEAR;
    default: return 1;
    }
}

/* ---- stores that share a nest ---- */

/* True if the op may as well come before the stores. */
static bool may_precede(const Op *op, const Op *const *stores, int n)
{
    switch (op->kind) {
    case OP_SIZE:
    case OP_START:
    case OP_END:
    case OP_LEN: return true;
    default: break;
    }
    bool may = cpu_is_pointwise(op);
    for (int i = 0; i < n && op->n_operands; i++) {
        may = may && op->operands[0] != stores[i]->operands[0];
    }
    return may;
}

static bool same_dims(Type a, Type b)
{
    bool same = a->rank == b->rank && a->rank > 0;
    for (int i = 0; i < a->rank && same; i++) {
        same = a->dims[i] == b->dims[i];
    }
    return same;
}

/* Marks the stores that the nest of `first` takes along: of as many elements, into other tensors,
 * with nothing between that has to come behind one of them. */
static void share_nest(CpuEmitter *c, const Op *first)
{
    const Op *members[MAX_STORES] = {first};
    int n = 1;
    Type type = op_moved_value(first)->type;
    for (const Op *op = first->next; op && n < MAX_STORES; op = op->next) {
        if (op->kind != OP_STORE && may_precede(op, members, n)) {
            continue;
        }
        if (op->kind != OP_STORE) {
            break;
        }
        bool joins = same_dims(type, op_moved_value(op)->type);
        for (int i = 0; i < n; i++) {
            joins = joins && members[i]->operands[0] != op->operands[0];
        }
        if (!joins) {
            break;
        }
        members[n++] = op;
    }
    for (int i = 0; i < n; i++) {
        c->nests[cpu_position(c, members[i])] = members[n - 1];
    }
}

static void share_nests(CpuEmitter *c)
{
    c->nests = ARENA_ARRAY(c->arena, const Op *, c->ops.n);
    c->in_place = ARENA_ARRAY(c->arena, bool, c->ops.n);
    for (size_t i = 0; i < c->ops.n; i++) {
        if (c->ops.items[i]->kind == OP_STORE && !c->nests[i]) {
            share_nest(c, c->ops.items[i]);
        }
    }
}

bool cpu_is_in_place(const CpuEmitter *c, const Op *last)
{
    return c->in_place[cpu_position(c, last)];
}

const Op *cpu_store_nest(const CpuEmitter *c, const Op *store)
{
    return c->nests[cpu_position(c, store)];
}

/* ---- loads of lines that lie apart ---- */

/* Loads of many short pieces of rows: of so few bytes that each costs a cache line or two wherever
 * it lies, and of so many rows that they do not stay in the first-level cache, whose sets rows of a
 * power of two share. */
enum { SHORT_PIECE = 128, MANY_PIECES = 256 };

static bool loads_pieces(CpuEmitter *c, const Op *op)
{
    if (op->kind != OP_LOAD || op->results[0]->type->rank < 2) {
        return false;
    }
    Access access = op_access(op, 0);
    Type tile = op->results[0]->type, memory = access.memory->type;
    const Value *last = access.indices[access.n - 1];
    if (!last || last->type->kind != TYPE_RANGE || !type_stride_is(memory, access.n - 1, 1)) {
        return false;
    }
    int64_t piece = cpu_capacity(c, tile->dims[tile->rank - 1]), pieces = 1;
    for (int i = 0; i < tile->rank - 1; i++) {
        pieces *= cpu_capacity(c, tile->dims[i]);
    }
    return pieces >= MANY_PIECES && piece < poly_most(memory->dims[access.n - 1]) &&
           piece * dtype_bytes(memory->dtype) <= SHORT_PIECE;
}

/* ---- readers ---- */

typedef struct Reader {
    const Op *nest; /* the op in whose nest the value is computed */
    int last;
} Reader;

/* Inside of a fold, or of a loop over elements: nothing there has a buffer. */
static bool in_elements(const Op *op)
{
    for (const Op *around = op->parent->parent; around; around = around->parent->parent) {
        bool elements = around->kind == OP_WHILE && is_array(around->regions[0]->last->operands[0]);
        if (around->kind == OP_FOLD || elements) {
            return true;
        }
    }
    return false;
}

static bool stretches(const Op *op)
{
    if (op->kind != OP_BROADCAST) {
        return false;
    }
    Type from = op->operands[0]->type, to = op->results[0]->type;
    int lead = to->rank - from->rank;
    bool any = false;
    for (int i = 0; i < to->rank; i++) {
        any |= i < lead || from->dims[i - lead] != to->dims[i];
    }
    return any;
}

static bool same_access(const Op *a, const Op *b)
{
    Access left = op_access(a, 0), right = op_access(b, 0);
    bool same = left.memory == right.memory && left.n == right.n;
    for (int i = 0; i < left.n && same; i++) {
        same = left.indices[i] == right.indices[i];
    }
    return same;
}

/* True if only one nest of stores reads what is loaded, each element for the same element, and of
 * all that is stored until then only that nest stores to the same memory, where it is loaded: it
 * computes an element before it stores one. */
static bool is_in_place(const CpuEmitter *c, const Op *load)
{
    const CpuValue *facts = &c->values[load->results[0]->id];
    const Op *nest = facts->reader;
    if (load->kind != OP_LOAD || !nest || nest->kind != OP_STORE || facts->many || facts->moved ||
        nest->parent != load->parent) {
        return false;
    }
    int from = cpu_position(c, load), to = cpu_position(c, nest);
    for (int i = from + 1; i <= to; i++) {
        const Op *op = c->ops.items[i];
        bool writes = op_writes(op, load->operands[0]);
        if (writes && (op->kind != OP_STORE || c->nests[i] != nest || !same_access(load, op))) {
            return false;
        }
    }
    return true;
}

static bool wants_buffer(const CpuEmitter *c, const Op *op)
{
    const Value *value = op->results[0];
    if (!is_array(value) || in_elements(op)) {
        return false;
    }
    const CpuValue *facts = &c->values[value->id];
    if (cpu_reads_written(c, op)) {
        /* A later store may change what it reads. */
        bool in_place = is_in_place(c, op);
        if (in_place) {
            c->in_place[cpu_position(c, facts->reader)] = true;
        }
        return !in_place;
    }
    if (facts->yielded) {
        return true; /* all that is yielded is there before the first of it is written */
    }
    return facts->many && (facts->cost > CHEAP || facts->pieces);
}

/* Backward: all readers of op's results are known. */
static void visit(CpuEmitter *c, const Op *op, int position)
{
    Reader reader = {op, position};
    if (op->kind == OP_STORE) {
        const Op *nest = c->nests[position];
        reader = (Reader){nest, cpu_position(c, nest)};
    }
    if (cpu_is_pointwise(op) && is_array(op->results[0])) {
        CpuValue *facts = &c->values[op->results[0]->id];
        facts->stored = wants_buffer(c, op);
        if (!facts->stored && facts->reader) {
            reader = (Reader){facts->reader, facts->last};
        }
        if (facts->last < position) {
            facts->last = position;
        }
    }
    for (int i = 0; i < op->n_operands; i++) {
        const Value *value = op->operands[i];
        if (value && value->type->kind == TYPE_ARRAY) {
            /* Each operand extends the live range of its value and records its reader. */
            bool repeats = stretches(op);
            CpuValue *facts = &c->values[value->id];
            const Op *around = op_ancestor_in(op, value_block(value));
            bool deeper = around && around != op;
            int last = deeper ? cpu_end_position(c, around) : reader.last;
            const Op *nest = reader.nest;
            if (facts->last < last) {
                facts->last = last;
            }
            facts->moved |= !op_has(op, TRAIT_ELEMENTWISE) && op->kind != OP_STORE;
            facts->moved |= op->n_results == 1 && c->values[op->results[0]->id].moved;
            facts->many |= repeats || deeper || (facts->reader && facts->reader != nest);
            facts->yielded |= nest->kind == OP_YIELD;
            facts->reader = nest;
        }
    }
}

void cpu_analyze(CpuEmitter *c, const Op *launch)
{
    c->ops.n = 0;
    count_ops(c, launch->regions[0]);

    /* A forward sweep estimates the cost of recomputing one element of each value. */
    for (size_t i = 0; i < c->ops.n; i++) {
        const Op *op = c->ops.items[i];
        if (!cpu_is_pointwise(op)) {
            continue;
        }
        int cost = own_cost(op);
        bool pieces = loads_pieces(c, op);
        for (int j = 0; j < op->n_operands && op->kind != OP_LOAD; j++) {
            cost += c->values[op->operands[j]->id].cost;
            pieces = pieces || c->values[op->operands[j]->id].pieces;
        }
        c->values[op->results[0]->id].cost = cost < MAX_COST ? cost : MAX_COST;
        c->values[op->results[0]->id].pieces = pieces;
    }

    c->written = ARENA_ARRAY(c->arena, bool, c->func->params.n);
    for (size_t i = 0; i < c->ops.n; i++) {
        const Op *op = c->ops.items[i];
        if (op->kind == OP_STORE || op->kind == OP_SCATTER) {
            c->written[plan_param_index(c->func, op->operands[0])] = true;
        }
    }
    share_nests(c);
    for (int i = (int)c->ops.n - 1; i >= 0; i--) {
        const Op *op = c->ops.items[i];
        bool end = op->n_regions && cpu_position(c, op) != i;
        if (end) {
            /* The buffers that a loop carries stay live until its end, regardless of their last
             * reader inside. */
            for (int k = 0; k < op->n_results; k++) {
                CpuValue *facts = &c->values[op->results[k]->id];
                facts->last = facts->last < i ? i : facts->last;
            }
        } else {
            visit(c, op, i);
        }
    }
}

/* ---- walks over expressions ---- */

void cpu_new_walk(CpuEmitter *c)
{
    c->stamp++;
}

bool cpu_seen(const CpuEmitter *c, const Value *value, int how, bool *answer)
{
    const CpuValue *facts = &c->values[value->id];
    *answer = facts->seen.answer;
    return facts->seen.stamp == c->stamp && facts->seen.how == how;
}

bool cpu_remember(CpuEmitter *c, const Value *value, int how, bool answer)
{
    CpuValue *facts = &c->values[value->id];
    facts->seen.stamp = c->stamp;
    facts->seen.how = how;
    facts->seen.answer = answer;
    return answer;
}

/* ---- contiguity ---- */

/* The axis of the memory, or its place in `indices`, that a load walks along an axis of its value;
 * -1: none. */
static int walked_axis(const Op *load, int axis)
{
    Access access = op_access(load, 0);
    int array_axis = load->results[0]->type->rank;
    for (int i = access.n - 1; i >= 0; i--) {
        const Value *index = access.indices[i];
        bool kept = !index || index->type->kind == TYPE_RANGE;
        if (kept && --array_axis == axis) {
            return i;
        }
    }
    return -1;
}

static bool index_growth(const Value *index, int axis, int depth, int64_t *growth);

static bool sum_growth(const Op *op, int axis, int depth, int64_t *growth)
{
    int64_t a, b;
    if (!index_growth(op->operands[0], axis, depth, &a) ||
        !index_growth(op->operands[1], axis, depth, &b)) {
        return false;
    }
    *growth = op->kind == OP_ADD ? a + b : a - b;
    return true;
}

/* By how much an index grows from one element along the axis to the next; false: not known. */
static bool index_growth(const Value *index, int axis, int depth, int64_t *growth)
{
    const Op *op = index->def;
    *growth = 0;
    if (index->type->rank == 0 || (op && op->kind == OP_CONST)) {
        return true;
    }
    if (!op || depth == 0) {
        return false;
    }
    switch (op->kind) {
    case OP_INDEX:
    case OP_IOTA: *growth = 1; return true;
    case OP_LOAD: return walked_axis(op, axis) < 0;
    case OP_ADD:
    case OP_SUB: return sum_growth(op, axis, depth - 1, growth);
    case OP_CAST: return index_growth(op->operands[0], axis, depth - 1, growth);
    default: break;
    }
    if (op_moves_axes(op)) {
        int inner = op_operand_axis(op, 0, axis);
        return inner < 0 || index_growth(op->operands[0], inner, depth - 1, growth);
    }
    bool still = op_has(op, TRAIT_ELEMENTWISE);
    for (int i = 0; i < op->n_operands && still; i++) {
        still = index_growth(op->operands[i], axis, depth - 1, growth) && *growth == 0;
    }
    return still;
}

/* Only the last index moves along the axis, if any does, by one element at a time. */
static bool gathers_contiguous(const Op *gather, int axis)
{
    enum { MAX_DEPTH = 12 };
    Access access = op_access(gather, 0);
    for (int i = 0; i < access.n; i++) {
        int64_t growth;
        if (!index_growth(access.indices[i], axis, MAX_DEPTH, &growth)) {
            return false;
        }
        bool last = i == access.n - 1 && type_stride_is(access.memory->type, i, 1);
        if (growth != 0 && !(last && growth == 1)) {
            return false;
        }
    }
    return true;
}

static bool contiguous(CpuEmitter *c, const Value *value, int axis);

static bool contiguous_op(CpuEmitter *c, const Op *op, int axis)
{
    switch (op->kind) {
    case OP_CONST:
    case OP_IOTA:
    case OP_INDEX: return true;
    case OP_GATHER: return gathers_contiguous(op, axis);
    case OP_LOAD: {
        /* A load is contiguous if the vector axis has stride 1 (or 0) in memory. */
        const Type memory = op->operands[0]->type;
        int walked = walked_axis(op, axis);
        return walked < 0 || type_stride_is(memory, walked, 1) || type_stride_is(memory, walked, 0);
    }
    default: break;
    }
    if (op_moves_axes(op)) {
        int inner = op_operand_axis(op, 0, axis);
        return inner < 0 || contiguous(c, op->operands[0], inner);
    }
    for (int i = 0; i < op->n_operands; i++) {
        if (!contiguous(c, op->operands[i], axis)) {
            return false;
        }
    }
    return true;
}

static bool contiguous(CpuEmitter *c, const Value *value, int axis)
{
    const Buffer *buffer = c->values[value->id].buffer;
    bool answer;
    if (value->type->rank == 0) {
        return true;
    }
    if (buffer) {
        return buffer->vector_axis == axis || buffer->extents[axis] == 1;
    }
    if (cpu_seen(c, value, axis, &answer)) {
        return answer;
    }
    return cpu_remember(c, value, axis, contiguous_op(c, value->def, axis));
}

bool cpu_contiguous(CpuEmitter *c, const Value *value, int axis)
{
    cpu_new_walk(c);
    return contiguous(c, value, axis);
}

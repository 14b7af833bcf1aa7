/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which arrays get a buffer, and how long each value is live.
 *
 * Ops are numbered in program order; an op with regions has a second number, after its last inner
 * op. The analysis goes backwards, so it knows all readers of a value before it reaches the op
 * that defines it. A value is computed inside the loop nest of its reader, unless there are
 * several readers, or the reader is executed more often than the definition (in a loop or under a
 * broadcast) and recomputing costs more than reading a buffer. */
#include "codegen/cpu/cpu_emit.h"

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
    case OP_MASK: return 0;
    case OP_SQRT:
    case OP_DIV:
    case OP_MOD:
    case OP_FAST_EXP2: return DEAR;
    case OP_PERMUTE: return DEAR;
    default: return 1;
    }
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

static bool wants_buffer(const CpuEmitter *c, const Op *op)
{
    const Value *value = op->results[0];
    if (!is_array(value) || in_elements(op)) {
        return false;
    }
    if (cpu_reads_written(c, op)) {
        return true; /* a later store may change what it reads */
    }
    const CpuValue *facts = &c->values[value->id];
    if (facts->yielded) {
        return true; /* all that is yielded is there before the first of it is written */
    }
    return facts->many && facts->cost > CHEAP;
}

/* Backward: all readers of op's results are known. */
static void visit(CpuEmitter *c, const Op *op, int position)
{
    Reader reader = {op, position};
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
        for (int j = 0; j < op->n_operands && op->kind != OP_LOAD; j++) {
            cost += c->values[op->operands[j]->id].cost;
        }
        c->values[op->results[0]->id].cost = cost < MAX_COST ? cost : MAX_COST;
    }

    c->written = ARENA_ARRAY(c->arena, bool, c->func->params.n);
    for (size_t i = 0; i < c->ops.n; i++) {
        const Op *op = c->ops.items[i];
        if (op->kind == OP_STORE || op->kind == OP_SCATTER) {
            c->written[plan_param_index(c->func, op->operands[0])] = true;
        }
    }
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

static bool contiguous(CpuEmitter *c, const Value *value, int axis);

static bool contiguous_op(CpuEmitter *c, const Op *op, int axis)
{
    switch (op->kind) {
    case OP_CONST:
    case OP_IOTA:
    case OP_INDEX: return true;
    case OP_LOAD: {
        /* A load is contiguous if the vector axis has stride 1 (or 0) in memory. */
        Access access = op_access(op, 0);
        int array_axis = op->results[0]->type->rank;
        for (int i = access.n - 1; i >= 0; i--) {
            const Value *index = access.indices[i];
            bool kept = !index || index->type->kind == TYPE_RANGE;
            if (kept && --array_axis == axis) {
                return type_stride_is(access.memory->type, i, 1) ||
                       type_stride_is(access.memory->type, i, 0);
            }
        }
        return true;
    }
    default: break;
    }
    if (op_moves_axes(op)) {
        int inner = op_operand_axis(op, 0, axis);
        return inner < 0 || contiguous(c, op->operands[0], inner);
    }
    int first = op->kind == OP_GATHER; /* its indices say so */
    for (int i = first; i < op->n_operands; i++) {
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

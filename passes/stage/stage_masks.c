/* SPDX-License-Identifier: Apache-2.0 */
/* Masks of TMA-loaded operands. A tile is masked in its stage of the ring buffer, or on its way to
 * the registers of a left operand. So full and masked tiles use the same ring buffer, and threads
 * load no operand elements themselves.
 *
 *   %a = load %x[%m, %k]                   wait %full[%p]
 *   %s = select %c, %a, 0           →      %a = shared_load %x[%p, :, :]
 *   dot %s, …                              %s = select %c, %a, 0
 *                                          dot_async %s, … */
#include "passes/stage/stage.h"

#include "passes/analysis/masked_operand.h"

enum { MAX_BETWEEN = 8 };

/* ---- which operands ---- */

/* The value that the op permutes, rounds or masks; NULL: it computes something else. */
static Value *passed_on(const Op *op)
{
    bool passes = op->kind == OP_PERMUTE || op->kind == OP_TF32 || op->kind == OP_MASK;
    return passes ? op->operands[0] : an_kept_by_places(op);
}

/* A tile that selects change is that product's alone. */
bool stage_follow_load(const StageContext *s, StagedOperand *item)
{
    const Value *value = item->dot->operands[item->side];
    bool alone = true;
    int masks = 0;
    for (int i = 0; value && value->def && value->def->kind != OP_LOAD; i++) {
        Op *op = value->def;
        alone = alone && i < MAX_BETWEEN && value_only_user(s->func, value) != NULL;
        item->transposed ^= op_permutes_axes(op);
        item->rounded = item->rounded || op->kind == OP_TF32;
        item->chosen = item->chosen || op->kind == OP_SELECT;
        bool masks_it = op->kind == OP_MASK || op->kind == OP_SELECT;
        item->mask = masks_it && !item->mask ? op : item->mask;
        masks += op->kind == OP_MASK;
        value = passed_on(op);
    }
    item->load = value ? value->def : NULL;
    return item->load && item->load->kind == OP_LOAD && item->load->results[0]->type->rank == 2 &&
           (item->chosen ? alone && value_only_user(s->func, value) != NULL : masks < 2);
}

/* ---- tails ---- */

/* The extent of the tensor along the axis that a range indexes; NULL: another index does. */
static Dim extent_along(const Op *load, const DimVar *range)
{
    Access access = op_access(load, 0);
    for (int axis = 0; axis < access.n; axis++) {
        const Value *index = access.indices[axis];
        if (index && index->type->kind == TYPE_RANGE &&
            poly_as_range(index->type->dims[0]) == range) {
            return access.memory->type->dims[axis];
        }
    }
    return NULL;
}

/* bool: is the tile not full, and what the copy engine brought in the place of what it has not
 * other than the mask's value? Past the tensor's end it brings zeros. */
static Value *is_torn(Builder *b, const StagedOperand *item, const DimVar *range)
{
    Value *full = build_i64(b, range->capacity);
    Value *ragged = build_cmp(b, "lt", build_range_fact(b, OP_LEN, range->binder), full);
    Dim extent = extent_along(item->load, range);
    if (!extent || op_attr(item->mask, ATTR_VALUE)->f != 0) {
        return ragged;
    }
    Value *whole = build_size(b, extent);
    Value *on = build_cmp(b, "lt", build_range_fact(b, OP_END, range->binder), whole);
    return build_binary(b, OP_AND, ragged, on);
}

/* What the copy engine brought from past the range's end is real data of the tensor: where a tile
 * is not full, its rows there are overwritten with the mask's value. */
static void mask_tail(StageContext *s, Builder *b, const StagedOperand *item)
{
    int axis = (int)op_int(item->mask, ATTR_AXIS, 0);
    Value *loaded = item->load->results[0], *position = s->streams[item->stream].position;
    const DimVar *range = poly_as_range(loaded->type->dims[axis]);
    Value *torn = is_torn(b, item, range);
    Op *branch = build_op(b, OP_IF, 1, &torn, 0, NULL, 2);
    Builder in = build_at_end(s->func, branch->regions[0]),
            no = build_at_end(s->func, branch->regions[1]);
    Value *place[] = {item->shared, position, NULL, NULL, NULL};
    place[4] = build_op(&in, OP_SHARED_LOAD, 4, place, 1, &loaded->type, 0)->results[0];
    const Attr *value = op_attr(item->mask, ATTR_VALUE);
    place[4] = build_mask(&in, place[4], axis, value->f);
    build_bare(&in, OP_BARRIER);
    build_op(&in, OP_SHARED_STORE, 5, place, 0, NULL, 0);
    build_bare(&in, OP_FENCE_ASYNC);
    build_bare(&in, OP_BARRIER);
    build_yield(&in, 0, NULL);
    build_yield(&no, 0, NULL);
}

/* ---- selects ---- */

/* `last`, computed of what lies in the slot in the place of the load. */
static Value *computed(StageContext *s, Builder *b, const StagedOperand *item, Value *last)
{
    Op *between[MAX_BETWEEN + 1];
    int n = 0;
    for (Op *op = last->def; op != item->load; op = passed_on(op)->def) {
        between[n++] = op;
    }
    Value *position = s->streams[item->stream].position, *loaded = item->load->results[0];
    Value *place[] = {item->shared, stage_place(s, b, item, position), NULL, NULL};
    CloneMap map = clone_map_new(s->func);
    clone_map_value(&map, loaded,
                    build_op(b, OP_SHARED_LOAD, 4, place, 1, &loaded->type, 0)->results[0]);
    while (n-- > 0) {
        if (between[n]->kind != OP_TF32) { /* the copy has rounded it */
            clone_op(b, &map, between[n]);
        } else {
            clone_map_value(&map, between[n]->results[0], clone_get(&map, between[n]->operands[0]));
        }
    }
    return clone_get(&map, last);
}

Value *stage_masked_value(StageContext *s, Builder *b, const StagedOperand *item)
{
    return computed(s, b, item, item->dot->operands[item->side]);
}

/* Written back as it lies, for a unit that reads shared memory. */
static void mask_slot(StageContext *s, Builder *b, const StagedOperand *item)
{
    bool turned = false;
    for (const Op *op = item->mask; op != item->load; op = passed_on(op)->def) {
        turned ^= op_permutes_axes(op);
    }
    Value *position = s->streams[item->stream].position;
    Value *masked = computed(s, b, item, item->mask->results[0]);
    masked = turned ? build_permute(b, masked, (int64_t[]){1, 0}) : masked;
    Value *place[] = {item->shared, stage_place(s, b, item, position), NULL, NULL, masked};
    build_bare(b, OP_BARRIER);
    build_op(b, OP_SHARED_STORE, 5, place, 0, NULL, 0);
    build_bare(b, OP_FENCE_ASYNC);
    build_bare(b, OP_BARRIER);
}

void stage_mask(StageContext *s, Builder *b, const StagedOperand *item)
{
    (item->chosen ? mask_slot : mask_tail)(s, b, item);
}

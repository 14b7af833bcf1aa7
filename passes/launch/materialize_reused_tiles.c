/* SPDX-License-Identifier: Apache-2.0 */
/* materialize_reused_tiles: stores dot tiles that a later launch would recompute, and loads them
 * there.
 *
 *   launch %j in L:                          launch %j in L:
 *     for %t in S:                             for %t in S:
 *       %d = f(dot %k[%j], %q[%t], …)            %d = f(dot %k[%j], %q[%t], …)
 *       %x = %x + dot %d, %q[%t]                 %x = %x + dot %d, %q[%t]
 *                                                store %kept[%j, %t], %d
 *   launch %i in S:                   →      launch %i in S:
 *     for %c in L:                             for %c in L:
 *       %e = f(dot %q[%i], %k[%c], …)            %e = load(%kept[%c, %i]).T
 *       %y = %y + dot %e, %k[%c]                 %y = %y + dot %e, %k[%c]
 *
 * The pattern is two reductions of one element-wise function of dots, along either axis, as in the
 * gradients of attention. In one launch, one of the two reductions would have to be combined across
 * blocks; in two launches, each computes the dots. Stored, the tiles are written while the dots of
 * the first launch run, which leaves the memory idle, and the second launch becomes a plain dot.
 * The intermediate has all elements, so the pass requires known sizes and a limit on its bytes.
 *
 * A loop may skip a part of its axis (under a causal mask) if the skipped part is zero for the
 * other launch: then the second launch masks what it loads, unless its iterations skip the same
 * part. Requires: tile (the tile sizes are known). Changes the association order in which the
 * transposed dot is summed. */
#include "ir/build.h"
#include "ir/memo.h"
#include "ir/schedule.h"
#include "ir/target/machine.h"
#include "ir/target/target.h"
#include "passes/analysis/tile_equivalence.h"
#include "passes/pass.h"
#include "support/int_math.h"

/* What is measured is so on the H200 (docs/lab/attention.md). */
enum {
    ROW_BYTES = 128, /* of which rows of what is kept are a multiple: a line of the cache */
    MAX_MASKS = 8,   /* factors of a tile that are looked through for a mask */
    MAX_KEPT = 4,    /* tiles of a kernel */
    REACHED = 60,    /* % of the matrix units' rate that products with element-wise work reach */
    READ = 60,       /* % of memory's, by a product of what is kept */
    WRITTEN = 20,    /* % of that time that writing adds to products that it runs under */
    MIN_GAIN = 105,  /* % of the time that it takes */
};

/* Memory that is taken for it at most: a tenth of the smallest part with `bulk_copy`. */
static const int64_t MAX_BYTES = 8LL << 30;

typedef struct Kept {
    Func *func;
    Op *writer, *reader; /* launches */
    Op *made_in, *read_in;
    Value *made, *read;
    bool turned;
    LoopVarMap vars; /* the reader's for the writer's */
    double saved;    /* operations of an element */
} Kept;

/* ---- what it saves ---- */

/* Of an element of the tile that a grid's and a loop's ranges make: axes of neither count. */
static double operations(const Op *dot)
{
    Type a = dot->operands[0]->type, b = dot->operands[1]->type;
    Dim dims[] = {a->dims[a->rank - 2], a->dims[a->rank - 1], b->dims[b->rank - 1]};
    int64_t n = 2;
    for (int i = 0; i < 3; i++) {
        n = poly_as_range(dims[i]) ? n : mul_sat(n, poly_most(dims[i]));
    }
    return (double)n;
}

static double all_operations(const Op *loop)
{
    double n = 0;
    for (const Op *op = loop->regions[0]->first; op; op = op->next) {
        n += op->kind == OP_DOT ? operations(op) : 0;
    }
    return n;
}

/* Does the op end in `kept` alone? `seen`: ops that do. */
static bool ends_in(const Op *op, const Value *kept, Memo *seen)
{
    const Block *block = kept->def->parent;
    if (op == kept->def) {
        return true;
    }
    bool only = op->n_results == 1 && op->n_regions == 0 && op_has(op, TRAIT_PURE);
    const ValueUse *use = only ? use_first(op->results[0], block) : NULL;
    if (!use || !memo_visit(seen, op->results[0])) {
        return use != NULL; /* one that does not would have ended the search */
    }
    for (; use && only; use = use_next(use, block)) {
        const Op *user = use->op;
        while (user->parent != block) {
            user = user->parent->parent;
        }
        only = ends_in(user, kept, seen);
    }
    return only;
}

static bool ends_in_it(const Op *op, const Value *kept)
{
    Memo *seen = memo_about(kept);
    bool ends = ends_in(op, kept, seen);
    memo_close(seen);
    return ends;
}

/* Operations of products that only the tile needs. */
static double saved_by(const Value *kept)
{
    double n = 0;
    for (const Op *op = kept->def->parent->first; op != kept->def; op = op->next) {
        n += op->kind == OP_DOT && ends_in_it(op, kept) ? operations(op) : 0;
    }
    return n;
}

/* ---- is it there ---- */

static const Value *index_of(const Value *value)
{
    const Op *op = value_unstretched(value)->def;
    return op && op->kind == OP_INDEX ? op->operands[0] : NULL;
}

/* Does the mask say that `less` is less than `more`, or the same? */
static bool look_for(Memo *seen, const Value *mask, const Value *less, const Value *more)
{
    const Op *op = mask->def;
    if (op && op->kind == OP_AND) {
        return memo_visit(seen, mask) && (look_for(seen, op->operands[0], less, more) ||
                                          look_for(seen, op->operands[1], less, more));
    }
    if (!op || op->kind != OP_CMP) {
        return false;
    }
    const char *pred = op_word(op, ATTR_PRED);
    bool up = text_equal(pred, "le") || text_equal(pred, "lt");
    bool down = text_equal(pred, "ge") || text_equal(pred, "gt");
    return (up && index_of(op->operands[0]) == less && index_of(op->operands[1]) == more) ||
           (down && index_of(op->operands[0]) == more && index_of(op->operands[1]) == less);
}

static bool says(const Value *mask, const Value *less, const Value *more)
{
    Memo *seen = memo_about(mask);
    bool found = look_for(seen, mask, less, more);
    memo_close(seen);
    return found;
}

/* Masks outside of which the tile is zero. */
static int find_masks(Memo *seen, Value *value, Value **masks, int n)
{
    Op *op = value->def;
    if (!op || n == MAX_MASKS || !memo_visit(seen, value)) {
        return n;
    }
    switch (op->kind) {
    case OP_CAST:
    case OP_NEG: return find_masks(seen, op->operands[0], masks, n);
    case OP_MUL:
        n = find_masks(seen, op->operands[0], masks, n);
        return find_masks(seen, op->operands[1], masks, n);
    case OP_SELECT:
        if (value_is_const(op->operands[2], 0)) {
            masks[n++] = op->operands[0];
        }
        return n;
    default: return n;
    }
}

static int masks_of(Value *value, Value **masks)
{
    Memo *seen = memo_about(value);
    int n = find_masks(seen, value, masks, 0);
    memo_close(seen);
    return n;
}

typedef enum Bound { BOUND_NONE, BOUND_WHOLE, BOUND_MASKED } Bound;

static bool is_last(const Value *hi, Dim dim)
{
    const Op *op = hi->def;
    return op && op->kind == OP_SIZE && op_attr(op, ATTR_DIM)->dims[0] == dim;
}

/* Is all of the loop's axis walked, or what is not where the tile is zero? */
static Bound bound_of(const Op *loop, Value *tile)
{
    Value *masks[MAX_MASKS], *var = loop->regions[0]->args[0];
    int n = masks_of(tile, masks);
    const Op *lo = for_lo(loop)->def, *hi = for_hi(loop)->def;
    bool first = value_is_const(for_lo(loop), 0), last = is_last(for_hi(loop), an_walked(var));
    bool from = lo && lo->kind == OP_START, to = hi && hi->kind == OP_END;
    bool low = first, high = last;
    for (int i = 0; i < n; i++) {
        low = low || (from && says(masks[i], lo->operands[0], var));
        high = high || (to && says(masks[i], var, hi->operands[0]));
    }
    if (!low || !high) {
        return BOUND_NONE;
    }
    return first && last ? BOUND_WHOLE : BOUND_MASKED;
}

/* ---- which tiles ---- */

static bool is_tile(const Value *value)
{
    return value->type->kind == TYPE_ARRAY && value->type->rank == 2 &&
           poly_as_range(value->type->dims[0]) && poly_as_range(value->type->dims[1]);
}

static Value *range_of(const Kept *k, Dim dim)
{
    for (int i = 0; i < k->vars.n; i++) {
        Value *var = k->vars.items[i].a;
        if (var->type->kind == TYPE_RANGE && var->type->dims[0] == dim) {
            return var;
        }
    }
    return NULL;
}

/* Its two axes, and all that is indexed by, stand for the other's; no other range does. */
static bool is_whole(const Kept *k)
{
    Value *row = range_of(k, k->read->type->dims[0]);
    Value *column = range_of(k, k->read->type->dims[1]);
    Dim rows = k->made->type->dims[k->turned], columns = k->made->type->dims[!k->turned];
    int ranges = 0;
    for (int i = 0; i < k->vars.n; i++) {
        ranges += k->vars.items[i].a->type->kind == TYPE_RANGE;
    }
    return row && column && row != column && ranges == 2 && k->vars.n <= TENSOR_RANK &&
           an_paired(&k->vars, row)->type->dims[0] == rows &&
           an_paired(&k->vars, column)->type->dims[0] == columns &&
           bound_of(k->made_in, k->made) != BOUND_NONE;
}

static bool find_made(Kept *k)
{
    for (Op *loop = k->writer->regions[0]->first; loop; loop = loop->next) {
        if (loop->kind != OP_FOR) {
            continue;
        }
        for (Op *op = loop->regions[0]->first; op; op = op->next) {
            for (int turned = 0; op->n_results == 1 && is_tile(op->results[0]) && turned < 2;
                 turned++) {
                k->vars = (LoopVarMap){.func = k->func, .from = k->writer, .to = k->reader};
                k->made_in = loop;
                k->made = op->results[0];
                k->turned = turned == 1;
                if (an_tiles_equivalent(&k->vars, k->read, k->made, k->turned) && is_whole(k)) {
                    return true;
                }
            }
        }
    }
    return false;
}

/* What products of the loop read that comes from other products, and saves most. */
static void find_read(Kept *k, Kept *best)
{
    for (Op *dot = k->read_in->regions[0]->first; dot; dot = dot->next) {
        for (int side = 0; dot->kind == OP_DOT && side < 2; side++) {
            Value *value = dot->operands[side];
            while (value->def && value->def->kind == OP_PERMUTE) {
                value = value->def->operands[0];
            }
            bool inside = value->def && value->def->parent == dot->parent && is_tile(value);
            k->read = value;
            k->saved = inside ? saved_by(value) : 0;
            if (k->saved > best->saved && find_made(k)) {
                *best = *k;
            }
        }
    }
}

static bool find(Func *func, Kept *best)
{
    *best = (Kept){.func = func};
    for (Op *reader = func->body->first; reader; reader = reader->next) {
        for (Op *writer = func->body->first; writer != reader; writer = writer->next) {
            Kept k = {.func = func, .writer = writer, .reader = reader};
            bool both = writer->kind == OP_LAUNCH && reader->kind == OP_LAUNCH;
            for (Op *op = both ? reader->regions[0]->first : NULL; op; op = op->next) {
                k.read_in = op;
                if (op->kind == OP_FOR) {
                    find_read(&k, best);
                }
            }
        }
    }
    return best->saved > 0;
}

/* ---- whether ---- */

/* Cycles of the whole device for an element. */
static double multiplied(const Func *func, const Machine *rates, double operations)
{
    return operations * 100 / ((double)rates->product16 * func->target->machine->num_sms * REACHED);
}

static bool is_faster(const Kept *k, const Machine *rates)
{
    double writer = multiplied(k->func, rates, all_operations(k->made_in));
    double reader = multiplied(k->func, rates, all_operations(k->read_in));
    double left = reader - multiplied(k->func, rates, k->saved);
    double read =
        (double)dtype_bytes(k->read->type->dtype) * 100 / ((double)rates->memory_bytes * READ);
    double materialized = writer + read * WRITTEN / 100 + (left > read ? left : read);
    return (writer + reader) * 100 > materialized * MIN_GAIN;
}

static Dim extent(const Value *var)
{
    return an_walked(var);
}

static const char *reason(bool faster, int64_t bytes, bool fits)
{
    if (!faster) {
        return "to make its products again takes no longer than to read what they come to";
    }
    if (bytes == INT64_MAX) {
        return "how much memory it would take is not known";
    }
    return fits ? "written under the products of one launch, it saves another one's"
                : "it would take too much memory";
}

/* `taken`: by tiles that are kept already. */
static bool is_kept(const Kept *k, int64_t *taken)
{
    const Machine *rates = k->func->target->machine;
    /* The tile's bytes; INT64_MAX if an extent is not known. */
    int64_t bytes = dtype_bytes(k->read->type->dtype);
    for (int i = 0; i < k->vars.n; i++) {
        bytes = mul_sat(bytes, poly_most(extent(k->vars.items[i].a)));
    }
    bool fits = bytes <= MAX_BYTES - *taken, faster = rates->product16 > 0 && is_faster(k, rates);
    bool given = schedule_user_entry(k->func, "materialize", "") != NULL, wanted = faster && fits;
    bool on = *taken && !given ? wanted
                               : schedule_decide_on(k->func, "materialize", wanted, "%s",
                                                    reason(faster, bytes, fits));
    *taken += fits ? bytes : 0;
    return on;
}

/* ---- how ---- */

/* The reader's: scalars first, then rows and columns as the writer has them. */
static int axes_of(const Kept *k, Value **axes)
{
    int n = 0;
    for (int i = 0; i < k->vars.n; i++) {
        if (k->vars.items[i].a->type->kind != TYPE_RANGE) {
            axes[n++] = k->vars.items[i].a;
        }
    }
    axes[n++] = range_of(k, k->read->type->dims[k->turned]);
    axes[n++] = range_of(k, k->read->type->dims[!k->turned]);
    return n;
}

static const Value *started(const Value *bound)
{
    return bound->def && bound->def->kind == OP_START ? bound->def->operands[0] : NULL;
}

static const Value *ended(const Value *bound)
{
    return bound->def && bound->def->kind == OP_END ? bound->def->operands[0] : NULL;
}

static bool divides(const Value *part, const Value *total)
{
    int64_t a = poly_capacity(part->type->dims[0]), b = poly_capacity(total->type->dims[0]);
    return a > 0 && b > 0 && b % a == 0;
}

/* From the beginning of the writer's tile on, to the end of the reader's (or the other way round):
 * tiles of the reader that lie in one of the writer's end before another one begins. */
static bool leave_out_the_same(const Kept *k)
{
    const Op *made = k->made_in, *read = k->read_in;
    const Value *start = started(for_lo(made)), *end = ended(for_hi(read));
    if (start && end) {
        return divides(end, start);
    }
    end = ended(for_hi(made));
    start = started(for_lo(read));
    return start && end && divides(start, end);
}

/* What another launch has left, in the reader's place of the tile. */
static Value *read_kept(Kept *k, Value *memory, Value *const *axes)
{
    static const int64_t TURN[] = {1, 0};
    Value *masks[MAX_MASKS];
    Builder b = build_before(k->func, k->read->def);
    b.span = k->read->def->span;
    Value *value = build_load(&b, memory, axes);
    value = k->turned ? build_permute(&b, value, TURN) : value;
    bool masked = bound_of(k->made_in, k->made) == BOUND_MASKED && !leave_out_the_same(k);
    int n = masked ? masks_of(k->read, masks) : 0;
    for (int i = 0; i < n; i++) {
        value = build_select(&b, masks[i], value, build_float(&b, value->type, 0));
    }
    value->name = k->read->name;
    return value;
}

void pass_materialize_reused_tiles(Func *func)
{
    Kept best;
    int64_t taken = 0;
    if (!func->target || func->target->family == FAMILY_CPU) {
        return;
    }
    for (int i = 0; i < MAX_KEPT && find(func, &best) && is_kept(&best, &taken); i++) {
        /* The tile is stored to scratch memory where it is computed first, and loaded where it was
         * computed again. */
        Value *axes[TENSOR_RANK], *theirs[TENSOR_RANK];
        Dim dims[TENSOR_RANK];
        int n = axes_of(&best, axes);
        for (int j = 0; j < n; j++) {
            dims[j] = extent(axes[j]);
            theirs[j] = an_paired(&best.vars, axes[j]);
        }
        DType dtype = best.read->type->dtype;
        Value *memory = func_pitched_scratch(best.func, type_array(best.func, dtype, n, dims),
                                             ROW_BYTES / dtype_bytes(dtype));
        Builder b = build_after(best.func, best.made->def);
        b.span = best.made->def->span;
        build_store(&b, memory, theirs, best.made);
        func_replace_uses(best.func, best.read, read_kept(&best, memory, axes));
        func_remove_dead(best.func);
    }
}

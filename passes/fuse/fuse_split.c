/* SPDX-License-Identifier: Apache-2.0 */
/* What one launch cannot hold, or should not: which value gets a launch of its own.
 *
 * Blocks of a launch know nothing of one another. What many blocks need and what takes long to
 * make (a reduction, a scan, a product) is made once, before; so is what a product reads, where
 * making it costs more than reading it back. A reduction along a stored axis (softmax) stays when a
 * block can walk the whole row and there are rows enough. */
#include "passes/fuse/fuse_split.h"

#include "ir/op_axes.h"
#include "support/int_math.h"

enum {
    MAX_AXES = 48,         /* of one group */
    MAX_DOTS = 16,         /* of one launch: stage has places for the operands of more, not many */
    MAX_SCANS = 16,        /* of one launch: MAX_SCANS of tile, which one loop carries */
    MAX_ELEMENTS = 64,     /* of a reduction that each block may as well do itself */
    MAX_OPERAND_OPS = 6,   /* element-wise ops on what a product reads */
    MAX_LOOKS = 256,       /* at ops, for whether they are so many */
    MAX_FOLDS = 4,         /* each of which reads what the one before it leaves */
    MAX_STEPS = 32,        /* ops between a fold and what is stored before it */
    SIZE_UNKNOWN = 1 << 20 /* elements, taken for an extent that is not known */
};

uint64_t split_class(Splitter *s, const Value *value, int axis)
{
    int class = axes_class(&s->axes, value, axis), i = 0;
    if (class < 0) {
        return 0;
    }
    while (i < s->n_classes && s->classes[i] != class) {
        i++;
    }
    if (i == 64) {
        return 0; /* is_crowded: what is known of this group does not count */
    }
    if (i == s->n_classes) {
        int64_t most = poly_most(value->type->dims[axis]);
        s->classes[s->n_classes] = class;
        s->most[s->n_classes++] = most == INT64_MAX ? SIZE_UNKNOWN : most;
    }
    return (uint64_t)1 << i;
}

static uint64_t classes_of(Splitter *s, const Value *value)
{
    uint64_t bits = 0;
    for (int i = 0; value->type->kind == TYPE_ARRAY && i < value->type->rank; i++) {
        bits |= split_class(s, value, i);
    }
    return bits;
}

int64_t split_elements(const Splitter *s, uint64_t bits)
{
    int64_t n = 1;
    for (int i = 0; i < s->n_classes; i++) {
        if (bits >> i & 1) {
            n = mul_sat(n, max_i64(1, s->most[i]));
        }
    }
    return n;
}

bool split_is_fold(const Op *op)
{
    return op->kind == OP_REDUCE || op->kind == OP_SCAN || op->kind == OP_FOLD;
}

bool split_is_scan(const Op *op)
{
    return op->kind == OP_SCAN || (op->kind == OP_FOLD && op_int(op, ATTR_SCAN, 0));
}

static bool is_work(const Op *op)
{
    return split_is_fold(op) || op->kind == OP_DOT || (op->n_regions && !fuse_has_effect(op));
}

/* ---- facts ---- */

/* Values that are made in the group are numbered behind all others. */
uint64_t split_seen(const Splitter *s, const Value *value)
{
    return value->id < s->first ? 0 : s->seen[value->id - s->first];
}

static int folds_of(const Splitter *s, const Value *value)
{
    return value->id < s->first ? 0 : s->folds[value->id - s->first];
}

static int folds_below(const Splitter *s, const Op *op)
{
    int most = 0;
    for (int i = 0; i < op->n_operands; i++) {
        int below = op->operands[i] ? folds_of(s, op->operands[i]) : 0;
        most = below > most ? below : most;
    }
    return most < UINT16_MAX - 1 ? most : UINT16_MAX - 1;
}

/* ---- folds in regions ---- */

static int nests_of(const Splitter *s, const Value *value)
{
    bool own = value && value->id >= s->first && value->def && value->def->parent == s->block;
    return own ? s->nests[value->id - s->first] : 0;
}

/* What the regions of an op do. */
typedef struct Inside {
    const Splitter *s;
    bool folds;
    const Value *deepest; /* that they read of the group; NULL: nothing that is made of such ops */
} Inside;

static void see_inside(Op *op, void *user)
{
    Inside *inside = user;
    inside->folds = inside->folds || split_is_fold(op) || op->kind == OP_DOT;
    for (int i = 0; i < op->n_operands; i++) {
        bool more = nests_of(inside->s, op->operands[i]) > nests_of(inside->s, inside->deepest);
        inside->deepest = more ? op->operands[i] : inside->deepest;
    }
}

static Inside look_inside(const Splitter *s, const Op *op)
{
    Inside inside = {.s = s};
    for (int r = 0; r < op->n_regions; r++) {
        block_walk(op->regions[r], see_inside, &inside);
    }
    return inside;
}

/* How many ops with folds in their regions the op's results are made of, one of the other. */
static int count_nests(const Splitter *s, const Op *op)
{
    Inside inside = look_inside(s, op);
    int most = nests_of(s, inside.deepest);
    for (int i = 0; i < op->n_operands; i++) {
        int below = nests_of(s, op->operands[i]);
        most = below > most ? below : most;
    }
    return most + inside.folds < UINT16_MAX ? most + inside.folds : UINT16_MAX;
}

static void gather_facts(Op *op, void *user)
{
    Splitter *s = user;
    const Value *written = axes_written(op);
    for (int i = 0; i < op->n_results; i++) {
        uint64_t bits = classes_of(s, op->results[i]);
        for (int k = 0; k < op->n_operands; k++) {
            bits |= op->operands[k] ? split_seen(s, op->operands[k]) : 0;
        }
        s->seen[op->results[i]->id - s->first] = bits;
        s->folds[op->results[i]->id - s->first] =
            (uint16_t)(folds_below(s, op) + split_is_fold(op));
    }
    int nests = op->n_results && op->parent == s->block ? count_nests(s, op) : 0;
    for (int i = 0; i < op->n_results; i++) {
        s->nests[op->results[i]->id - s->first] = (uint16_t)nests;
    }
    if (written) {
        s->stored |= classes_of(s, written);
    }
    if (split_is_fold(op)) {
        s->folded |= split_class(s, op->operands[0], (int)op_int(op, ATTR_AXIS, 0));
    }
    if (op->kind == OP_DOT && !s->dot) {
        s->dot = op;
    }
    s->n_dots += op->kind == OP_DOT;
    s->n_scans += split_is_scan(op);
}

/* ---- searching a tree ---- */

typedef bool Matches(const Op *op);

/* What many read is looked at once. `wanted`: that op alone. */
static const Op *search_below(const Splitter *s, const Value *value, Matches *matches,
                              const Op *wanted)
{
    const Op *op = value ? value->def : NULL;
    if (!op || op->parent != s->block || !memo_visit(s->met, value)) {
        return NULL;
    }
    if (wanted ? op == wanted : matches(op)) {
        return op;
    }
    for (int i = 0; i < op->n_operands; i++) {
        const Op *found = search_below(s, op->operands[i], matches, wanted);
        if (found) {
            return found;
        }
    }
    return NULL;
}

/* An op below `value` in the group for which it holds. */
static const Op *find_below(const Splitter *s, const Value *value, Matches *matches)
{
    memo_clear(s->met);
    return search_below(s, value, matches, NULL);
}

bool split_is_made_of(const Splitter *s, const Op *op, const Op *wanted)
{
    bool found = false;
    memo_clear(s->met);
    for (int i = 0; i < op->n_operands && !found; i++) {
        found = search_below(s, op->operands[i], NULL, wanted) != NULL;
    }
    return found;
}

static bool is_dot(const Op *op)
{
    return op->kind == OP_DOT;
}

/* `looks`: that are left, in a tree where only some of the ops count. */
static int weigh(const Splitter *s, const Value *value, int *looks)
{
    const Op *op = value->def;
    if (!op || op->parent != s->block || op->kind == OP_GATHER) {
        return 0;
    }
    if (--*looks < 0) {
        return MAX_OPERAND_OPS + 1;
    }
    bool counts = op->n_results && dtype_is_float(op->results[0]->type->dtype);
    int sum = op_has(op, TRAIT_ELEMENTWISE) && op->kind != OP_CAST && counts;
    for (int i = 0; i < op->n_operands && sum <= MAX_OPERAND_OPS; i++) {
        sum += op->operands[i] ? weigh(s, op->operands[i], looks) : 0;
    }
    return sum;
}

/* What is read of an op: a fold may have results that nothing does. */
const Value *split_used_result(const Splitter *s, const Op *op)
{
    for (int i = 0; i < op->n_results; i++) {
        if (value_has_uses(s->func, op->results[i])) {
            return op->results[i];
        }
    }
    return NULL;
}

/* ---- rules: each names the copy of a value to make before, or NULL ---- */

/* Sums of products, one a batch, go on in one accumulator. */
static bool sums_products(const Op *op)
{
    while (op && op->kind == OP_REDUCE && text_equal(op_word(op, ATTR_FN), "sum")) {
        const Op *from = op->operands[0]->def;
        bool batch = op_int(op, ATTR_AXIS, 0) < op->operands[0]->type->rank - 2;
        op = batch ? from : NULL;
    }
    return op && op->kind == OP_DOT;
}

/* Is all that the program makes of the product made of this value, too? */
static bool stands_for(const Splitter *s, const Value *value, const Op *dot)
{
    const Value *own = fuse_original(s->group, value);
    const Value *product = fuse_original(s->group, dot->results[0]);
    if (!s->body || !own || !product) {
        return true;
    }
    Splitter all = *s;
    bool found = false;
    all.block = s->body;
    memo_clear(s->met);
    memo_visit(s->met, own);
    for (const Op *op = s->body->first; op && !found; op = op->next) {
        for (int i = 0; fuse_has_effect(op) && i < op->n_operands && !found; i++) {
            found = search_below(&all, op->operands[i], NULL, product->def) != NULL;
        }
    }
    return !found;
}

/* The product with the sums of its batches and the moves of axes that only it goes through: what
 * the program means by it. */
static const Value *product_root(const Splitter *s, const Op *dot)
{
    const Value *root = dot->results[0];
    for (;;) {
        const ValueUse *use = use_first(root, s->block);
        const Op *user = use && !use_next(use, s->block) ? use->op : NULL;
        bool moves = user && (user->kind == OP_EXPAND || user->kind == OP_SQUEEZE ||
                              user->kind == OP_PERMUTE);
        if (!user || user->parent != s->block || !(moves || sums_products(user))) {
            return root;
        }
        root = user->results[0];
    }
}

/* A product and what folds its result do not share a grid. What goes through memory is the last
 * value that all which is made of the product is made of: if |y| did, because a row's greatest is
 * that of |y|, y itself would be multiplied once more. */
static const Value *folded_product(const Splitter *s, const Op *op)
{
    for (int i = 0; split_is_fold(op) && !sums_products(op) && i < op->n_operands; i++) {
        const Op *dot = find_below(s, op->operands[i], is_dot);
        const Value *value = op->operands[i];
        const Value *root = dot ? product_root(s, dot) : NULL;
        Type type = dot ? root->type : NULL;
        while (dot && value != root && value != dot->results[0] &&
               (value->type != type_with_dtype(s->func, type, value->type->dtype) ||
                !stands_for(s, value, dot))) {
            const Op *made = value->def;
            for (int k = 0; k < made->n_operands; k++) {
                memo_clear(s->met);
                if (search_below(s, made->operands[k], NULL, dot)) {
                    value = made->operands[k];
                    break;
                }
            }
        }
        if (dot) {
            return value;
        }
    }
    return NULL;
}

/* The class of the axis that the op reduces: many of its operands' elements become one along it. */
static uint64_t reduced_class(Splitter *s, const Op *op)
{
    const Value *from = op->operands[0];
    if (op->kind == OP_DOT) {
        return split_class(s, from, from->type->rank - 1);
    }
    return split_is_fold(op) ? split_class(s, from, (int)op_int(op, ATTR_AXIS, 0)) : 0;
}

/* The grid of a product has tiles of each axis that is stored: no block has all that lies along
 * such an axis, for a fold, or for the product itself, whose operand may be what is stored. */
static const Value *row_beside_product(Splitter *s, const Op *op)
{
    bool reduces = s->dot && (split_is_fold(op) || op->kind == OP_DOT);
    return reduces && (s->stored & reduced_class(s, op)) ? split_used_result(s, op) : NULL;
}

/* Is it made, element by element, of an intermediate in memory whose elements are wider? Its own
 * are to be there instead: fewer bytes, which the copy engine brings without registers. */
static bool narrows_intermediate(const Splitter *s, const Value *value, DType narrow, int *looks)
{
    const Op *op = value->def;
    if (!op || op->parent != s->block || --*looks < 0) {
        return false;
    }
    if (op->kind == OP_LOAD) {
        const Value *memory = op->operands[0];
        return memory->type->kind == TYPE_TENSOR &&
               dtype_bits(memory->type->dtype) > dtype_bits(narrow) &&
               s->func->params.items[memory->index].io == PARAM_SCRATCH;
    }
    bool found = false;
    for (int i = 0; op_has(op, TRAIT_ELEMENTWISE) && i < op->n_operands && !found; i++) {
        found = narrows_intermediate(s, op->operands[i], narrow, looks);
    }
    return found;
}

/* What a product reads is read once for each tile of the other operand. */
static const Value *costly_operand(const Splitter *s, const Op *op)
{
    for (int i = 0; op->kind == OP_DOT && i < 2; i++) {
        const Value *value = op->operands[i];
        while (value->def && value->def->parent == s->block && op_moves_axes(value->def)) {
            value = value->def->operands[0];
        }
        int looks = MAX_LOOKS, more = MAX_LOOKS;
        if (find_below(s, value, is_work) || weigh(s, value, &looks) > MAX_OPERAND_OPS ||
            narrows_intermediate(s, value, value->type->dtype, &more)) {
            return value;
        }
    }
    return NULL;
}

/* Products of one launch share rows and columns. */
static const Value *other_product(const Splitter *s, const Op *op)
{
    if (op->kind != OP_DOT || op == s->dot) {
        return NULL;
    }
    const Value *a = s->dot->results[0], *b = op->results[0];
    bool same = a->type->rank == b->type->rank;
    for (int i = 0; same && i < a->type->rank; i++) {
        same = axes_class(&s->axes, a, i) == axes_class(&s->axes, b, i);
    }
    return same ? NULL : b;
}

/* Made again by every tile of a stored axis that it does not walk. */
static const Value *repeated(const Splitter *s, const Op *op)
{
    const Value *result = is_work(op) ? split_used_result(s, op) : NULL;
    if (!result) {
        return NULL;
    }
    uint64_t own = split_seen(s, result);
    uint64_t kept = 0;
    for (int i = 0; i < op->n_operands; i++) {
        kept |= op->operands[i] ? split_seen(s, op->operands[i]) : 0;
    }
    bool little = split_elements(s, kept & ~s->stored) <= MAX_ELEMENTS && op->kind != OP_DOT;
    return (s->stored & ~own) && !little ? result : NULL;
}

/* Scatters whose old elements are used are in no loop of a row. */
static const Value *before_scatter(const Splitter *s, const Op *op)
{
    uint64_t rows = s->stored & s->folded;
    bool own = split_is_fold(op) && (split_seen(s, op->operands[0]) & rows);
    return s->takes_old && own ? split_used_result(s, op) : NULL;
}

static bool is_forward_scan(const Op *op)
{
    return split_is_scan(op) && !op_int(op, ATTR_REVERSE, 0);
}

static bool is_backward_scan(const Op *op)
{
    return split_is_scan(op) && op_int(op, ATTR_REVERSE, 0);
}

/* A loop along a row goes one way: scans of the other direction are there before. */
static const Value *goes_both_ways(const Splitter *s, const Op *op)
{
    const Value *value = op->kind == OP_STORE ? op->operands[op->n_operands - 1] : NULL;
    const Op *forward = find_below(s, value, is_forward_scan);
    const Op *backward = find_below(s, value, is_backward_scan);
    if (!forward || !backward) {
        return NULL;
    }
    return split_used_result(s, backward == value->def ? forward : backward);
}

/* A loop along a scanned axis carries what came before: an array over the other axes, which none of
 * them may walk inside of it. */
static const Value *scanned_across(const Splitter *s, const Op *op)
{
    const Op *scan = split_is_fold(op) ? find_below(s, op->operands[0], split_is_scan) : NULL;
    for (int i = 1; !scan && split_is_fold(op) && op->kind == OP_FOLD && i < op->n_results; i++) {
        scan = find_below(s, op->operands[i], split_is_scan);
    }
    if (!scan) {
        return NULL;
    }
    int own = axes_class(&s->axes, op->operands[0], (int)op_int(op, ATTR_AXIS, 0));
    int other = axes_class(&s->axes, scan->operands[0], (int)op_int(scan, ATTR_AXIS, 0));
    return own == other || other < 0 ? NULL : split_used_result(s, scan);
}

static bool reads_intermediate(const Splitter *s, const Op *op)
{
    return op->kind == OP_LOAD && op->operands[0]->type->kind == TYPE_TENSOR &&
           s->func->params.items[op->operands[0]->index].io == PARAM_SCRATCH;
}

static int count_below(const Splitter *s, const Value *value)
{
    const Op *op = value ? value->def : NULL;
    if (!op || op->parent != s->block || !memo_visit(s->met, value)) {
        return 0;
    }
    int n = reads_intermediate(s, op);
    for (int i = 0; i < op->n_operands; i++) {
        n += count_below(s, op->operands[i]);
    }
    return n;
}

/* Reads of intermediates that the value is made of. */
static int reads_below(const Splitter *s, const Value *value)
{
    memo_clear(s->met);
    return count_below(s, value);
}

static void mark_below(const Block *block, Memo *below, const Value *value)
{
    const Op *op = value ? value->def : NULL;
    if (op && op->parent == block && memo_visit(below, value)) {
        for (int i = 0; i < op->n_operands; i++) {
            mark_below(block, below, op->operands[i]);
        }
    }
}

/* Is a fold below `value` that is among those marked, where nothing was met yet? */
static bool reaches_fold(const Splitter *s, const Memo *below, const Value *value)
{
    int64_t marked;
    const Op *op = value ? value->def : NULL;
    if (!op || op->parent != s->body || !memo_visit(s->met, value)) {
        return false;
    }
    if (split_is_fold(op) && memo_known(below, value, 0, &marked)) {
        return true;
    }
    for (int i = 0; i < op->n_operands; i++) {
        if (reaches_fold(s, below, op->operands[i])) {
            return true;
        }
    }
    return false;
}

/* Does all that the program makes of the folds below the value go through it? */
static bool is_bottleneck(const Splitter *s, const Value *value)
{
    const Value *own = fuse_original(s->group, value);
    if (!s->body || !own) {
        return false;
    }
    bool passed = false;
    Memo *below = memo_open(s->func);
    mark_below(s->body, below, own);
    memo_clear(s->met);
    memo_visit(s->met, own);
    for (const Op *op = s->body->first; op && !passed; op = op->next) {
        for (int i = 0; fuse_has_effect(op) && i < op->n_operands && !passed; i++) {
            passed = reaches_fold(s, below, op->operands[i]);
        }
    }
    memo_close(below);
    return !passed;
}

/* The operand of the same extents that most folds are below, but for what has one element a row;
 * NULL: none. */
static const Value *deepest_operand(const Splitter *s, const Op *op)
{
    const Value *deepest = NULL;
    for (int i = 0; op && op_has(op, TRAIT_ELEMENTWISE) && i < op->n_operands; i++) {
        const Value *value = op->operands[i];
        Type type = value->type;
        bool same = type == type_with_dtype(s->func, op->results[0]->type, type->dtype) &&
                    value->def && value->def->kind != OP_BROADCAST && folds_of(s, value) > 0;
        bool more = same && (!deepest || folds_of(s, value) > folds_of(s, deepest));
        deepest = more ? value : deepest;
    }
    return deepest;
}

/* What to store where a fold of `value` ends a chain: the last value that all which is made of the
 * chain goes through. If the square went through memory, because a norm sums squares, all that
 * comes behind would make the chain again. */
static const Value *chain_end(const Splitter *s, const Value *value)
{
    const Value *end = value;
    for (int steps = 0; end && steps < MAX_STEPS; steps++) {
        if (is_bottleneck(s, end)) {
            return end;
        }
        end = deepest_operand(s, end->def);
    }
    return value;
}

/* Folds of which each reads what the one before it leaves: every one makes again what lies between
 * them, in a loop of the same launch or in one of its own. The work would grow with the square of
 * the chain's length. */
static const Value *long_chain(const Splitter *s, const Op *op)
{
    for (int i = 0; split_is_fold(op) && i < op->n_operands; i++) {
        const Value *value = op->operands[i];
        if (folds_of(s, value) >= MAX_FOLDS || reads_below(s, value) > MAX_FOLDS) {
            return s->body ? chain_end(s, value) : value;
        }
    }
    return NULL;
}

/* The loop of a fold in a region has in it all that the folded value is made of. Where that is a
 * region with a fold, too, nothing of it is shared with what is outside of the loop: each of them
 * would double the code and the work. */
static const Value *fold_within_fold(const Splitter *s, const Op *op)
{
    Inside inside = {0};
    if (op->n_regions && op->parent == s->block && !fuse_has_effect(op)) {
        inside = look_inside(s, op);
    }
    return inside.folds ? inside.deepest : NULL;
}

/* Nor may the loop over another row, if that is inside: the scan is there before; where it is made
 * of that row's fold, that is. */
static const Value *scanned_beside_row(Splitter *s, const Op *op)
{
    if (!split_is_scan(op)) {
        return NULL;
    }
    uint64_t own = split_class(s, op->operands[0], (int)op_int(op, ATTR_AXIS, 0));
    uint64_t rows = classes_of(s, op->operands[0]) & s->stored & s->folded & ~own;
    for (const Op *other = s->block->first; rows && other; other = other->next) {
        uint64_t row = split_is_fold(other)
                           ? split_class(s, other->operands[0], (int)op_int(other, ATTR_AXIS, 0))
                           : 0;
        if (row & rows) {
            return split_is_made_of(s, op, other) ? split_used_result(s, other)
                                                  : split_used_result(s, op);
        }
    }
    return NULL;
}

/* One that is behind as many others as a launch may have. */
static const Value *one_too_many(const Splitter *s, const Op *op)
{
    bool dot = op->kind == OP_DOT && s->n_dots > MAX_DOTS;
    bool scan = split_is_scan(op) && s->n_scans > MAX_SCANS;
    int before = 0;
    for (const Op *other = op->prev; (dot || scan) && other; other = other->prev) {
        before += dot ? other->kind == OP_DOT : split_is_scan(other);
    }
    return before >= (dot ? MAX_DOTS : MAX_SCANS) ? split_used_result(s, op) : NULL;
}

static const Value *broken_rule(Splitter *s, const Op *op)
{
    const Value *value = one_too_many(s, op);
    value = value ? value : folded_product(s, op);
    value = value ? value : row_beside_product(s, op);
    value = value ? value : costly_operand(s, op);
    value = value ? value : other_product(s, op);
    value = value ? value : repeated(s, op);
    value = value ? value : before_scatter(s, op);
    value = value ? value : goes_both_ways(s, op);
    value = value ? value : scanned_across(s, op);
    value = value ? value : long_chain(s, op);
    value = value ? value : fold_within_fold(s, op);
    value = value ? value : scanned_beside_row(s, op);
    return value ? value : split_under_occupied(s, op);
}

/* The stored value itself is already made by this launch alone. */
static bool is_root(const Splitter *s, const Value *value)
{
    for (const ValueUse *use = use_first(value, s->block); use; use = use_next(use, s->block)) {
        if (use->op->parent == s->block && use->op->kind == OP_STORE) {
            return true;
        }
    }
    return false;
}

bool fuse_goes_both_ways(Func *func, const FusionGroup *group)
{
    const Block *block = group->parallel->regions[0];
    Splitter s = {.func = func, .group = group, .block = block};
    bool both = false;
    s.met = memo_open(func);
    for (const Op *op = block->first; op && !both; op = op->next) {
        both = goes_both_ways(&s, op) != NULL;
    }
    memo_close(s.met);
    return both;
}

/* Without rows there is little to share: what is written in another order has a grid of its own. */
static bool same_order(const Splitter *s, const Value *a, const Value *b)
{
    int i = 0, k = 0;
    for (;;) { /* past axes of one element */
        while (i < a->type->rank && axes_class(&s->axes, a, i) < 0) {
            i++;
        }
        while (k < b->type->rank && axes_class(&s->axes, b, k) < 0) {
            k++;
        }
        if (i == a->type->rank || k == b->type->rank) {
            return i == a->type->rank && k == b->type->rank;
        }
        if (axes_class(&s->axes, a, i++) != axes_class(&s->axes, b, k++)) {
            return false;
        }
    }
}

/* Rows that a block surely walks alone: a long scan may be shared out. */
static uint64_t walked_rows(Splitter *s)
{
    uint64_t rows = s->stored & s->folded;
    for (int i = 0; i < s->n_classes; i++) {
        bool scanned = axes_flags(&s->axes, s->classes[i]) & AXIS_SCANNED;
        rows &= scanned ? ~((uint64_t)1 << i) : ~(uint64_t)0;
    }
    return rows;
}

static void note_walk(Splitter *s)
{
    RowColumnSweep walk = an_row_column_sweep(&s->axes, s->block);
    bool any = walk.class >= 0, beside = any && fuse_is_beside(s->func, &s->axes, s->block, &walk);
    for (int i = 0; beside && i < s->n_classes; i++) {
        s->walked |= s->classes[i] == walk.class ? (uint64_t)1 << i : 0;
    }
    s->apart = any && !beside;
}

/* The least number of a value that the group makes. */
static void note_number(Op *op, void *user)
{
    uint32_t *first = user;
    for (int i = 0; i < op->n_results; i++) {
        *first = op->results[i]->id < *first ? op->results[i]->id : *first;
    }
    for (int r = 0; r < op->n_regions; r++) {
        for (int i = 0; i < op->regions[r]->n_args; i++) {
            uint32_t id = op->regions[r]->args[i]->id;
            *first = id < *first ? id : *first;
        }
    }
}

static Splitter splitter(Func *func, const FusionGroup *group)
{
    Block *block = group->parallel->regions[0];
    Splitter s = {.func = func, .group = group, .block = block, .axes = an_axes(func, block)};
    s.first = func->n_values;
    block_walk(block, note_number, &s.first);
    s.seen = ARENA_ARRAY(func->arena, uint64_t, func->n_values - s.first);
    s.folds = ARENA_ARRAY(func->arena, uint16_t, func->n_values - s.first);
    s.nests = ARENA_ARRAY(func->arena, uint16_t, func->n_values - s.first);
    s.met = memo_open(func);
    block_walk(block, gather_facts, &s);
    for (const Op *op = block->first; op && !s.takes_old; op = op->next) {
        s.takes_old = op->n_results && fuse_has_effect(op);
    }
    note_walk(&s);
    return s;
}

static void splitter_done(Splitter *s)
{
    axes_done(&s->axes);
    memo_close(s->met);
}

bool fuse_shares_grid(Func *func, const FusionGroup *group)
{
    Splitter s = splitter(func, group);
    const Value *first = NULL;
    uint64_t rows = walked_rows(&s);
    bool shares = true;
    for (const Op *op = s.block->first; op && shares; op = op->next) {
        const Value *written = axes_written(op);
        first = first ? first : written;
        shares = !written || (!(s.stored & ~classes_of(&s, written) & ~rows) &&
                              ((s.stored & s.folded) || same_order(&s, first, written)));
    }
    splitter_done(&s);
    return shares;
}

/* A group has axes for so many loops at most: it is cut where about half of them are. */
static bool is_crowded(const Splitter *s)
{
    return s->n_classes > MAX_AXES;
}

bool fuse_is_sound(Func *func, const FusionGroup *group)
{
    Splitter s = splitter(func, group);
    bool sound = !is_crowded(&s) && !s.apart;
    for (const Op *op = s.block->first; op && sound; op = op->next) {
        sound = !broken_rule(&s, op);
    }
    splitter_done(&s);
    return sound;
}

static int count_bits(uint64_t bits)
{
    int n = 0;
    for (; bits; bits &= bits - 1) {
        n++;
    }
    return n;
}

static Value *cut(const Splitter *s, const Block *body)
{
    for (const Op *op = s->block->first; op; op = op->next) {
        const Value *value = op->n_results ? op->results[0] : NULL;
        Value *original = value ? fuse_original(s->group, value) : NULL;
        if (original && count_bits(split_seen(s, value)) > MAX_AXES / 2 && !is_root(s, value) &&
            fuse_may_materialize(s->func, body, original)) {
            return original;
        }
    }
    return NULL;
}

static Value *broken_apart(Splitter *s, const Block *body)
{
    for (const Op *op = s->block->first; op; op = op->next) {
        const Value *value = broken_rule(s, op);
        Value *original = value && !is_root(s, value) ? fuse_original(s->group, value) : NULL;
        if (original && fuse_may_materialize(s->func, body, original)) {
            return original;
        }
    }
    return NULL;
}

Value *fuse_split(Func *func, const Block *body, const FusionGroup *group)
{
    Splitter s = splitter(func, group);
    s.body = body;
    Value *found = is_crowded(&s) ? cut(&s, body) : broken_apart(&s, body);
    splitter_done(&s);
    return found;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* stage: moves dot operands through shared memory and inserts copies, ring buffers, mbarriers and
 * warp roles.
 *
 *   %c1 = for %k: K by 64, %c = %z           roles warps=[4, 8] { producer: for %k, %i: bulk_load }
 *     %a = load %x[%m, %k]             →     { consumer: for %k, %c, %i: wait %full[%i],
 *     %b = load %w[%k, %n]                       %d = dot_async %sa[%i, :, :], %sb[%i, :, :], %c
 *     yield dot %a, %b, %c                       %e = dot_wait %d, arrive %empty[%i], yield %e }
 *
 * If the target has bulk copies and can describe the tensor, a producer role copies ahead through
 * ring buffers; otherwise the threads fill ring buffers with async copies if possible; otherwise
 * each thread loads its elements, stores them to shared memory and waits at a barrier. Does nothing
 * on CPUs, which have no shared memory. Requires: bounds. Establishes: the staged level. Changes no
 * bits. */
#include "passes/stage/stage.h"

#include "ir/memo.h"
#include "ir/ir_errors.h"
#include "passes/analysis/bank_conflicts.h"
#include "passes/analysis/access_width.h"
#include "passes/pass.h"
#include "passes/tile/tile.h"

int64_t swizzle_for(int64_t row_bytes)
{
    for (int64_t bytes = 128; bytes >= 32; bytes /= 2) {
        if (row_bytes % bytes == 0) {
            return bytes;
        }
    }
    return 0;
}

/* ---- which operands are loads ---- */

enum {
    MIN_FMA_BYTES = 4,
    ROW_ALIGN = 128, /* bytes, of where the engine puts a row that is not swizzled */
};

/* The engine counts elements in 32 bits. What may be of any size is checked at each launch; where
 * a size is known to be of this order, copies are plain. */
static bool can_count(Type tensor)
{
    for (int i = 0; i < tensor->rank; i++) {
        int64_t most = poly_most(tensor->dims[i]);
        if (most > INT32_MAX && most != INT64_MAX) {
            return false;
        }
    }
    return true;
}

/* The engine takes a tile of more rows than a box may have as equal parts of them, whose rows are a
 * multiple of those in which the swizzle repeats. */
static bool takes_rows(const Target *target, int64_t rows, bool parts)
{
    if (!target->has_bulk_copy) {
        return false;
    }
    int64_t n = (rows + target->bulk_box - 1) / target->bulk_box;
    while (rows % n) {
        n++;
    }
    return rows / n % SWIZZLE_ROWS == 0 && (n == 1 || parts);
}

/* But for the number of axes. */
static bool describes_tile(const Target *target, const Access *access, bool parts)
{
    Type type = access->memory->type;
    int bits = dtype_bits(type->dtype), kept = 0;
    if (type->rank < 2 || !can_count(type)) {
        return false;
    }
    for (int i = 0; i < access->n; i++) {
        Value *index = access->indices[i];
        if (index && index->type->kind != TYPE_RANGE) {
            if (i == access->n - 1) {
                return false;
            }
            continue;
        }
        Dim dim = index ? index->type->dims[0] : type->dims[i];
        int64_t extent = poly_capacity(dim);
        kept++;
        if (i == access->n - 1 ? extent * bits % 8 != 0 || swizzle_for(extent * bits / 8) == 0
                               : !takes_rows(target, extent, parts)) {
            return false;
        }
    }
    return kept == 2 && an_tma_rows(access);
}

bool tma_can_describe(const Target *target, const Access *access)
{
    return access->memory->type->rank <= target->bulk_rank && describes_tile(target, access, false);
}

bool bulk_describes_parts(const Target *target, const Access *access)
{
    return access->memory->type->rank <= target->bulk_rank && describes_tile(target, access, true);
}

typedef struct Moves {
    const Value *tensor;
    bool reads, writes;
} Moves;

static void find_moves(Op *op, void *user)
{
    Moves *moves = user;
    bool own = op->n_operands && op->operands[0] == moves->tensor;
    bool writes = op->kind == OP_STORE || op->kind == OP_SCATTER;
    moves->writes = moves->writes || (own && writes);
    moves->reads = moves->reads || (own && !writes);
}

/* An alias of more axes than its memory has splits some of them: all but as many are numbers, and
 * none is collapsed with another. */
static bool splits_by_numbers(const Func *func, const Value *tensor)
{
    const Param *param = &func->params.items[tensor->index];
    if (!param->alias) {
        return true;
    }
    Type type = param_given(param);
    int others = 0, whole = param_given(&func->params.items[param->alias->index])->rank;
    int64_t number;
    for (int i = 1; i < type->rank; i++) {
        others += !poly_is_const(type->dims[i], &number);
    }
    return type->rank <= whole || (others < whole && !param->collapsed);
}

bool stage_may_bulk(const Func *func, const Op *launch, const Value *tensor)
{
    if (tensor->type->kind == TYPE_TENSOR && !func_im2col_of(func, tensor) &&
        !splits_by_numbers(func, tensor)) {
        return false;
    }
    Moves moves = {tensor, false, false};
    block_walk(launch->regions[0], find_moves, &moves);
    return !moves.reads || !moves.writes;
}

/* A number that this launch finds in memory, and does not write. */
static bool is_read(const StageContext *s, const Op *op)
{
    return (op->kind == OP_LOAD || op->kind == OP_GATHER) && op->n_results == 1 &&
           type_is_scalar(op->results[0]->type) &&
           stage_may_bulk(s->func, s->launch, op->operands[0]);
}

static bool scalar_is_plain(const StageContext *s, Memo *seen, const Value *value, int depth)
{
    const Op *op = value ? value->def : NULL;
    int64_t known;
    if (!value || depth > 32) {
        return depth <= 32;
    }
    if (memo_known(seen, value, depth, &known)) {
        return true; /* or the answer would have been found */
    }
    memo_keep(seen, value, depth, 1);
    if (!op) { /* iterators and parameters, but no carried values */
        const Op *binder = value->block ? value->block->parent : NULL;
        const Attr *dims = binder ? op_attr(binder, ATTR_DIMS) : NULL;
        return !binder || (dims && value->index < (uint32_t)dims->n);
    }
    if (!op_has(op, TRAIT_PURE) || op->n_regions || (op->kind == OP_LOAD && !is_read(s, op))) {
        return false;
    }
    for (int i = is_read(s, op); i < op->n_operands; i++) {
        if (!scalar_is_plain(s, seen, op->operands[i], depth + 1)) {
            return false;
        }
    }
    return true;
}

bool stage_is_plain(const StageContext *s, const Value *value)
{
    Memo *seen = memo_open(s->func);
    bool plain = scalar_is_plain(s, seen, value, 0);
    memo_close(seen);
    return plain;
}

/* Every loop from the launch to the load is one whose bounds the producer can compute by itself. */
static bool loops_are_plain(const StageContext *s, const Op *load)
{
    for (const Op *up = load->parent->parent; up && up != s->launch; up = up->parent->parent) {
        if (up->kind != OP_FOR || !stage_is_plain(s, for_lo(up)) ||
            !stage_is_plain(s, for_hi(up))) {
            return false;
        }
    }
    for (int i = 1; i < load->n_operands; i++) {
        if (!stage_is_plain(s, load->operands[i])) {
            return false;
        }
    }
    return true;
}

static void find_unit(Op *op, void *user)
{
    StageContext *s = user;
    s->group = s->group || (op->kind == OP_DOT && stage_is_wgmma(s, op));
}

/* Units of groups of warps read what the copy engine writes. Others do, too, but not together with
 * such a unit, which wants all shared memory. Their warps must be whole groups, between which
 * registers move. Narrow elements pass through registers for fused multiply-adds in any case, and
 * single warps' units read them well without: but not those that are widened on their way. */
static bool reads_rings(const StageContext *s, const Op *dot)
{
    const Attr *warps = op_attr(s->launch, ATTR_WARPS);
    DType left = dot->operands[0]->type->dtype, right = dot->operands[1]->type->dtype;
    bool wide = dtype_bytes(left) >= MIN_FMA_BYTES, single = dot_instruction(s->func, dot) != NULL;
    if (s->group) {
        return stage_is_wgmma(s, dot);
    }
    bool whole_groups = warps->ints[0] % s->func->target->group_warps == 0;
    return whole_groups && (wide || (single && left != right));
}

/* The engine walks pixels as one axis, at one tap, from any of them on. Past the end of a row that
 * is an axis of its own it continues with the next one: a product may have such rows, which nothing
 * stores, but not sum them. */
static bool is_rows_of_pixels(const Func *func, const Access *access, const Op *dot)
{
    const Param *view = &func->params.items[access->memory->index];
    int n = view_places(view);
    bool good = n > 0 && access->n == view->value->type->rank;
    for (int i = 0; good && i < access->n; i++) {
        const Value *index = access->indices[i];
        bool range = index && index->type->kind == TYPE_RANGE;
        if (i == n - 1) {
            good = range;
        } else if (i == access->n - 1) {
            good = range || !index;
        } else {
            good = index && !range;
        }
    }
    Type left = dot->operands[0]->type;
    return good && (n == 1 || left->dims[left->rank - 1] != access->indices[n - 1]->type->dims[0]);
}

static bool can_be_bulk(const StageContext *s, const Op *load, const Op *dot)
{
    Access access = op_access(load, 0);
    bool view = func_im2col_of(s->func, access.memory) != NULL;
    if (!s->func->target->has_bulk_copy) {
        return false;
    }
    if (view ? !is_rows_of_pixels(s->func, &access, dot) ||
                   !describes_tile(s->func->target, &access, false)
             : !tma_can_describe(s->func->target, &access)) {
        return false;
    }
    return reads_rings(s, dot) && loops_are_plain(s, load) &&
           stage_may_bulk(s->func, s->launch, access.memory);
}

static void find_operand(StageContext *s, Op *dot, int side)
{
    StagedOperand item = {.dot = dot, .side = side};
    if (!stage_follow_load(s, &item)) {
        return;
    }
    Type type = item.load->results[0]->type;
    bool direct = !item.mask || item.chosen || item.mask->operands[0] == item.load->results[0];
    item.bulk = direct && can_be_bulk(s, item.load, dot);
    item.rows = poly_capacity(type->dims[0]);
    item.cols = poly_capacity(type->dims[1]);
    if (item.bulk || !item.chosen) { /* others mask in registers, as they compute it */
        s->items[s->n++] = item;
    }
}

/* A row in addition to a product's operands that is read in each step, as a scale is. */
static bool is_auxiliary(const StageContext *s, const Op *load, const Op *dot)
{
    if (load->kind != OP_LOAD) {
        return false;
    }
    Type type = load->results[0]->type;
    Access access = op_access(load, 0);
    const Value *last = access.n > 1 ? access.indices[access.n - 1] : NULL;
    int64_t bytes = type->rank == 1 ? poly_capacity(type->dims[0]) * dtype_bytes(type->dtype) : 0;
    return last && last->type->kind == TYPE_RANGE && bytes > 0 && bytes % ROW_ALIGN == 0 &&
           poly_capacity(type->dims[0]) <= s->func->target->bulk_box &&
           !dtype_is_packed(type->dtype) && an_tma_rows(&access) &&
           can_count(access.memory->type) && access.n <= s->func->target->bulk_rank &&
           loops_are_plain(s, load) && stage_may_bulk(s->func, s->launch, access.memory) &&
           dot->parent->parent->kind == OP_FOR;
}

/* Rows that are read in addition to the bulk operands of a product, in its own block. */
static void find_auxiliary_operands(StageContext *s)
{
    for (int i = 0, n = s->n; i < n; i++) {
        const StagedOperand *item = &s->items[i];
        bool first = item->side == 1 && item->bulk && item->load->parent == item->dot->parent;
        for (Op *op = item->dot->parent->first; first && op; op = op->next) {
            if (op->n_results == 1 && op->results[0]->type->kind == TYPE_ARRAY &&
                is_auxiliary(s, op, item->dot) && !stage_auxiliary_operand(s, op) &&
                s->n < MAX_STAGED) {
                s->items[s->n++] =
                    (StagedOperand){.load = op,
                                    .dot = item->dot,
                                    .side = SIDE_AUXILIARY,
                                    .bulk = true,
                                    .rows = 1,
                                    .cols = poly_capacity(op->results[0]->type->dims[0])};
            }
        }
    }
}

static void find_dots(Op *op, void *user)
{
    StageContext *s = user;
    if (op->kind == OP_DOT) {
        find_operand(s, op, 0);
        find_operand(s, op, 1);
    }
}

static const char *why_not_bulk(const Func *func)
{
    return func->target->has_bulk_copy
               ? "no operand of a product is a tile that the copy engine can describe "
                 "(its rows must be a multiple of 16 bytes)"
               : "this device has no bulk copies";
}

static const char *why_not_async(const Func *func)
{
    return func->target->async_copy_bytes
               ? "no operand of a product is a tile, loaded in each step of a "
                 "loop, whose rows begin "
                 "at multiples of what a thread of this device can copy"
               : "threads of this device cannot copy past their registers";
}

typedef enum Way { WAY_PLAIN, WAY_ASYNC, WAY_BULK } Way;

static void refuse_way(const StageContext *s, const char *copy, const char *why)
{
    const ScheduleEntry *line = schedule_user_entry(s->func, "copy", "");
    Diag *d = diag_error(s->func->diags, ERR_NOT_HERE, line ? line->span : SPAN_NONE,
                         "`copy %s` is not possible: %s", copy, why);
    diag_help(s->func->diags, d, "`copy registers`, or leave the line out");
}

static const char *way_reason(const StageContext *s, Way way)
{
    switch (way) {
    case WAY_BULK: return "one thread copies whole tiles, and no register holds them";
    case WAY_ASYNC: return "threads copy for later steps, and no register holds what they copy";
    default: return s->func->target->has_bulk_copy ? why_not_bulk(s->func) : why_not_async(s->func);
    }
}

static Way choose_way(StageContext *s)
{
    static const char *const words[] = {"registers", "async", "bulk"};
    int bulk = 0, async = 0;
    for (int i = 0; i < s->n; i++) {
        bulk += s->items[i].bulk;
        async += stage_can_copy(s, &s->items[i]);
    }
    bool possible = bulk > 0 && s->func->target->has_setmaxnreg;
    Way best = WAY_PLAIN;
    if (possible) {
        best = WAY_BULK;
    } else if (async > 0) {
        best = WAY_ASYNC;
    }
    const char *copy =
        schedule_decide_symbol(s->func, "copy", "", words[best], "%s", way_reason(s, best));
        bool wants_bulk = text_equal(copy, "bulk"), wants_async = text_equal(copy, "async");
    if (wants_bulk && !possible) {
        refuse_way(s, copy, why_not_bulk(s->func));
    } else if (wants_async && !async) {
        refuse_way(s, copy, why_not_async(s->func));
    } else if (wants_bulk) {
        return WAY_BULK;
    }
    return wants_async ? WAY_ASYNC : WAY_PLAIN;
}

static bool find_tile(Memo *seen, const Value *value, int depth)
{
    const Op *op = value ? value->def : NULL;
    int64_t known;
    if (!op) {
        return value && value->block;
    }
    if (memo_known(seen, value, depth, &known)) {
        return false; /* or the search would have ended */
    }
    memo_keep(seen, value, depth, 1);
    bool found = depth > 32;
    for (int i = 0; i < op->n_operands && !found; i++) {
        found = find_tile(seen, op->operands[i], depth + 1);
    }
    return found;
}

bool stage_varies(const Value *value)
{
    Memo *seen = value ? memo_about(value) : NULL;
    bool found = find_tile(seen, value, 0);
    memo_close(seen);
    return found;
}

/* ---- products ---- */

typedef struct DotList {
    Op *items[MAX_STAGED];
    int n, all; /* without a unit, and with one */
    Op *last;
} DotList;

static void list_dots(Op *op, void *user)
{
    DotList *list = user;
    if (op->kind == OP_DOT && !op_attr(op, ATTR_INSTRUCTION) && list->n < MAX_STAGED) {
        list->items[list->n++] = op;
    }
    list->all += op->kind == OP_DOT;
    list->last = op->kind == OP_DOT ? op : list->last;
}

static bool refuse_many(const Func *func, const DotList *dots)
{
    bool many = 2 * dots->all > MAX_STAGED;
    if (many) {
        Diag *d = diag_error(func->diags, ERR_NOT_HERE, dots->last->span,
                             "a launch has at most %d products, this one has %d", MAX_STAGED / 2,
                             dots->all);
        diag_help(func->diags, d,
                  "write some of them in a `parallel` of their own, or stack their "
                  "operands and multiply once");
    }
    return many;
}

/* Threads load what they multiply, where the user wants it so. */
static bool is_direct(StageContext *s, const DotList *dots)
{
    const ScheduleEntry *line = schedule_user_entry(s->func, "copy", "");
    return line && line->symbol && text_equal(line->symbol, "none") &&
           stage_may_direct(s, dots->items, dots->n);
}

/* What reads rows of shared memory whose pieces are permuted, and nothing else; NULL: nothing. */
static const char *wants_swizzle(const StageContext *s)
{
    if (s->group) {
        return "groups of warps multiply rows whose pieces are permuted";
    }
    return s->roles ? "the copy engine permutes pieces of rows as it brings them (`copy registers`)"
                    : NULL;
}

static void choose_swizzle(StageContext *s)
{
    Func *func = s->func;
    const char *why = wants_swizzle(s);
    if (!why) {
        s->swizzle = an_swizzled(func);
        return;
    }
    const ScheduleEntry *line = schedule_user_entry(func, "swizzle", "");
    if (line && text_equal(line->symbol, "off")) {
        Diag *d = diag_error(func->diags, ERR_NOT_HERE, line->span,
                             "`swizzle off` is not possible: %s", why);
        diag_help(func->diags, d, "leave the line out");
    }
}

/* ---- views ---- */

static bool is_brought(const StageContext *s, const Op *load)
{
    bool bulk = false;
    for (int i = 0; i < s->n && s->roles; i++) {
        bulk = bulk || (s->items[i].load == load && s->items[i].bulk);
    }
    return bulk;
}

static void gather_view(Op *op, void *user)
{
    StageContext *s = user;
    if (op->kind == OP_LOAD && func_im2col_of(s->func, op->operands[0]) && !is_brought(s, op)) {
        stage_gather_view(s->func, op);
    }
}

static void find_operands(StageContext *s)
{
    s->n = 0;
    block_walk(s->body, find_dots, s);
    find_auxiliary_operands(s);
}

/* Without roles, threads mask what they have loaded. */
static void drop_chosen(StageContext *s)
{
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        if (s->roles || !s->items[i].chosen) {
            s->items[n++] = s->items[i];
        }
    }
    s->n = n;
}

static void stage_launch(Func *func, Op *launch)
{
    StageContext s = {
        .func = func,
        .launch = launch,
        .body = launch->regions[0],
        .teams = 1,
        .swizzle = true,
        .even = true,
    };
    DotList dots = {.n = 0};
    stage_merge_axes(func, launch);
    block_walk(s.body, find_unit, &s);
    block_walk(s.body, list_dots, &dots);
    if (refuse_many(func, &dots)) {
        return;
    }
    find_operands(&s);
    if (dots.n == 0) {
        if (stage_tile_prefetch(&s)) {
            stage_roles(&s);
        }
        block_walk(s.body, gather_view, &s);
        return;
    }
    stage_order(&s);
    Way way = choose_way(&s);
    s.roles = way == WAY_BULK;
    if (!s.roles) {
        stage_multicast(&s);
    }
    block_walk(s.body, gather_view, &s);
    find_operands(&s);
    drop_chosen(&s);
    if (is_direct(&s, &dots)) {
        for (int i = 0; i < dots.n; i++) {
            stage_direct(&s, dots.items[i]);
        }
        return;
    }
    choose_swizzle(&s);
    if (s.roles) {
        stage_roles(&s);
    } else {
        for (int i = 0; i < s.n; i++) {
            s.items[i].bulk = false;
        }
        if (way == WAY_ASYNC) {
            stage_copies(&s);
        }
        stage_register_prefetch(&s);
        dots.n = 0;
        block_walk(s.body, list_dots, &dots);
    }
    for (int i = 0; i < dots.n; i++) {
        stage_dot(&s, dots.items[i]);
    }
}

void pass_stage(Func *func)
{
    if (func->target->family == FAMILY_CPU) {
        return;
    }
    func->level = LEVEL_STAGED;
    for (Op *op = func->body->first; op; op = op->next) {
        if (op->kind == OP_LAUNCH) {
            schedule_at_op(func, op);
            stage_launch(func, op);
        }
    }
    schedule_at_launch(func, EVERY_LAUNCH);
    func_remove_dead(func);
    stage_settle(func);
}

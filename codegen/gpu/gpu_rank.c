/* SPDX-License-Identifier: Apache-2.0 */
/* The ops histogram, rank, tile_scatter and lookup, of which sorting is made. A warp counts in its
 * own row of shared memory. A histogram uses atomic additions, whose order has no effect. To rank,
 * a warp processes its elements in order, one per lane: ballots over the bits of the digit tell
 * each lane which lanes have the same digit; the earlier ones count for its rank, and all of them
 * write the same new count, so there is no contention, whatever the digits are. The rows are then
 * summed, warp after warp:
 *
 *     i32 rows[warps][groups + 1]      an invalid digit uses the last column, which is not counted
 *     T   table[groups + 1]            of rank alone, and another for each result
 *
 * tile_scatter writes its values to shared memory and reads them in the order of the result; lookup
 * writes its table. */
#include "codegen/gpu/gpu_emitters.h"
#include "codegen/scalar/scalar_atomic.h"

enum { COUNT_BYTES = 4, TABLE_ALIGN = 8, HALF_BITS = 16 };

typedef struct Ranker {
    GpuEmitter *em;
    const Op *op;
    Type type; /* of the digits */
    const GpuValue *digits;
    int n; /* registers */
    int64_t groups;
    int warps;              /* that hold elements of their own */
    LLVMTypeRef mask;       /* a bit a lane */
    LLVMValueRef rows, own; /* pointers: to the first row, and to this warp's */
    LLVMValueRef earlier;   /* the lanes before this one */
    LLVMValueRef holds;     /* i1: does the thread hold elements that no other does? NULL: yes */
    LLVMValueRef *known; /* i32, by register: the column, then the rank in the warp: 16 bits each */
    bool joined;         /* the only table is in the rows */
} Ranker;

/* ---- places ---- */

static LLVMValueRef row_at(const Ranker *k, LLVMValueRef warp)
{
    GpuEmitter *em = k->em;
    LLVMValueRef bytes = gpu_i32(em, (k->groups + 1) * COUNT_BYTES);
    return gpu_at(em, k->rows, LLVMBuildMul(em->builder, warp, bytes, ""));
}

static LLVMValueRef column_at(const Ranker *k, LLVMValueRef row, LLVMValueRef column)
{
    return LLVMBuildInBoundsGEP2(k->em->builder, k->em->i32, row, &column, 1, "");
}

static LLVMValueRef load_i32(const Ranker *k, LLVMValueRef at)
{
    return LLVMBuildLoad2(k->em->builder, k->em->i32, at, "");
}

/* Only where it holds (NULL: everywhere): threads that have nothing to say would race. */
static void store_if(GpuEmitter *em, LLVMValueRef holds, LLVMValueRef value, LLVMValueRef at)
{
    if (!holds) {
        LLVMBuildStore(em->builder, value, at);
        return;
    }
    GpuBranch branch = gpu_branch_begin(em, holds);
    LLVMBuildStore(em->builder, value, at);
    gpu_branch_end(em, branch);
}

static LLVMValueRef table_at(const Ranker *k, int nth)
{
    int64_t bytes = (int64_t)k->em->role->warps * (k->groups + 1) * COUNT_BYTES;
    bytes = (bytes + TABLE_ALIGN - 1) / TABLE_ALIGN * TABLE_ALIGN;
    for (int i = 0; i < nth; i++) {
        /* Each table is aligned for vector access. */
        const Value *table = k->op->operands[i + 1];
        int64_t entry_bytes = (k->groups + 1) * dtype_bytes(table->type->dtype);
        bytes += (entry_bytes + TABLE_ALIGN - 1) / TABLE_ALIGN * TABLE_ALIGN;
    }
    return gpu_at_const(k->em, k->rows, bytes);
}

static Ranker ranker_new(GpuEmitter *em, const Op *op, int64_t groups)
{
    const Value *digits = op->operands[0], *scratch = op->operands[op->n_operands - 3];
    const Layout *layout = digits->type->layout;
    Ranker k = {.em = em, .op = op, .type = digits->type, .groups = groups};
    k.digits = gpu_value(em, digits);
    k.n = gpu_registers(em, digits->type);
    k.warps = 1 << layout->bits[IN_WARP];
    k.mask = LLVMIntTypeInContext(em->context, 1u << em->warp_bits);
    k.rows = gpu_shared_slot(em, scratch, NULL);
    k.own = row_at(&k, em->role->warp);
    LLVMValueRef one = LLVMConstInt(k.mask, 1, false);
    LLVMValueRef lane = LLVMBuildZExt(em->builder, em->role->lane, k.mask, "");
    lane = LLVMBuildShl(em->builder, one, lane, "");
    k.earlier = LLVMBuildSub(em->builder, lane, one, "");
    k.known = ARENA_ARRAY(em->arena, LLVMValueRef, k.n);
    if (groups >> HALF_BITS || gpu_extent(em, digits->type, 0) >> HALF_BITS) {
        gpu_bug(em, op, "too many digits");
    }
    return k;
}

/* ---- a warp's own counts ---- */

static LLVMValueRef same_bit(const Ranker *k, LLVMValueRef digit, uint32_t bit)
{
    GpuEmitter *em = k->em;
    if (em->target->same_bit) {
        return em->target->same_bit(em, digit, bit);
    }
    LLVMBuilderRef b = em->builder;
    LLVMValueRef none = LLVMConstNull(k->mask), all = LLVMConstAllOnes(k->mask);
    LLVMValueRef set = LLVMBuildAnd(b, digit, gpu_i32(em, bit), "");
    set = LLVMBuildICmp(b, LLVMIntNE, set, gpu_i32(em, 0), "");
    LLVMValueRef others = LLVMBuildSelect(b, set, none, all, "");
    return LLVMBuildXor(b, em->target->ballot(em, set), others, "");
}

static LLVMValueRef count_bits(const Ranker *k, LLVMValueRef mask)
{
    GpuEmitter *em = k->em;
    LLVMValueRef count = gpu_intrinsic(em, "llvm.ctpop", 1, (LLVMTypeRef *)&k->mask, 1, &mask);
    return LLVMBuildIntCast2(em->builder, count, em->i32, false, "");
}

/* i1: is register r's element one that counts? */
static LLVMValueRef does_count(const Ranker *k, int r)
{
    GpuEmitter *em = k->em;
    LLVMValueRef digit = k->digits->regs[r], groups = gpu_i32(em, k->groups);
    LLVMValueRef counts = LLVMBuildICmp(em->builder, LLVMIntULT, digit, groups, "");
    return gpu_both(em, counts, gpu_both(em, gpu_in_tile(em, k->type, r), k->holds));
}

static void rank_one(Ranker *k, int r)
{
    GpuEmitter *em = k->em;
    LLVMBuilderRef b = em->builder;
    LLVMValueRef digit = k->digits->regs[r], groups = gpu_i32(em, k->groups);
    LLVMValueRef counts = does_count(k, r);
    LLVMValueRef column = LLVMBuildSelect(b, counts, digit, groups, "");
    /* The lanes with the same digit are found by one ballot per bit. */
    LLVMValueRef peers = em->target->ballot(em, counts);
    for (int bit = 0; (int64_t)1 << bit < k->groups; bit++) {
        peers = LLVMBuildAnd(em->builder, peers, same_bit(k, digit, 1u << bit), "");
    }
    LLVMValueRef at = column_at(k, k->own, column), before = load_i32(k, at);
    LLVMValueRef earlier = count_bits(k, LLVMBuildAnd(b, peers, k->earlier, ""));
    em->target->warp_sync(em); /* all have read */
    store_if(em, counts, LLVMBuildAdd(b, before, count_bits(k, peers), ""), at);
    em->target->warp_sync(em);
    column = LLVMBuildShl(b, column, gpu_i32(em, HALF_BITS), "");
    k->known[r] = LLVMBuildAdd(b, column, LLVMBuildAdd(b, before, earlier, ""), "");
}

static void count_one(Ranker *k, int r)
{
    GpuEmitter *em = k->em;
    LLVMValueRef digit = k->digits->regs[r], groups = gpu_i32(em, k->groups);
    LLVMValueRef column = LLVMBuildSelect(em->builder, does_count(k, r), digit, groups, "");
    AtomicChange change = {.fn = ATOMIC_ADD, .dtype = DT_I32, .value = gpu_i32(em, 1)};
    scalar_atomic(em->l, &change, column_at(k, k->own, column));
}

static void take_all(Ranker *k, void (*take)(Ranker *, int))
{
    /* The row is cleared with the column behind the digits: elements that do not count read it, and
     * the value is part of an address. */
    GpuEmitter *em = k->em;
    int64_t lanes = (int64_t)1 << em->warp_bits, whole = k->groups / lanes * lanes;
    for (int64_t first = 0; first < whole; first += lanes) {
        LLVMValueRef column = LLVMBuildAdd(em->builder, em->role->lane, gpu_i32(em, first), "");
        LLVMBuildStore(em->builder, gpu_i32(em, 0), column_at(k, k->own, column));
    }
    for (int64_t first = whole; first <= k->groups; first++) {
        LLVMBuildStore(em->builder, gpu_i32(em, 0), column_at(k, k->own, gpu_i32(em, first)));
    }
    em->target->warp_sync(em);
    for (int r = 0; r < k->n; r++) {
        if (k->digits->regs[r]) {
            take(k, r);
        }
    }
    k->em->target->sync(k->em);
}

/* ---- across warps ---- */

static void sum_columns(const Ranker *k, bool total)
{
    GpuEmitter *em = k->em;
    int64_t threads = (int64_t)em->role->warps << em->warp_bits;
    for (int64_t first = 0; first < k->groups; first += threads) {
        LLVMValueRef column = em->role->thread;
        column = LLVMBuildAdd(em->builder, column, gpu_i32(em, first), "");
        LLVMValueRef groups = gpu_i32(em, k->groups);
        LLVMValueRef inside = LLVMBuildICmp(em->builder, LLVMIntULT, column, groups, "");
        GpuBranch branch = gpu_branch_begin(em, inside);
        /* Each warp's count becomes the sum of the counts of earlier warps; the first row may
         * instead receive the total. */
        LLVMValueRef sum = gpu_i32(em, 0);
        if (k->joined) {
            sum = load_i32(k, column_at(k, table_at(k, 0), column));
        }
        for (int warp = 0; warp < k->warps; warp++) {
            LLVMValueRef at = column_at(k, row_at(k, gpu_i32(em, warp)), column);
            LLVMValueRef own = load_i32(k, at);
            if (!total) {
                LLVMBuildStore(em->builder, sum, at);
            }
            sum = LLVMBuildAdd(em->builder, sum, own, "");
        }
        if (total) {
            LLVMBuildStore(em->builder, sum, column_at(k, k->rows, column));
        }
        gpu_branch_end(em, branch);
    }
    em->target->sync(em);
}

/* ---- histogram ---- */

/* Where register r's element of a table is, whose other registers have a place as well. */
static LLVMValueRef own_column(const Ranker *k, Type type, int r)
{
    GpuEmitter *em = k->em;
    LLVMValueRef column = gpu_coord(em, type->layout, 0, r), inside = gpu_in_tile(em, type, r);
    LLVMValueRef last = gpu_i32(em, k->groups);
    return inside ? LLVMBuildSelect(em->builder, inside, column, last, "") : column;
}

void gpu_emit_histogram(GpuEmitter *em, const Op *op)
{
    Type type = op->results[0]->type;
    Ranker k = ranker_new(em, op, gpu_extent(em, type, 0));
    k.holds = gpu_first_holder(em, k.type->layout);
    take_all(&k, count_one);
    sum_columns(&k, true);
    GpuValue *result = gpu_define(em, op->results[0]);
    for (int r = 0; r < gpu_registers(em, type); r++) {
        if (gpu_exists(em, type, r)) {
            result->regs[r] = load_i32(&k, column_at(&k, k.rows, own_column(&k, type, r)));
        }
    }
    em->target->sync(em); /* before the scratch is written again */
}

/* ---- rank ---- */

/* Lanes hold neighbours, registers what follows them, warps what follows these; warps that are left
 * hold copies. */
static bool in_order(Ranker *k)
{
    static const LayoutIn order[] = {IN_LANE, IN_REGISTER, IN_WARP};
    const Layout *layout = k->type->layout;
    bool good = layout->bits[IN_LANE] == k->em->warp_bits;
    int32_t step = 1;
    for (int i = 0; i < 3; i++) {
        for (int bit = 0; bit < layout->bits[order[i]]; bit++, step *= 2) {
            int32_t own = layout->basis[order[i]][bit][0];
            bool copies = order[i] == IN_WARP && own == 0;
            good = good && (own == step || copies);
            k->warps = copies && k->warps > 1 << bit ? 1 << bit : k->warps;
        }
    }
    return good;
}

static void define_ranks(const Ranker *k, LLVMValueRef row, int nth)
{
    GpuEmitter *em = k->em;
    LLVMBuilderRef b = em->builder;
    const Value *result = k->op->results[nth];
    GpuValue *ranks = gpu_define(em, result);
    LLVMTypeRef type = gpu_type(em, result->type->dtype);
    for (int r = 0; r < k->n; r++) {
        if (k->digits->regs[r]) {
            LLVMValueRef column = LLVMBuildLShr(b, k->known[r], gpu_i32(em, HALF_BITS), "");
            LLVMValueRef rank = LLVMBuildAnd(b, k->known[r], gpu_i32(em, UINT16_MAX), "");
            rank = LLVMBuildAdd(b, rank, load_i32(k, column_at(k, row, column)), "");
            if (k->joined) {
                ranks->regs[r] = rank;
                continue;
            }
            LLVMValueRef at = LLVMBuildInBoundsGEP2(b, type, table_at(k, nth), &column, 1, "");
            LLVMValueRef first = LLVMBuildLoad2(b, type, at, "");
            ranks->regs[r] =
                LLVMBuildAdd(b, first, LLVMBuildIntCast2(b, rank, type, false, ""), "");
        }
    }
}

void gpu_emit_rank(GpuEmitter *em, const Op *op)
{
    Ranker k = ranker_new(em, op, gpu_extent(em, op->operands[1]->type, 0));
    if (!in_order(&k)) {
        gpu_bug(em, op, "its digits are not spread in their order");
    }
    k.joined = op->n_results == 1 && op->results[0]->type->dtype == DT_I32;
    for (int i = 0; i < op->n_results; i++) {
        /* Each thread stores the columns of the table that it owns. */
        const Value *table = k.op->operands[i + 1];
        const GpuValue *regs = gpu_value(em, table);
        LLVMTypeRef type = gpu_type(em, table->type->dtype);
        for (int r = 0; r < gpu_registers(em, table->type); r++) {
            if (regs->regs[r]) {
                LLVMValueRef column = own_column(&k, table->type, r);
                LLVMValueRef at =
                    LLVMBuildInBoundsGEP2(em->builder, type, table_at(&k, i), &column, 1, "");
                store_if(em, gpu_in_tile(em, table->type, r), regs->regs[r], at);
            }
        }
    }
    take_all(&k, rank_one);
    sum_columns(&k, false);
    LLVMValueRef warp = gpu_i32(em, k.warps - 1); /* others hold copies */
    LLVMValueRef row = row_at(&k, LLVMBuildAnd(em->builder, em->role->warp, warp, ""));
    for (int i = 0; i < op->n_results; i++) {
        define_ranks(&k, row, i);
    }
    em->target->sync(em); /* before the scratch is written again */
}

/* ---- tile_scatter ---- */

static LLVMValueRef value_at(GpuEmitter *em, const Op *op, LLVMValueRef place)
{
    LLVMTypeRef type = llvm_memory_type(em->l, op->results[0]->type->dtype);
    LLVMValueRef base = gpu_shared_slot(em, op->operands[2], NULL);
    place = LLVMBuildIntCast2(em->builder, place, em->i32, false, "");
    return LLVMBuildInBoundsGEP2(em->builder, type, base, &place, 1, "");
}

void gpu_emit_arrange(GpuEmitter *em, const Op *op)
{
    Type type = op->results[0]->type;
    LLVMTypeRef memory = llvm_memory_type(em->l, type->dtype);
    LLVMValueRef last = gpu_i32(em, gpu_extent(em, type, 0));

    /* A value whose rank lies outside of the tile is not stored. */
    const Value *values = op->operands[0];
    const GpuValue *from = gpu_value(em, values), *places = gpu_value(em, op->operands[1]);
    LLVMTypeRef index = gpu_type(em, op->operands[1]->type->dtype);
    uint64_t extent = (uint64_t)gpu_extent(em, op->results[0]->type, 0);
    LLVMValueRef limit = LLVMConstInt(index, extent, false);
    for (int r = 0; r < gpu_registers(em, values->type); r++) {
        if (from->regs[r]) {
            LLVMValueRef place = places->regs[r];
            LLVMValueRef inside = LLVMBuildICmp(em->builder, LLVMIntULT, place, limit, "");
            LLVMValueRef value = gpu_to_memory(em, values->type->dtype, from->regs[r]);
            store_if(em, inside, value, value_at(em, op, place));
        }
    }
    em->target->sync(em);

    GpuValue *to = gpu_define(em, op->results[0]);
    for (int r = 0; r < gpu_registers(em, type); r++) {
        if (gpu_exists(em, type, r)) {
            LLVMValueRef place = gpu_coord(em, type->layout, 0, r);
            LLVMValueRef inside = gpu_in_tile(em, type, r);
            place = inside ? LLVMBuildSelect(em->builder, inside, place, last, "") : place;
            LLVMValueRef value = LLVMBuildLoad2(em->builder, memory, value_at(em, op, place), "");
            to->regs[r] = gpu_from_memory(em, type->dtype, value);
        }
    }
    em->target->sync(em); /* before the scratch is written again */
}

/* ---- lookup ---- */

/* An index that is none of the table's reads its last column, which nothing wrote. */
void gpu_emit_lookup(GpuEmitter *em, const Op *op)
{
    const Value *table = op->operands[0];
    const GpuValue *from = gpu_value(em, table), *indices = gpu_value(em, op->operands[1]);
    LLVMTypeRef memory = llvm_memory_type(em->l, table->type->dtype);
    LLVMValueRef base = gpu_shared_slot(em, op->operands[2], NULL);
    LLVMValueRef last = gpu_i32(em, gpu_extent(em, table->type, 0));
    for (int r = 0; r < gpu_registers(em, table->type); r++) {
        if (from->regs[r]) {
            LLVMValueRef column = gpu_coord(em, table->type->layout, 0, r);
            LLVMValueRef at = LLVMBuildInBoundsGEP2(em->builder, memory, base, &column, 1, "");
            store_if(em, gpu_in_tile(em, table->type, r),
                     gpu_to_memory(em, table->type->dtype, from->regs[r]), at);
        }
    }
    em->target->sync(em);
    GpuValue *to = gpu_define(em, op->results[0]);
    for (int r = 0; r < to->n; r++) {
        if (indices->regs[r]) {
            LLVMValueRef index = indices->regs[r];
            LLVMValueRef good = LLVMBuildICmp(em->builder, LLVMIntULT, index, last, "");
            index = LLVMBuildSelect(em->builder, good, index, last, "");
            LLVMValueRef at = LLVMBuildInBoundsGEP2(em->builder, memory, base, &index, 1, "");
            LLVMValueRef value = LLVMBuildLoad2(em->builder, memory, at, "");
            to->regs[r] = gpu_from_memory(em, table->type->dtype, value);
        }
    }
    em->target->sync(em); /* before the scratch is written again */
}

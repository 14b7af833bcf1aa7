/* SPDX-License-Identifier: Apache-2.0 */
/* The builder, the only code that creates ops. It has an insertion point and infers result types.
 * A wrong operand is a bug of the caller (diag_bug); front ends check before they build. */
#ifndef TESSERA_IR_BUILD_H
#define TESSERA_IR_BUILD_H

#include "ir/ir.h"
#include "support/hash_table.h"

typedef struct Builder {
    Func *func;
    Block *block;
    Op *before; /* new ops go before this one; NULL: at the end of the block */
    Span span;  /* given to new ops */
} Builder;

Builder build_at_end(Func *func, Block *block);
Builder build_before(Func *func, Op *op);
Builder build_after(Func *func, Op *op);

Block *build_block(Func *func, Op *parent);
/* Appends an argument. For ranges pass type_range(var): the variable's binder is set. */
Value *block_arg(Func *func, Block *block, Type type, const char *name);

/* The general form: operands may hold NULL indices. Result types are given. */
Op *build_op(Builder *b, OpKind kind, int n_operands, Value *const *operands, int n_results,
             const Type *results, int n_regions);
void op_set_int(Func *func, Op *op, AttrKey key, int64_t value);
void op_set_num(Func *func, Op *op, AttrKey key, double f, int64_t i);
void op_set_word(Func *func, Op *op, AttrKey key, const char *word);
void op_set_ints(Func *func, Op *op, AttrKey key, int n, const int64_t *ints);
void op_set_dims(Func *func, Op *op, AttrKey key, int n, const Dim *dims);
void op_drop_attr(Op *op, AttrKey key);
/* Sets attribute `over` of a reduce, dot, fold or scan: the extent, or the tile of a range. */
void op_set_over(Func *func, Op *op, Dim over);
/* Copies `over` from the op that this one replaces. */
void op_inherit_over(Func *func, Op *op, const Op *from);
/* One more result. */
Value *op_add_result(Func *func, Op *op, Type type);
/* Replaces one operand. */
void op_set_operand(Op *op, int at, Value *value);
/* Replaces the whole operand list. */
void op_set_operands(Func *func, Op *op, int n, Value *const *operands);

/* Values */
Value *build_float(Builder *b, Type type, double value);
Value *build_int(Builder *b, Type type, int64_t value);
void build_bare(Builder *b, OpKind kind);           /* without operands and results */
Value *build_previous(Builder *b, Value *position); /* one less */
Value *build_i64(Builder *b, int64_t value);
Value *build_size(Builder *b, Dim dim);                    /* i64 */
Value *build_index(Builder *b, Value *range, DType dtype); /* dtype[r] */
Value *build_range_fact(Builder *b, OpKind start_end_or_len, Value *range);

Value *build_unary(Builder *b, OpKind kind, Value *a); /* isnan: bool */
Value *build_binary(Builder *b, OpKind kind, Value *a, Value *c);
Value *build_cmp(Builder *b, const char *pred, Value *a, Value *c);
Value *build_fma(Builder *b, Value *a, Value *c, Value *d);
Value *build_select(Builder *b, Value *condition, Value *a, Value *c);
Value *build_cast(Builder *b, Value *a, DType dtype); /* a itself when it has that type */
Value *build_bitcast(Builder *b, Value *a, DType dtype);

Value *build_broadcast(Builder *b, Value *a, int rank, const Dim *dims); /* a itself when equal */
Value *build_expand(Builder *b, Value *a, int axis);
Value *build_squeeze(Builder *b, Value *a, int axis);
Value *build_permute(Builder *b, Value *a, const int64_t *perm);
Value *build_mask(Builder *b, Value *a, int axis, double value);
Value *build_reduce(Builder *b, const char *fn, Value *a, int axis);
/* In parts of `by` elements, as many as `parts`; the other way: to `extent` elements. */
Value *build_reduce_parts(Builder *b, const char *fn, Value *a, int axis, int64_t by, Dim parts);
Value *build_repeat_parts(Builder *b, Value *a, int axis, int64_t by, Dim extent);
Value *build_cluster_reduce(Builder *b, const char *fn, Value *a);
/* `part`: the extent of the axis in the result. */
Value *build_cluster_scatter(Builder *b, const char *fn, Value *a, int axis, Dim part);
/* acc may be NULL; result type: acc's, else `dtype`. Register operands. */
Value *build_dot(Builder *b, Value *a, Value *c, Value *acc, DType dtype);

extern Value *const WHOLE[MAX_RANK]; /* the indices of all of a tensor */
/* indices: rank of them, NULL for a whole axis. The result keeps the axes that are not scalars. */
Value *build_load(Builder *b, Value *tensor, Value *const *indices);
Op *build_store(Builder *b, Value *tensor, Value *const *indices, Value *value);

/* i64[dim] or i32[dim]: 0, 1, 2, … */
Value *build_iota(Builder *b, Dim dim, DType dtype);
/* The vector along one axis of an array of this shape, the same along all others. */
Value *build_along(Builder *b, Value *vector, int axis, Type shape);
/* i64: the place along the axis of each element of an array of this shape. */
Value *build_places(Builder *b, int axis, Type shape);
/* `memory`: a tensor, or (at the tensor stage) an array. One index an axis, none NULL: arrays of
 * the result's shape or scalars, i64 or i32. The result has that shape; elements outside read 0, or
 * what op_set_num(func, result->def, ATTR_VALUE, …) says. */
Value *build_gather(Builder *b, Value *memory, Value *const *indices);
/* `tensor` may be shared memory, an index then NULL: any place along that axis.
 * `fn`: set add min max and or xor xchg cas. `compare` for cas alone, else NULL; `mask` may be
 * NULL. `old`: the op has a result, the old elements. */
Op *build_scatter(Builder *b, const char *fn, Value *tensor, Value *const *indices, Value *value,
                  Value *compare, Value *mask, bool old);
/* Indices as for build_gather; the mask is a bool of the result's shape. */
Value *build_await(Builder *b, Value *tensor, Value *const *indices, Value *mask);
Value *build_scan(Builder *b, const char *fn, Value *a, int axis, bool reverse, bool exclusive);
/* Along the last axis. Results: the elements, and (i64) where they come from. */
Op *build_sort(Builder *b, Value *a, bool descending);
/* i32[groups] of i32 digits. */
Value *build_histogram(Builder *b, Value *digits, int64_t groups);
/* A result for each of the n tables. */
Op *build_rank(Builder *b, Value *digits, int n, Value *const *tables);
Value *build_arrange(Builder *b, Value *values, Value *places);
Value *build_lookup(Builder *b, Value *table, Value *indices);
/* Its region has its 2n scalar arguments and is empty: end it in a yield of n scalars. `reverse`
 * and `exclusive` for scans alone. */
Op *build_fold(Builder *b, int n, Value *const *arrays, Value *const *neutrals, int axis, bool scan,
               bool reverse, bool exclusive);
/* Two regions, each with n arguments: end regions[0] in a yield of a bool, a scalar or of the shape
 * that all carried values have, regions[1] in a yield of the n next values. */
Op *build_while(Builder *b, int n, Value *const *inits);
/* Two regions without arguments: end each in a yield of n values of these types. */
Op *build_if(Builder *b, Value *condition, int n, const Type *types);

/* print where `when` holds, assert where it does not: the text and the n values, of its shape. */
Op *build_say(Builder *b, OpKind print_or_assert, const char *text, Value *when, int n,
              Value *const *values);

/* Result: the op; its block arguments are made (i64 where step 0, else a new range of capacity
 * step, or 0 for auto (-1)). `names` may hold NULLs. */
Op *build_parallel(Builder *b, OpKind parallel_or_launch, int n, const Dim *dims,
                   const int64_t *steps, const char *const *names);
/* One iterator argument, then one argument a carried value; the region is empty: end it in
 * yield. */
Op *build_for(Builder *b, Dim dim, int64_t step, const char *name, Value *lo, Value *hi, int n,
              Value *const *inits);
Op *build_yield(Builder *b, int n, Value *const *values);

/* ---- surgery ---- */
void op_remove(Op *op); /* unlinks; its results must have no uses */
void op_move_before(Op *op, Op *where);
void op_move_to_end(Op *op, Block *block);
void func_replace_uses(Func *func, const Value *old, Value *by);    /* in the whole function */
void block_replace_uses(Block *block, const Value *old, Value *by); /* in it and below */
/* The ops that have the value as an operand, one after the other, in no order: an op comes as often
 * as it does. `within`: those alone that are in the block or below.
 *     for (const ValueUse *use = use_first(value, block); use; use = use_next(use, block)) … */
const ValueUse *use_first(const Value *value, const Block *within);
const ValueUse *use_next(const ValueUse *use, const Block *within);
bool value_has_uses(const Func *func, const Value *value);
/* The op of the value's only use; NULL: it has no use, or several. */
Op *value_only_user(const Func *func, const Value *value);
/* True if `a` comes before `b` in their common block. */
bool op_is_before(const Op *a, const Op *b);
/* True if the op is in the block or below it. */
bool op_is_within(const Op *op, const Block *block);
int value_count_uses(const Func *func, const Value *value);
int block_count_uses(const Block *block, const Value *value); /* in it and below */

/* Cloning with renaming. A value that is not in the map stays itself. */
typedef struct CloneMap {
    Func *func;
    HashTable values; /* only of mapped values, so that small maps stay small in large functions */
    Dim *dims;    /* by DimVar id; NULL: keeps */
    size_t n_dims;
} CloneMap;
CloneMap clone_map_new(Func *func);
void clone_map_value(CloneMap *map, const Value *old, Value *by);
void clone_map_dim(CloneMap *map, const DimVar *old, Dim by);
Value *clone_get(const CloneMap *map, Value *old);
Type clone_type(const CloneMap *map, Type type);
/* Clones one op with its regions at the cursor; fresh ranges for the ranges bound inside. */
Op *clone_op(Builder *b, CloneMap *map, const Op *op);
/* Clones all ops of a block (without its arguments). */
void clone_block_into(Builder *b, CloneMap *map, const Block *block);
/* A copy that belongs to no op, as of a body that may have to be put back. */
Block *func_copy_block(Func *func, const Block *block);

/* ---- walks ---- */
typedef void WalkFn(Op *op, void *user);
/* Pre-order over all ops below; the callback may remove or replace the op that it is given. */
void block_walk(Block *block, WalkFn *fn, void *user);
/* True if the block, or a region below it, has an op of the kind. */
bool block_contains(const Block *block, OpKind kind);
/* True if the op, or an op in its regions, has the value as an operand. */
bool op_reads(const Op *op, const Value *value);
/* True if the op, or an op in its regions, may write the memory. */
bool op_writes(const Op *op, const Value *memory);
void func_walk(Func *func, WalkFn *fn, void *user);
/* Removes pure ops without uses until none is left. Returns how many. */
int func_remove_dead(Func *func);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The IR: one set of structures for a kernel, from whole-tensor statements to staged tiles.
 *
 * A Func holds a body Block; a Block is a list of Ops; an Op may hold regions, which are Blocks.
 * There are no jumps: control flow is structured, dominance is nesting. Types are interned:
 * compare pointers. Only the builder (build.h) creates ops. docs/ir.md describes the text form. */
#ifndef TESSERA_IR_IR_H
#define TESSERA_IR_IR_H

#include "ir/dtype.h"
#include "ir/poly.h"
#include "support/arena.h"
#include "support/diag.h"

typedef struct Op Op;
typedef struct Block Block;
typedef struct Layout Layout;     /* layout.h: which thread and register owns which element */
typedef struct Schedule Schedule; /* schedule.h */
typedef struct Target Target;     /* target.h */

/* ---- types ---- */

typedef enum TypeKind {
    TYPE_ARRAY,    /* elements in registers (a scalar has rank 0); layout NULL until assigned */
    TYPE_TENSOR,   /* a parameter in global memory; row-major contiguous if it has no strides */
    TYPE_RANGE,    /* a slice of an axis; dims[0] is its variable */
    TYPE_SHARED,   /* shared memory of a block; dims are constants */
    TYPE_MBARRIER, /* a ring of mbarriers; dims[0] is their number */
} TypeKind;

/* Maximum rank of arrays and of parameters. An array needs more axes: the gathered input of a
 * convolution has its taps in addition to the axes of the tensor. */
enum { MAX_RANK = 12, TENSOR_RANK = 8 };
_Static_assert((int)MAX_DEGREE >= (int)MAX_RANK, "an array's number of elements is one term");

typedef struct TypeData {
    TypeKind kind;
    DType dtype;
    uint8_t rank;
    uint8_t align;      /* of tensors: bytes that divide the address; 0: the target's alignment */
    const Dim *strides; /* of tensors: in elements, one per axis; NULL: contiguous */
    const Layout *layout;
    Dim dims[]; /* rank of them */
} TypeData;
typedef const TypeData *Type;

Type type_array(Func *func, DType dtype, int rank, const Dim *dims);
Type type_scalar(Func *func, DType dtype);
Type type_tensor(Func *func, DType dtype, int rank, const Dim *dims);
/* The same tensor with these strides in memory. */
Type type_with_strides(Func *func, Type tensor, const Dim *strides, int align);
/* True if adjacent elements along the axis are `stride` elements apart in memory. */
bool type_stride_is(Type tensor, int axis, int64_t stride);
Type type_range(Func *func, DimVar *var);
Type type_shared(Func *func, DType dtype, int rank, const int64_t *dims);
Type type_mbarrier(Func *func, int64_t count);
/* The same type with another element type, other dimensions, another layout. */
Type type_with_dtype(Func *func, Type type, DType dtype);
Type type_with_dims(Func *func, Type type, int rank, const Dim *dims);
Type type_with_layout(Func *func, Type type, const Layout *layout);
/* True for tensors, shared memory and mbarriers: operands that are followed by their indices. */
bool type_is_memory(Type type);
bool type_is_scalar(Type type);
bool type_is_tile(Type type); /* an array with axes */

/* ---- operations ---- */

typedef enum OpKind {
#define OP(id, name, operands, results, traits, levels, axes, doc) OP_##id,
#include "ir/ops.def"
#undef OP
    OP_COUNT
} OpKind;

typedef enum OpTrait {
    TRAIT_ELEMENTWISE = 1,
    TRAIT_PURE = 2,
    TRAIT_ACCESS = 4,
    TRAIT_REGION = 8,
    TRAIT_TERMINATOR = 16,
    TRAIT_APPROX = 32,
    TRAIT_ASYNC = 64,
} OpTrait;

/* How far a function is lowered. The level decides which ops are legal (ops.def). */
typedef enum IrLevel {
    LEVEL_TENSOR = 1, /* after the front end: whole tensors, no loops or memory spaces */
    LEVEL_LOOP = 2,   /* tiled: the body is a list of launches */
    LEVEL_STAGED = 4, /* shared memory, roles, layouts */
} IrLevel;

enum { VARIES = -1 };

/* How the axes of an op's array operands relate to the axes of its result: a rule that
 * ir/op_axes.h evaluates. */
typedef enum AxisRule {
    AXES_NONE,    /* no operand's axes are the result's by position */
    AXES_EQUAL,   /* axis i of every array operand is axis i of the result */
    AXES_FIRST,   /* so it is for the first operand alone */
    AXES_INDEXED, /* so it is for all but the first operand, whose elements are indexed */
    AXES_BROADCAST,
    AXES_EXPAND,
    AXES_SQUEEZE,
    AXES_PERMUTE,
    AXES_REDUCE, /* EQUAL, except that attribute `axis` names an axis that is reduced */
    AXES_SCAN,   /* EQUAL, except that it names one that is scanned */
    AXES_FOLD,   /* REDUCE, or SCAN with attribute `scan` */
    AXES_DOT,
} AxisRule;

typedef struct OpInfo {
    const char *name;
    int8_t operands, results;
    uint8_t traits;
    uint8_t levels;
    AxisRule axes;
    const char *doc;
} OpInfo;
const OpInfo *op_info(OpKind kind);
bool op_has(const Op *op, OpTrait trait);
bool op_from_name(const char *name, size_t n, OpKind *out);
/* True for an approximation whose second operand is the exact value, which targets without the
 * instruction use. */
bool op_has_exact_operand(OpKind kind);

/* A function of the library that keeps its name (OP_NAMED), and how far it may be from its exact
 * value where it may be approximated: `share` of that, and `near`. */
typedef struct NamedFunction {
    const char *name;
    double share, near;
} NamedFunction;
const NamedFunction *named_function(const char *name); /* NULL: there is none of that name */

typedef enum AttrKey {
#define ATTR(id, name, kind) ATTR_##id,
#include "ir/attrs.def"
#undef ATTR
    ATTR_COUNT
} AttrKey;
typedef enum AttrKind {
    ATTR_KIND_INT,
    ATTR_KIND_NUM,
    ATTR_KIND_WORD,
    ATTR_KIND_TEXT,
    ATTR_KIND_INTS,
    ATTR_KIND_DIMS
} AttrKind;
const char *attr_name(AttrKey key);
AttrKind attr_kind(AttrKey key);

typedef struct Attr {
    AttrKey key;
    int n;            /* INTS, DIMS: how many */
    int64_t i;        /* INT; NUM of an integer type */
    double f;         /* NUM of a float type */
    const char *word; /* WORD, TEXT */
    int64_t *ints;    /* INTS */
    Dim *dims;        /* DIMS */
} Attr;

/* One use of a value as an operand. Each value lists its uses, so that finding its readers needs no
 * walk over blocks. */
typedef struct ValueUse {
    Op *op;                 /* &op->uses[i] is the use of op->operands[i] */
    struct ValueUse *next;  /* of the same value */
    struct ValueUse **link; /* the pointer to this use; NULL: it is in no list */
} ValueUse;

struct Value {
    Type type;
    const char *name; /* in the source; may be NULL; not unique */
    Op *def;          /* the op whose result it is, or */
    Block *block;     /* the block whose argument it is; both NULL: a parameter of the function */
    ValueUse *uses;   /* the newest first; also of ops in blocks that left the function */
    uint32_t id;      /* unique in the function, < Func.n_values */
    uint32_t index;   /* which result, argument or parameter */
};

struct Op {
    OpKind kind;
    uint16_t n_operands, n_results, n_regions, n_attrs;
    Value *const *operands; /* NULL only as an index: the whole axis; op_set_operand writes them */
    ValueUse *uses;         /* of the operands */
    Value **results;
    Block **regions;
    Attr *attrs;
    Op *prev, *next;
    Block *parent;
    uint64_t order; /* grows along the block while `Block.numbered` */
    Span span;
};

struct Block {
    Func *func;
    Value **args;
    uint16_t n_args;
    Op *first, *last;
    Op *parent; /* NULL: the body of the function */
    bool numbered;
};

typedef enum ParamIo {
    PARAM_IN,
    PARAM_OUT,
    PARAM_INOUT,
    PARAM_SCRATCH, /* an intermediate in global memory that exists for one call of the kernel */
} ParamIo;

/* True if only the function writes the memory: it has no elements before. */
static inline bool io_is_made_here(ParamIo io)
{
    return io == PARAM_OUT || io == PARAM_SCRATCH;
}

/* A tensor without memory: the im2col view of tensor `of`, an input or an intermediate that is
 * written before the view is read. The axes of `of` are images, `n` spatial axes, channels. The
 * axes of the view are the images, an output position along each spatial axis, a place in a pooling
 * window along each that has such windows, a tap along each that has taps, and the channels. Along
 * a spatial axis it reads element
 * position * stride + place * inner + tap * dilation + offset, and 0 if that is outside. */
enum { MAX_SPATIAL = 3 };
typedef struct Im2colView {
    const Value *of;
    int n;
    struct {
        int64_t stride, dilation; /* dilation 0: no taps */
        int64_t inner;            /* 0: no pooling windows */
        Dim offset;
    } axes[MAX_SPATIAL];
} Im2colView;

typedef struct Param {
    Value *value; /* a tensor, or a scalar (always PARAM_IN) */
    ParamIo io;
    const char *name;
    const int64_t *axis_perm; /* axis i is the caller's axis axis_perm[i]; NULL: the same axes */
    Type caller_type;         /* the type that the caller knows, if axes of it were collapsed, or
                               * are numbers here that it has sizes for; else NULL */
    const int64_t *collapsed; /* axis i is collapsed[i] adjacent axes of caller_type; NULL: one */
    const Im2colView *im2col; /* of a view, which is PARAM_IN; NULL: the parameter is no view */
    bool sorted; /* its integers are assumed to be in order (of one axis): a promise about speed */
    const char
        *separate_reason;     /* why its launch is not part of another one, for messages; NULL: not
                               * known. Not part of the text form */
    const Value *alias;       /* a contiguous tensor whose memory this one is, too: a scratch tensor
                               * with axes of its own (`collapsed`), or any, axes of which are
                               * split (func_split_alias); NULL: of none */
} Param;
/* True if the caller passes the parameter. Such parameters come first. */
bool param_is_callers(const Param *param);
/* The caller's type of the tensor that the view reads. */
Type im2col_source_type(const Func *func, const Im2colView *windows);
/* The number of a view's axes that are images and output positions; 0: one of them was collapsed
 * with another kind of axis. */
int view_places(const Param *view);
/* The same with its axes of places in pooling windows, which come next. */
int view_inner_places(const Param *view);
/* False for views and aliases, which plans and kernels do not know. */
bool param_has_memory(const Param *param);
/* The view that the memory operand is; NULL: it is no view. */
const Im2colView *func_im2col_of(const Func *func, const Value *memory);
/* The tensor whose memory an access touches: what a view or an alias is of, or the operand itself.
 */
const Value *func_memory_of(const Func *func, const Value *memory);
/* The caller's type, except for the order of its axes. */
Type param_given(const Param *param);
/* The caller's axis that is `axis` of the parameter. */
int param_axis(const Param *param, int axis);

/* What a failed resource check tells the next attempt (passes/retry_smaller_tiles.c). */
typedef struct ResourceRetry {
    int dot_halvings;       /* how often derived tiles of launches with a dot are halved again */
    int plain_halvings;     /* the same of launches without a dot */
    bool is_plain;          /* the launch that did not fit has no dot */
    int64_t reserved_bytes; /* shared memory besides the buffers of `stage`; 0: not known yet */
    bool alias_buffers;     /* buffers that are never live at the same time share memory */
} ResourceRetry;

/* How often the passes from `tile` on ran again because something did not fit, and what the first
 * of the attempts had too much of. A chooser that counts resources well makes none necessary. */
typedef struct RetryCount {
    int n;
    const char *why; /* NULL: n is 0 */
} RetryCount;

typedef struct NamedDim {
    Dim dim;
    const char *name;
} NamedDim;

/* What a named function computes, in scalars: a block of one argument, and of one value that it
 * yields. */
typedef struct NamedBody {
    const char *name;
    Block *block;
} NamedBody;

struct Func {
    Arena *arena;
    Diags *diags;
    const char *name;
    const char *symbol; /* prefix of the symbols in its code; NULL: `name`, and they are global */
    IrLevel level;
    bool marks_functions; /* wanted of expand_functions: ATTR_EXPANDED */
    bool padded; /* established by `bounds`: tiles have their full capacity, padding is poison */
    struct {
        Param *items;
        size_t n, cap;
    } params;
    struct {
        DimVar **items;
        size_t n, cap;
    } dimvars;
    struct {
        NamedDim *items;
        size_t n, cap;
    } named; /* sums of sizes that the source names: for messages, not part of the text form */
    struct {
        NamedBody *items;
        size_t n, cap;
    } functions; /* that OP_NAMED calls */
    Block *body;
    Schedule *schedule;
    const Target *target; /* NULL before a target is chosen */
    uint32_t n_values;
    ResourceRetry retry;
    RetryCount retries;
    struct FuncInterns *interns;
    struct AxesMemory *spare_axes; /* of passes/analysis/axis_classes.c */
    struct Memo *spare_memos;      /* of memo.c */
    uint64_t visited;              /* number of visits of ops by all walks (op_visited) */
};

Func *func_new(Arena *arena, Diags *diags, const char *name);
/* A new size variable, or the one of that name. */
DimVar *func_size(Func *func, const char *name);
/* The same for strides. */
DimVar *func_stride(Func *func, const char *name);
/* The size that is of // by: an existing one, or a new one of that name (NULL: a name that no
 * source can write). */
DimVar *func_quotient(Func *func, const char *name, Dim of, int64_t by);
/* The same for a pass: the name appears in the text form only. */
DimVar *func_own_quotient(Func *func, const char *name, Dim of, int64_t by);
/* The source's name of a sum of sizes; NULL: it has none, or is a size itself. */
void func_name_dim(Func *func, Dim dim, const char *name);
const char *func_dim_name(const Func *func, Dim dim);
/* Fills in the unknown (negative) entries of `sizes` that follow from others. Returns a size whose
 * value contradicts the others, is negative or overflows; NULL: there is none. */
const DimVar *func_derive_sizes(const Func *func, int64_t *sizes);
/* A new range variable; a range of that name may exist already. */
DimVar *func_range(Func *func, const char *name, Dim whole, int64_t capacity);
/* The body of the named function; NULL: it has none yet. */
Block *func_function(const Func *func, const char *name);
void func_add_function(Func *func, const char *name, Block *block);
Value *func_param(Func *func, const char *name, Type type, ParamIo io);
/* An im2col view with these numbers of output positions, places in pooling windows (NULL: there are
 * no such windows) and taps along the spatial axes. NULL: no
 * tensor has such a type. */
Value *func_im2col_view(Func *func, const Im2colView *windows, const Dim *places,
                        const Dim *inners, const Dim *taps);
/* A new intermediate that holds an array of this type. */
Value *func_scratch(Func *func, Type type);
/* The contiguous scratch tensor once more, as a parameter whose axes may be collapsed. */
Value *func_alias(Func *func, const Value *scratch);
/* A contiguous tensor of the caller's once more, as a parameter of this type: along each axis the
 * tensor has one axis of it or several adjacent ones, of which the inner ones are numbers. */
Value *func_split_alias(Func *func, const Value *of, Type type);
/* True if an axis of extent `whole` is `groups` times `by` elements for all sizes. */
bool dim_is_split(Func *func, Dim whole, Dim groups, int64_t by);
/* The same for two extents of which neither has to be a number. */
bool dim_is_product(Func *func, Dim whole, Dim outer, Dim inner);
/* The same with pitched rows: each begins at a multiple of `multiple` elements. */
Value *func_pitched_scratch(Func *func, Type type, int64_t multiple);
const Layout *func_intern_layout(Func *func, const Layout *layout);
/* Forgets all interned layouts, when a body without layouts replaces one that has some. */
void func_drop_layouts(Func *func);

/* ---- reading ops ---- */

/* Counts a visit of an op. Compile time is about proportional to these counts, so a test of how it
 * grows with the program compares them instead of times (--count-work). */
static inline void op_visited(const Op *op)
{
    if (op->parent) {
        op->parent->func->visited++;
    }
}

/* NULL when the op has no such attribute. */
const Attr *op_attr(const Op *op, AttrKey key);
int64_t op_int(const Op *op, AttrKey key, int64_t otherwise);
const char *op_word(const Op *op, AttrKey key); /* NULL when absent */
/* True if the access checks its index along the axis of memory. */
bool op_is_guarded(const Op *op, int axis);
/* True if attribute `guard` says that no index of the gather leaves its memory. */
bool gather_stays_inside(const Op *gather);
/* True if elements outside of the tensor read zero. */
bool gather_reads_zeros(const Op *gather);
/* True for a permute that moves at least one axis. */
bool op_permutes_axes(const Op *op);
/* The value that a load or gather reads, or that a store, scatter or copy writes. */
Value *op_moved_value(const Op *op);
/* True if the value is one of the op's own operands (op_reads includes its regions). */
bool op_has_operand(const Op *op, const Value *value);
/* The op that defines the value, if it is of that kind; else NULL. */
const Op *value_def_of_kind(const Value *value, OpKind kind);
/* The number of a constant, its attribute `value`; NULL: the value is no constant. */
const Attr *value_const(const Value *value);
/* True if the value is a constant with this number, integer or float; -0 is 0. */
bool value_is_const(const Value *value, double number);
/* The value before broadcasts and expands gave it further axes or elements. */
const Value *value_unstretched(const Value *value);

/* The memory operand at `at` with its indices, or a plain operand. Use it to iterate over operands:
 *     for (int at = 0; at < op->n_operands; at = access_next(op, at)) … */
typedef struct Access {
    Value *memory;         /* or the plain operand */
    Value *const *indices; /* into op->operands; NULL entries: whole axis */
    int n;                 /* indices; 0 for a plain operand */
    int at;                /* operand number of `memory` */
} Access;
Access op_access(const Op *op, int at);
int access_next(const Op *op, int at);
/* True if the op, a load or a store, accesses all of its memory. */
bool op_accesses_whole(const Op *op);
/* A scatter's operands after its access; `compare` and `mask` may be NULL (compare: only cas). */
typedef struct ScatterParts {
    Value *value, *compare, *mask;
} ScatterParts;
ScatterParts scatter_parts(const Op *op);
/* The n-th operand counted with memory operands and their indices as one. */
Access op_access_nth(const Op *op, int nth);

/* The innermost op of that kind whose regions hold the op; NULL: none. */
Op *op_enclosing(const Op *op, OpKind kind);
/* The op of `block` that is `op` or whose regions hold it; NULL: `op` is not below the block. */
Op *op_ancestor_in(const Op *op, const Block *block);
/* True if `block` is `outer`, or below it. */
bool block_is_within(const Block *block, const Block *outer);
/* The block that defines the value, as result or argument; NULL: it is a parameter. */
Block *value_block(const Value *value);
/* True if a region of `op`, or one below it, defines the value. */
bool value_is_inside(const Value *value, const Op *op);

/* True for reduce, dot, dot_async, fold and scan: the op combines elements along an axis. */
bool op_reduces(const Op *op);
/* The operands' extent along that axis; NULL: the op is malformed. */
Dim op_reduced_extent(const Op *op);
/* True if attribute `over` equals the capacity of the operands' axis: one tile is all of it. */
bool op_runs_over_tile(const Op *op);
/* The extents of the axes that an access keeps; returns their number. */
int access_dims(const Access *access, Dim *dims);

/* True if two pure ops compute the same: equal kinds, operands, attributes and result types, and
 * regions that differ only in the names of what they bind. */
bool op_is_same(const Op *a, const Op *b);
/* Equal but for operands and regions: kind, attributes, types of results. */
bool op_is_alike(const Op *a, const Op *b);

enum { MAX_TABLES = 2 }; /* operands of one rank op */

/* DOT, DOT_ASYNC: the accumulator operand, or NULL. */
Value *dot_accumulator(const Op *dot);

/* FOLD: the number n of its arrays, which are followed by n identity elements. */
static inline int fold_count(const Op *op)
{
    return op->n_results;
}
/* The elements that a launch or tile_loop visits along an axis: from axis_begin to axis_end. */
static inline int64_t axis_begin(const Op *op, int axis)
{
    const Attr *from = op_attr(op, ATTR_AXIS_BEGIN);
    return from && axis < from->n ? from->ints[axis] : 0;
}

static inline int64_t axis_end(const Op *op, int axis)
{
    const Attr *upto = op_attr(op, ATTR_AXIS_END);
    return upto && axis < upto->n && upto->ints[axis] > 0 ? upto->ints[axis] : INT64_MAX;
}

/* FOR: operands lo, hi, then the initial values of what the loop carries. */
static inline Value *for_lo(const Op *op)
{
    return op->operands[0];
}
static inline Value *for_hi(const Op *op)
{
    return op->operands[1];
}
/* The first value that a tile_loop carries, an i32: the number of tiles that the block has done.
 * NULL: the loop carries none. */
static inline Value *tile_loop_ring_index(const Op *tiles)
{
    int axes = tiles && op_attr(tiles, ATTR_DIMS) ? op_attr(tiles, ATTR_DIMS)->n : 0;
    return tiles && tiles->regions[0]->n_args > axes ? tiles->regions[0]->args[axes] : NULL;
}

static inline int for_carried(const Op *op)
{
    return op->n_operands - 2;
}

/* True if the block has only scalar arithmetic and control flow: no memory, no arrays. */
bool block_is_scalar(const Block *block);

#endif

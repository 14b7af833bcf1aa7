/* SPDX-License-Identifier: Apache-2.0 */
/* Type checking and lowering in one traversal of the AST. Generics and constants are bound and
 * functions are inlined first, so every expression has exactly one type when it is lowered. The
 * result of an expression is a Val. A poison Val stands for an expression whose error has been
 * reported; what is computed from it is poison, too, and reports nothing more. */
#ifndef TESSERA_FRONTEND_LOWER_LOWER_H
#define TESSERA_FRONTEND_LOWER_LOWER_H

#include "frontend/index_affine.h"
#include "frontend/messages/frontend_errors.h"
#include "frontend/syntax/ast.h"
#include "ir/build.h"
#include "ir/interp/interp.h"

typedef enum ValKind {
    VAL_POISON,
    VAL_ARRAY,  /* value: computed elements */
    VAL_TENSOR, /* value: a parameter; every use loads it */
    VAL_CONST,  /* scalar, dtype: known now */
    VAL_DIM,    /* dim: an i64 made of sizes */
    VAL_RANGE,  /* value, dim: a loop variable that is a part of an axis */
    VAL_PART,   /* dim, lo, hi: N[lo: hi], to be walked; NULL: from the start, to the end */
    VAL_DTYPE,  /* dtype */
    VAL_TYPE,   /* type: f32[i, 1] */
    VAL_TUPLE,  /* items */
} ValKind;

/* A set of lanes: bit n is l->lanes[n]. A lane is an index variable of `y[i] = …`, `let t[i in N]`,
 * `sum(i in N)` or a scalar `parallel`. An array that depends on lanes has an axis for each of
 * them, in order, before its own axes. Only its own axes are its shape in the source. */
typedef uint32_t Lanes;

typedef struct Val {
    ValKind kind;
    DType dtype;
    bool literal;   /* CONST: takes the other operand's type */
    bool is_result; /* TENSOR: written */
    float f32;      /* CONST literals: rounded once from the text */
    Scalar scalar;  /* CONST */
    bool is_inout;  /* TENSOR: written, and read too */
    Value *value, *lo, *hi;
    Dim from, to;       /* PART: its ends, where they are made of sizes; NULL: others, or none */
    bool is_local;      /* TENSOR: a result of the function that is inlined */
    Value *known_value; /* TENSOR that is inout or local: the elements it was given last, as a whole
                      * … */
    Lanes held_lanes;   /* … and their lanes, of a local one */
    Dim dim;
    Type type;
    Lanes lanes;          /* ARRAY: its leading axes */
    const Affine *affine; /* ARRAY of integers: what is known of it, or NULL */
    struct Val *items;    /* TUPLE */
    int n_items;
} Val;

typedef struct Shape {
    int rank;
    Dim dims[MAX_RANK];
    Lanes lanes;
} Shape;

enum { MAX_LANES = 32 };

/* The reductions of the IR along one axis. */
typedef enum Reducer { REDUCER_NONE, REDUCER_SUM, REDUCER_PROD, REDUCER_MAX, REDUCER_MIN } Reducer;

typedef enum Builtin {
#define BUILTIN(id, name, lower, reducer) BUILTIN_##id,
#include "frontend/lower/builtins.def"
#undef BUILTIN
    N_BUILTINS
} Builtin;

typedef struct Lane {
    const char *name;
    Span span;
    Dim extent;
    const IndexVar *var;
    Val index; /* the variable as a value */
} Lane;

typedef struct Symbol {
    const char *name;
    Val val;
    Span span;
    bool is_var;
    bool declared;         /* var with a type: narrows what is assigned */
    int parallel;          /* how many `parallel` with ranges it is inside of */
    int lanes;             /* how many lanes were open */
    const void *stored_of; /* what was put into memory for a `parallel` with ranges … */
    Value **stored;        /* … and where; NULL: it was not */
    struct Symbol *older;
} Symbol;

typedef struct CallFrame {
    const FnDecl *fn;
    const Module *module; /* whose names the body sees */
    Span span;            /* of the call */
    struct CallFrame *up;
    int lanes, parallel; /* around the call */
    Symbol *symbols;     /* of the caller */
} CallFrame;

/* Flags of a loop that can be left: variables of type bool, of no name in the program. */
typedef struct LoopExitFlags {
    Symbol *active; /* does it go on? NULL: it has no `break` */
    Symbol *here;   /* does this iteration? NULL: it has no `continue` either */
} LoopExitFlags;

/* Memory that has been stored to, by number of the parameter; what is past the end has not. */
typedef struct WrittenSet {
    bool *items;
    size_t n;
} WrittenSet;

typedef struct Lower {
    Module *module;
    const KernelDecl *kernel;
    Arena *arena;
    Diags *diags;
    Func *func;
    Builder b;
    Symbol *symbols; /* newest first; a block restores the head at its end */
    CallFrame *calls;
    int depth, steps; /* of recursion; in total */
    bool stopped;     /* a limit was hit */
    int parallel;     /* inside of one? */
    Block *parallel_block;
    const IndexVar *parallel_vars[MAX_RANK]; /* of its arguments */
    LoopExitFlags leaving;                   /* of the loop around */
    const Op *lane_loop; /* the outermost loop around whose elements end by themselves */
    Lanes loop_lanes;    /* that the innermost such loop carries */
    int branches;        /* of conditions that are not known when compiling, around this place */
    Val mask;            /* ARRAY of bool: where stores happen; else everywhere */
    Lane lanes[MAX_LANES];
    const Expr *target; /* `y[…]` of the statement at work; NULL: none */
    int n_lanes;
    uint32_t n_index_vars;
    int n_sayings;  /* of print and assert, so far */
    bool unchecked; /* the program promises that indices are inside */
    int loops;      /* `for` around this place, inside the function */
    bool nested;    /* the call of this function stands in a loop, branch, `parallel` or lanes */
    bool returned;  /* a return was met in this block */
    Val result;     /* of the function that is inlined */
    WrittenSet written;
    size_t n_params; /* that the kernel declares: intermediates come behind them */
} Lower;

/* ---- errors: placed in the user's text, with the call that led there ---- */
Diag *lower_error(Lower *l, ErrorCode code, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Edits that do what the help says; none inside of the standard library. lower_fix_near: "did you
 * mean", when there is a nearest name. */
void lower_fix(Lower *l, Diag *diag, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void lower_fix_around(Lower *l, Diag *diag, Span span, const char *before, const char *after);
void lower_fix_assume(Lower *l, Diag *diag, const char *rule);
bool lower_fix_near(Lower *l, Diag *diag, Span span, const Nearest *nearest);
/* E0403 of a call that is written otherwise: what it was passed; the help says what is wanted. */
Diag *lower_wrong_call(Lower *l, const Expr *call);
Diag *lower_unsupported(Lower *l, Span span, const char *what);
Val poison_val(void);
bool is_poison(const Val *val);

/* Says that a value is no condition, and how it becomes one (lower_control.c). */
void not_a_condition(Lower *l, const Expr *expr, const Val *val);

/* ---- names (lower_names.c) ---- */
Symbol *find_symbol(const Lower *l, const char *name);
Symbol *define(Lower *l, const char *name, Span span, Val val);
Val lower_name(Lower *l, const Expr *expr);
/* Did the user mean another name that there is? Helps, and true, when so. */
bool lower_near(Lower *l, Diag *diag, const Expr *expr);
/* A type by name: built in or bound. */
bool named_dtype(const Lower *l, const char *name, DType *out);
void unknown_function(Lower *l, const Expr *callee, const char *name);
FnDecl *find_fn(const Lower *l, const char *name, const Module **home);

/* ---- memory (lower_materialize.c) ---- */
bool *written_flag(Lower *l, const Value *tensor);
WrittenSet written_copy(Lower *l);
/* Also what has been written there. */
void written_either(Lower *l, const WrittenSet *other);
/* What a `parallel` with ranges sees of a name from outside: its arrays are put into memory before
 * it, of which every block reads its part. */
Val val_outside(Lower *l, Symbol *symbol);

/* ---- types and shapes in words (lower_shape.c) ---- */
const char *dim_text(Lower *l, Dim dim);
const char *shape_text(Lower *l, DType dtype, const Shape *shape);
const char *type_text(Lower *l, Type type);
const char *val_text(Lower *l, const Val *val); /* how it is called in messages */
Shape shape_of(const Val *val);
DType dtype_of(const Val *val);
Shape type_shape(Type type);
bool shape_equal(const Shape *a, const Shape *b); /* but for the lanes */
bool broadcast_shapes(Lower *l, Span span, const Expr *a, const Val *va, const Expr *b,
                      const Val *vb, const Shape *sa, const Shape *sb, Shape *out);
Dim lower_dim(Lower *l, const Expr *expr); /* NULL after an error */
Type lower_type(Lower *l, const Expr *type);

/* ---- values (lower_value.c) ---- */
Val array_val(Value *value); /* without lanes */
Val lanes_val(Value *value, Lanes lanes);
Val shaped_val(Value *value, const Shape *shape);
Val dim_val(Dim dim);                  /* CONST or DIM */
Dim val_dim(Lower *l, const Val *val); /* of those; NULL: it is none of integers */
Val int_val(int64_t value, bool literal);
Val float_val(double value);
Val bool_val(bool value);
/* The expression as something with elements: tensors are loaded, ranges and types refused. */
Val lower_operand(Lower *l, const Expr *expr);
Val lower_any(Lower *l, const Expr *expr);   /* or a tuple of such */
Val read_result(Lower *l, const Expr *expr); /* an error */
Val as_operand(Lower *l, const Expr *expr, Val val);
/* The type in which f16 and bf16 compute. */
DType compute_dtype(DType dtype);
/* IR of this element type and shape. Conversions have been checked. */
Value *materialize(Lower *l, const Val *val, DType dtype, const Shape *shape);
Value *as_value(Lower *l, const Val *val); /* in its own type and shape */
Val convert_const(const Val *val, DType dtype);
/* May a value of this kind become `dtype` without a cast? check_fits reports when not. `narrow`:
 * floats may round (results, variables that were declared). */
bool dtype_converts(DType from, DType to, bool literal, bool narrow);
bool check_fits(Lower *l, ErrorCode code, Span span, const Val *val, DType dtype, bool narrow);
bool const_int(Lower *l, const Expr *expr, int64_t *out);
Value *as_index(Lower *l, const Val *val); /* i64 scalar */
bool is_scalar_int(const Val *val);

/* ---- lanes (lower_lanes.c) ---- */
int lane_count(Lanes lanes);
/* The set of lanes from n on. */
Lanes lanes_from(const Lower *l, int n);
const IndexVar *index_var(Lower *l, Dim least, Dim most);
/* The size that must be `least` or more so that dim is not negative: of `size - 3`, and of
 * `(size + 1) // 5 - 3`. NULL where dim is something else. */
const DimVar *single_size(Dim dim, int64_t *least);
/* The extent that `i in N` or `i in a..b` walks, and its first index; false after an error. */
bool axis_extent(Lower *l, const Axis *axis, Dim *first, Dim *extent);
/* Reports an extent that is a negative constant, or one that may be negative. */
void negative_extent(Lower *l, Span span, int64_t elements);
void may_be_negative(Lower *l, Span span, Dim extent);
/* Opens a lane for each axis and defines its name; false after an error. What was opened is closed
 * by close_lanes also then. */
bool open_axes(Lower *l, const AxisList *axes);
/* NULL when there are too many. */
Lane *open_lane(Lower *l, const char *name, Span span, Dim extent, Dim first);
void close_lanes(Lower *l, int n);
/* All axes of a value with these lanes and this shape; false and an error when they are too
 * many. */
bool full_shape(Lower *l, Span span, const Shape *shape, Shape *out);
/* The value with all of `lanes` (more than it has), of extent 1 where they are new. */
Value *add_lanes(Lower *l, const Val *val, Lanes lanes);
Val lower_prefix(Lower *l, const Expr *expr);
/* An error: inside of a loop whose elements end by themselves nothing mixes elements. */
void mixes_lanes(Lower *l, Span span, const char *name);
/* The type in which elements of this one are reduced. */
DType reduced_dtype(DType dtype, Reducer reducer);

/* ---- built-in functions (lower_builtin.c, builtins.def) ---- */
typedef Val BuiltinFn(Lower *l, const Expr *expr, Builtin builtin);
/* False if no built-in function has this name. */
bool builtin_find(const char *name, Builtin *builtin);
const char *builtin_name(Builtin builtin);
/* The reduction that the function computes along an axis, or REDUCER_NONE. */
Reducer builtin_reducer(Builtin builtin);
/* As build_reduce takes it. */
const char *reducer_name(Reducer reducer);
Val lower_builtin(Lower *l, const Expr *expr, Builtin builtin);
#define BUILTIN(id, name, lower, reducer) BuiltinFn lower;
#include "frontend/lower/builtins.def"
#undef BUILTIN

/* ---- expressions ---- */
Val lower_expr(Lower *l, const Expr *expr);
Val lower_binary(Lower *l, const Expr *expr);
Val lower_unary(Lower *l, const Expr *expr);
Val lower_select(Lower *l, const Expr *expr, const Expr *const parts[3]);
/* The same of values: condition, where it holds, where it does not. */
Val select_vals(Lower *l, const Expr *expr, const Expr *const parts[3], const Val v[3]);
/* The type of a choice between two. */
bool select_dtype(Lower *l, const Expr *expr, const Val *a, const Val *b, DType *out);
Val lower_product(Lower *l, const Expr *expr);
/* The operator itself when there is one: its operands get labels of their own. */
Span place_of(const Expr *expr);
/* "does not apply": false. `help` may be NULL. */
bool operator_error(Lower *l, const Expr *expr, const char *what, const char *help);
/* `otherwise`: what is read outside, or NULL. */
Val lower_index(Lower *l, const Expr *expr, const Expr *otherwise);
Val lower_call(Lower *l, const Expr *expr);
/* True if the call has n arguments, all by position. */
bool positional(const Expr *expr, size_t n);
/* Reports E0403 with this help; poison. */
Val wrong_arguments(Lower *l, const Expr *expr, const char *usage);
/* `atomic.add(…)` as a statement. */
void lower_effect(Lower *l, const Expr *expr);
/* The index of the greatest or least element on one axis of all (lanes counted): of the indices
 * given, -1 where an element does not count. The axis stays, with extent 1. */
Value *arg_extreme(Lower *l, Reducer reducer, Value *values, Value *indices, int axis);
bool is_atomic(const char *name);
/* print(…) and assert(…). */
void lower_print(Lower *l, const Expr *expr, MessageKind kind);
/* `old`: the elements before are a value. */
Val lower_atomic(Lower *l, const Expr *expr, const char *name, bool old);
Val inline_fn(Lower *l, const Expr *expr, FnDecl *fn, const Module *home);
bool arith_dtype(Lower *l, const Expr *expr, const Val *a, const Val *b, DType *out);
/* What is known of an integer; NULL: nothing. */
const Affine *affine_of(Lower *l, const Val *val);
Val apply_binary(Lower *l, const Expr *expr, OpKind kind, const char *pred, const Val *a,
                 const Val *b, const Expr *ea, const Expr *eb);
/* `memory[indices] = value` and `memory = value`, memory a result. */
void lower_store(Lower *l, const Stmt *stmt);
void store_whole(Lower *l, Span span, Value *tensor, Val value);
/* The value in this type, or poison. */
Val fit_to_type(Lower *l, Span span, Val value, Type type, bool narrow);
/* A part of an inout tensor is written: from now on it is read from memory. */
void invalidate_known_value(Lower *l, const Value *tensor);

/* ---- statements ---- */
void lower_block(Lower *l, const StmtList *list);
void lower_loop(Lower *l, const Stmt *stmt);
void lower_if(Lower *l, const Stmt *stmt);
void lower_while(Lower *l, const Stmt *stmt);
void lower_leave(Lower *l, const Stmt *stmt);
void lower_parallel(Lower *l, const Stmt *stmt);

/* ---- the kernel ---- */
void lower_assume(Lower *l, const Stmt *stmt);
/* The kernel's rules and assumptions about sizes that are known by now. */
void assume_all_early(Lower *l);
bool bind_all(Lower *l, const Binding *bindings, size_t n);
/* A size that `where` defines; a quotient that is new is called `name`. */
Val defined_size(Lower *l, const SizeDef *def, const char *name);

#endif

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
    VAL_RANGE,  /* value, dim: a loop variable that is a slice of an axis */
    VAL_PART,   /* dim, lo, hi: N[lo: hi] as the extent of a loop; NULL: start, end of the axis */
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
    Dim from, to;       /* PART: its ends if they are size expressions, else NULL */
    bool is_local;      /* TENSOR: a result of the inlined function */
    Value *known_value; /* TENSOR, inout or local: the value stored last as a whole, or NULL */
    Lanes known_lanes;  /* its lanes, of a local tensor */
    Dim dim;
    Type type;
    Lanes lanes;          /* ARRAY: its leading axes */
    const Affine *affine; /* ARRAY of integers: its affine form, or NULL */
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
    int parallel;          /* number of `parallel` with ranges around it */
    int lanes;             /* number of lanes open at its definition */
    const void *stored_of; /* the value that was stored for a `parallel` with ranges, */
    Value **stored;        /* and the intermediate that holds it; NULL: none */
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

/* Flags of a loop with `break` or `continue`: variables of type bool without a name in the program.
 * */
typedef struct LoopExitFlags {
    Symbol *active; /* true while no `break` was executed; NULL: the loop has none */
    Symbol *here;   /* true for the rest of this iteration; NULL: it has no `continue` either */
} LoopExitFlags;

/* The parameters that have been stored to, by index; those past the end have not. */
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
    int parallel;     /* number of `parallel` with ranges around this statement */
    Block *parallel_block;
    const Symbol *inner_symbols; /* before the innermost `parallel` in a `parallel`; NULL: none */
    int n_parallel; /* number of variables of all `parallel` with ranges around this statement */
    struct {
        const IndexVar *var;
        const Value *arg;
    } parallel_vars[MAX_RANK];
    LoopExitFlags leaving; /* of the innermost loop */
    const Op *lane_loop;   /* the outermost loop that ends element by element, or NULL */
    Lanes loop_lanes;      /* that the innermost such loop carries */
    int branches;          /* number of enclosing conditions that are not known when compiling */
    Val mask;              /* ARRAY of bool: elements that are stored; otherwise all are */
    Lane lanes[MAX_LANES];
    const Expr *target; /* `y[…]` of the current statement, or NULL */
    int n_lanes;
    uint32_t n_index_vars;
    int n_messages; /* of print and assert, so far */
    bool unchecked; /* inside `unchecked`: the program guarantees that indices are in bounds */
    int loops;      /* number of enclosing `for` inside the function */
    bool nested;    /* the function is called inside a loop, branch, `parallel` or lane */
    bool returned;  /* this block has executed a return */
    Val result;     /* of the function that is inlined */
    struct {
        const struct DeriveCall **items;
        size_t n, cap;
    } derivable; /* calls of functions with a declared derivative (lower_derived.c) */
    WrittenSet written;
    size_t n_params; /* number of declared parameters; intermediates follow them */
} Lower;

/* ---- errors: located in the user's text, with the chain of calls ---- */
Diag *lower_error(Lower *l, ErrorCode code, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Attach edits that carry out the help; none inside the standard library. lower_fix_similar adds
 * "did you mean" if there is a nearest name. */
void lower_fix(Lower *l, Diag *diag, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void lower_fix_around(Lower *l, Diag *diag, Span span, const char *before, const char *after);
void lower_fix_assume(Lower *l, Diag *diag, const char *rule);
bool lower_fix_similar(Lower *l, Diag *diag, Span span, const Nearest *nearest);
/* Reports E0403 with the arguments of the call; the caller adds how it is written. */
Diag *lower_wrong_call(Lower *l, const Expr *call);
Diag *lower_unsupported(Lower *l, Span span, const char *what);
Val poison_val(void);
bool is_poison(const Val *val);

/* Reports a value that is not a condition, and how it becomes one (lower_control.c). */
void not_a_condition(Lower *l, const Expr *expr, const Val *val);

/* ---- names (lower_names.c) ---- */
Symbol *find_symbol(const Lower *l, const char *name);
Symbol *define(Lower *l, const char *name, Span span, Val val);
Val lower_name(Lower *l, const Expr *expr);
/* Adds "did you mean" if another name is near; returns whether there is one. */
bool lower_suggest_similar(Lower *l, Diag *diag, const Expr *expr);
/* A type by name: built in or bound. */
bool named_dtype(const Lower *l, const char *name, DType *out);
void unknown_function(Lower *l, const Expr *callee, const char *name);
FnDecl *find_fn(const Lower *l, const char *name, const Module **home);

/* ---- types for editors (lower_observe.c): do nothing if nothing observes the module ---- */
void observe_definition(Lower *l, const char *name, Span span, const Val *val);
void observe_expression(Lower *l, const Expr *expr, const Val *val);

/* ---- memory (lower_materialize.c) ---- */
bool *written_flag(Lower *l, const Value *tensor);
WrittenSet written_copy(Lower *l);
/* Adds the parameters that `other` has. */
void written_either(Lower *l, const WrittenSet *other);
/* The value of an outer name inside a `parallel` with ranges. Arrays are stored in an intermediate
 * before it, of which every block loads its tile. */
Val val_outside(Lower *l, Symbol *symbol);

/* ---- types and shapes in words (lower_shape.c) ---- */
const char *dim_text(Lower *l, Dim dim);
const char *shape_text(Lower *l, DType dtype, const Shape *shape);
const char *type_text(Lower *l, Type type);
const char *val_text(Lower *l, const Val *val); /* its type for messages */
Shape shape_of(const Val *val);
DType dtype_of(const Val *val);
Shape type_shape(Type type);
bool shape_equal(const Shape *a, const Shape *b); /* ignores the lanes */
bool broadcast_shapes(Lower *l, Span span, const Expr *a, const Val *va, const Expr *b,
                      const Val *vb, const Shape *sa, const Shape *sb, Shape *out);
Dim lower_dim(Lower *l, const Expr *expr); /* NULL after an error */
Type lower_type(Lower *l, const Expr *type);

/* ---- values (lower_value.c) ---- */
Val array_val(Value *value); /* without lanes */
Val lanes_val(Value *value, Lanes lanes);
Val shaped_val(Value *value, const Shape *shape);
Val dim_val(Dim dim);                  /* CONST or DIM */
Dim val_dim(Lower *l, const Val *val); /* of a CONST or DIM of integers; else NULL */
Val int_val(int64_t value, bool literal);
Val float_val(double value);
/* What literals alone come to, by f32 arithmetic and by f64 arithmetic: a literal. */
Val literal_val(double f32, double f64);
/* Is it text of the standard library? */
bool in_library(const Lower *l, Span span);
Val bool_val(bool value);
/* Lowers an expression to a value with elements: tensors are loaded, ranges and types refused. */
Val lower_operand(Lower *l, const Expr *expr);
Val lower_any(Lower *l, const Expr *expr);   /* or a tuple of such */
Val read_result(Lower *l, const Expr *expr); /* an error */
Val as_operand(Lower *l, const Expr *expr, Val val);
/* The type in which f16 and bf16 compute. */
DType compute_dtype(DType dtype);
/* Builds the value in this element type and shape. Conversions have been checked. */
Value *materialize(Lower *l, const Val *val, DType dtype, const Shape *shape);
Value *as_value(Lower *l, const Val *val); /* in its own type and shape */
Val convert_const(const Val *val, DType dtype);
/* True if the value becomes `dtype` without a cast; check_fits reports if not. `narrow` allows
 * floats to be rounded (results, declared variables). */
bool dtype_converts(DType from, DType to, bool literal, bool narrow);
bool check_fits(Lower *l, ErrorCode code, Span span, const Val *val, DType dtype, bool narrow);
bool const_int(Lower *l, const Expr *expr, int64_t *out);
Value *as_index(Lower *l, const Val *val); /* i64 scalar */
bool is_scalar_int(const Val *val);

/* ---- lanes (lower_lanes.c) ---- */
int lane_count(Lanes lanes);
/* The set of lanes from n on. */
Lanes lanes_from(const Lower *l, int n);
IndexVar *index_var(Lower *l, Dim least, Dim most);
/* The size that must be at least *least for dim >= 0, if dim is like `size - 3` or
 * `(size + 1) // 5 - 3`; else NULL. */
const DimVar *single_size(Dim dim, int64_t *least);
/* The extent of `i in N` or `i in a..b`, and its first index; false after an error. */
bool axis_extent(Lower *l, const Axis *axis, Dim *first, Dim *extent);
/* Reports an extent that is a negative constant, or one that may be negative. */
void negative_extent(Lower *l, Span span, int64_t elements);
void may_be_negative(Lower *l, Span span, Dim extent);
/* Opens a lane for each axis and defines its name; false after an error, when close_lanes must be
 * called, too. */
bool open_axes(Lower *l, const AxisList *axes);
/* NULL if there are too many lanes. */
Lane *open_lane(Lower *l, const char *name, Span span, Dim extent, Dim first);
void close_lanes(Lower *l, int n);
/* All axes of a value with these lanes and this shape; false after an error if there are too
 * many. */
bool full_shape(Lower *l, Span span, const Shape *shape, Shape *out);
/* Expands the value to `lanes`, a superset of its own; new lanes have extent 1. */
Value *add_lanes(Lower *l, const Val *val, Lanes lanes);
Val lower_prefix(Lower *l, const Expr *expr);
/* Reports an op across elements inside a loop that ends element by element. */
void mixes_lanes(Lower *l, Span span, const char *name);
/* The type in which elements of this type are reduced. */
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
/* Selects by values: the condition, the value where it holds, the value where it does not. */
Val select_vals(Lower *l, const Expr *expr, const Expr *const parts[3], const Val v[3]);
/* The type of a choice between two. */
bool select_dtype(Lower *l, const Expr *expr, const Val *a, const Val *b, DType *out);
Val lower_product(Lower *l, const Expr *expr);
/* The span of the operator of a binary expression, whose operands have labels of their own. */
Span place_of(const Expr *expr);
/* Reports `what` ("… does not apply to …") with an optional help; false. */
bool operator_error(Lower *l, const Expr *expr, const char *what, const char *help);
/* `otherwise` is the default value outside the bounds, or NULL. */
Val lower_index(Lower *l, const Expr *expr, const Expr *otherwise);
Val lower_call(Lower *l, const Expr *expr);
/* True if the call has n arguments, all by position. */
bool positional(const Expr *expr, size_t n);
/* Reports E0403 with this help; poison. */
Val wrong_arguments(Lower *l, const Expr *expr, const char *usage);
/* `atomic.add(…)` as a statement. */
void lower_effect(Lower *l, const Expr *expr);
/* The index of the maximum or minimum along one axis (counted with the lanes), from `indices`,
 * which are -1 for elements that do not take part. The axis stays, with extent 1. */
Value *arg_extreme(Lower *l, Reducer reducer, Value *values, Value *indices, int axis);
bool is_atomic(const char *name);
/* print(…) and assert(…). */
void lower_print(Lower *l, const Expr *expr, MessageKind kind);
/* `old`: returns the elements before the atomic. */
Val lower_atomic(Lower *l, const Expr *expr, const char *name, bool old);
Val inline_fn(Lower *l, const Expr *expr, FnDecl *fn, const Module *home);
/* The same of values that are there: the call's arguments only count and say where they stand. */
Val inline_vals(Lower *l, const Expr *expr, FnDecl *fn, const Module *home, const Val *given);
/* ---- derivatives (lower_derived.c) ---- */
/* Notes the call if a derivative of the function is declared. `first`: the id of the first value
 * that it made. */
void note_derivable(Lower *l, const FnDecl *fn, const Module *home, const Val *vals,
                    const Val *result, uint32_t first);
/* The elements of the array or tensor in another shape of as many (lower_views.c). */
Val reshaped(Lower *l, const Val *val, const Shape *shape);
void note_reshape(Lower *l, const Val *from, const Val *result, uint32_t first);
/* Noted calls of the value are of another one from now on. */
void replace_noted(Lower *l, const Value *old, Value *by);
/* `grad(f)(x)`: is the callee `grad(f)`? */
bool is_derived_call(const Lower *l, const Expr *callee);
Val lower_derived_call(Lower *l, const Expr *expr);
/* Makes the kernel, whose body is that of what it is the derivative of, the derivative. */
bool lower_derived(Lower *l, const KernelDecl *kernel);
bool arith_dtype(Lower *l, const Expr *expr, const Val *a, const Val *b, DType *out);
/* The affine form of an integer, or NULL. */
const Affine *affine_of(Lower *l, const Val *val);
Val apply_binary(Lower *l, const Expr *expr, OpKind kind, const char *pred, const Val *a,
                 const Val *b, const Expr *ea, const Expr *eb);
/* `memory[indices] = value` and `memory = value`, memory a result. */
void lower_store(Lower *l, const Stmt *stmt);
void store_whole(Lower *l, Span span, Value *tensor, Val value);
/* The value in this type, or poison. */
Val fit_to_type(Lower *l, Span span, Val value, Type type, bool narrow);
/* After a partial write of an inout tensor, it is read from memory. */
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
/* Records the kernel's rules and assumptions about sizes that are bound already. */
void assume_all_early(Lower *l);
bool bind_all(Lower *l, const Binding *bindings, size_t n);
/* A size that `where` defines; a new quotient is named `name`. */
Val defined_size(Lower *l, const SizeDef *def, const char *name);
/* Records that the sizes which `where` of the kernel defines are at least 0, as far as nothing
 * else says so; true if a fact was recorded. */
bool assume_defined_sizes(Lower *l);

#endif

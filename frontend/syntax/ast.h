/* SPDX-License-Identifier: Apache-2.0 */
/* The AST. Nodes are in the arena and never change after parsing; the bodies of the standard
 * library's functions are parsed at their first call (fn_complete). */
#ifndef TESSERA_FRONTEND_SYNTAX_AST_H
#define TESSERA_FRONTEND_SYNTAX_AST_H

#include "frontend/frontend.h"
#include "frontend/syntax/lexer.h"
#include "frontend/syntax/type_class.h"

typedef struct Expr Expr;
typedef struct Stmt Stmt;

typedef struct Axis Axis;
typedef struct AxisList {
    Axis *items;
    size_t n, cap;
} AxisList;
typedef struct ExprList {
    Expr **items;
    size_t n, cap;
} ExprList;
typedef struct StmtList {
    Stmt **items;
    size_t n, cap;
} StmtList;

typedef enum ExprKind {
    EXPR_POISON, /* an error has been reported */
    EXPR_NAME,   /* name; op is ELLIPSIS where it is the first axis of a `...` */
    EXPR_INT,    /* integer, number */
    EXPR_FLOAT,  /* number */
    EXPR_BOOL,   /* integer */
    EXPR_TEXT,   /* name: of print and assert */
    EXPR_NONE,   /* None: a new axis, as an index */
    EXPR_UNARY,  /* op a */
    EXPR_BINARY, /* a op b */
    EXPR_IF,     /* a if b else c */
    EXPR_FIELD,  /* a.name */
    EXPR_CALL,   /* a(args) */
    EXPR_NAMED,  /* name=a: an argument */
    EXPR_INDEX,  /* a[args] */
    EXPR_SLICE,  /* a:b:c, each may be NULL */
    EXPR_LIST,   /* [args] */
    EXPR_TUPLE,  /* (args) */
    EXPR_ELSE,   /* (a else b), a an INDEX */
    EXPR_REDUCE, /* name(axes if b) a; the axes' extents are also in args */
} ExprKind;

struct Expr {
    ExprKind kind;
    TokenKind op;
    int height;         /* of the tree, to bound recursion */
    Span span, op_span; /* BINARY: of the operator */
    const char *name;
    int64_t integer;
    double number;
    float number32;
    Expr *a, *b, *c;
    ExprList args;
    const AxisList *axes;
};

typedef enum StmtKind {
    STMT_LET, /* let name: type = value; let name[axes] = value; let (names) = value */
    STMT_VAR,
    STMT_ASSIGN, /* target = value */
    STMT_EXPR,   /* value, for its effect */
    STMT_RETURN, /* values */
    STMT_IF,     /* value, body, otherwise */
    STMT_FOR,    /* axes[0], body */
    STMT_WHILE,  /* value, body */
    STMT_BREAK,
    STMT_CONTINUE,
    STMT_UNCHECKED, /* body */
    STMT_PARALLEL,  /* axes, body */
    STMT_ASSUME,    /* target (a name), and values (in …) or value (a condition) */
} StmtKind;

typedef enum ByKind { BY_NONE, BY_AUTO, BY_DEFAULT, BY_EXACTLY } ByKind;

/* `name in extent by step`, `name in extent..to`. */
struct Axis {
    const char *name;
    Span span; /* of the name */
    Expr *extent, *to, *step;
    ByKind by;
};

struct Stmt {
    StmtKind kind;
    Span span; /* of the head */
    const char *name;
    Span name_span;
    Expr *type, *target, *value;
    ExprList values, names; /* names: of a tuple that is unpacked */
    AxisList axes;
    StmtList body, otherwise;
};

typedef struct ParamDecl {
    const char *name;
    Span span;
    Expr *type; /* NULL: any (functions only) */
    Expr *fallback;
    bool is_const, is_inout;
} ParamDecl;
typedef struct ParamList {
    ParamDecl *items;
    size_t n, cap;
} ParamList;

typedef struct GenericDecl {
    const char *name; /* T: float */
    TypeClass type_class;
    Span span;
} GenericDecl;

typedef struct SizeDef { /* where P = H // 2 + 1 */
    const char *name;
    Span span;
    Expr *value;
} SizeDef;

/* where T: float, P = N // 2, K % 16 == 0 */
typedef struct Where {
    struct {
        GenericDecl *items;
        size_t n, cap;
    } generics;
    struct {
        SizeDef *items;
        size_t n, cap;
    } defs;
    ExprList rules; /* conditions on sizes */
} Where;

typedef struct FnDecl {
    const char *name; /* may hold a dot: fast.exp; "derivative of exp" of a declared derivative */
    const char *derivative_of; /* exp; NULL: it is a function */
    Span span, head, full_span; /* of the name; from it to the body; of all */
    ParamList params;
    ParamList results; /* those that the body writes by name */
    Where where;
    Expr *result_type; /* of what is returned; may be NULL */
    Expr *value;       /* `= value`, or */
    StmtList body;
    bool broken; /* its body has errors of syntax: statements are missing */
    bool waits;  /* neither has been parsed yet: they begin at `rest` of the source */
    Span rest;
} FnDecl;

typedef struct AssumeSet { /* assume D in 64, 80 */
    const char *size;
    int64_t *values;
    size_t n;
} AssumeSet;

typedef enum DerivativeKind {
    DERIVATIVE_NONE,
    DERIVATIVE_VJP,
    DERIVATIVE_GRAD,
    DERIVATIVE_JVP,
} DerivativeKind;

typedef struct KernelDecl {
    const char *name;
    const char *symbol; /* in its code, where the name is vjp(f); NULL: the name */
    Span span, head, full_span; /* of the name; from it to the body; of all */
    Expr *derivative;        /* `kernel b = vjp(f)`: the rest follows from f; NULL: it is written */
    DerivativeKind kind;     /* of it */
    struct KernelDecl *of;   /* f */
    bool completing;         /* f is asked what follows from it */
    bool *by;                /* the parameters of f that it is differentiated by */
    ParamList params, results;
    bool any_rank; /* `...` is in their types */
    bool broken;   /* its body has errors of syntax: statements are missing */
    Where where;
    Expr *value;
    Span value_span;
    StmtList body;
    KernelSignature signature;
    struct {
        AssumeSet *items;
        size_t n, cap;
    } sets;
} KernelDecl;

/* Statements that write a kernel message. */
typedef enum MessageKind { MESSAGE_NONE, MESSAGE_PRINT, MESSAGE_ASSERT } MessageKind;
/* MESSAGE_NONE if a call of this name is no such statement. */
MessageKind message_kind(const char *name);

/* One item of a line: `tile M 128` is {tile, M, 128}. */
typedef struct EntryDecl {
    const char *key, *sub, *symbol; /* sub "": none; symbol NULL: number */
    bool per_launch;                /* for one launch of the kernel */
    int launch;
    int64_t number;
    Span span, sub_span;
} EntryDecl;

/* `128`, `resident`, or `2..6`: a number and the last one of those after it. */
typedef struct ChoiceValue {
    const char *symbol; /* NULL: numbers */
    int64_t first, last;
    Span span;
} ChoiceValue;

/* `tile M in 64, 128`. */
typedef struct ChoiceDecl {
    EntryDecl entry; /* without its value */
    struct {
        ChoiceValue *items;
        size_t n, cap;
    } values;
} ChoiceDecl;

typedef struct ScheduleDecl {
    const Expr *when; /* NULL: always */
    bool tune;        /* what a search may try; it decides nothing here */
    const char *kernel;
    const char *name; /* it counts where it is asked for; NULL: always */
    Span span, full_span; /* of the kernel's name; of all */
    struct {
        const char **items;
        size_t n, cap;
    } targets; /* none: all */
    struct {
        EntryDecl *items;
        size_t n, cap;
    } entries;
    struct {
        ChoiceDecl *items;
        size_t n, cap;
    } choices; /* of `tune` */
} ScheduleDecl;

typedef struct ImportDecl {
    const char *path; /* as written: "norms.tile", or a module of the standard library: norms */
    bool is_file;
    Span span;
    Module *module; /* of a file */
} ImportDecl;

/* The files of one program: each is parsed once, however often it is imported. */
typedef struct ModuleSet {
    struct {
        Module **items;
        size_t n, cap;
    } modules;
    const Importer *importer;
} ModuleSet;

struct Module {
    Arena *arena;
    Diags *diags;
    int source, first_source; /* the library has several */
    const char *path;         /* below the first file's folder; NULL: the first file, the library */
    ModuleSet *set;
    bool library;           /* of the standard library: may use ir.… */
    const Module *standard; /* NULL in the standard library itself */
    struct {
        KernelDecl **items;
        size_t n, cap;
    } kernels, derived; /* derived: those that were asked for by an expression */
    struct {
        FnDecl **items;
        size_t n, cap;
    } fns;
    /* Those whose heads have errors of syntax, for editors: what is before the error is known. */
    struct {
        KernelDecl **items;
        size_t n, cap;
    } broken_kernels;
    struct {
        FnDecl **items;
        size_t n, cap;
    } broken_fns;
    const TypeObserver *observer; /* NULL: nothing asks for types */
    struct {
        ScheduleDecl **items;
        size_t n, cap;
    } schedules;
    struct {
        ImportDecl *items;
        size_t n, cap;
    } imports;
};

/* parse_*.c: fills the module; errors are in diags. */
void parse_module(Module *module);
/* The expression `vjp(f, x)` that is the whole text; NULL after an error. */
Expr *parse_derivative_text(Module *module, const char *text);
/* any_rank.c: is this the name of a kernel for this many axes? And `f[3]`, where `...` is three
 * axes; NULL: it is an error. */
bool names_rank(const char *name);
KernelDecl *find_of_rank(Module *module, const char *name);
/* What the declared derivative of a function or kernel is called. */
const char *derivative_name(Arena *arena, const char *of);
/* derived_kernel.c: fills in what follows from the kernel that is differentiated; false after an
 * error. */
bool complete_derived(Module *module, KernelDecl *kernel);
/* The kernel that an expression `vjp(f, x)` names, where none is declared; NULL after an error. */
KernelDecl *find_derived(Module *module, Expr *expr);
/* What the gradient of a parameter or result is called. */
const char *gradient_name(Arena *arena, const char *of);
/* The body of a function of the standard library, if it still waits to be parsed. */
void fn_complete(const Module *home, FnDecl *fn);
/* import_decl.c: parses what the module imports, and what that imports; errors are in diags. */
void load_imports(Module *module);
/* module.c: the kernel that the signature is of, be it asked for by an expression. */
const KernelDecl *kernel_of_signature(const Module *module, const KernelSignature *signature);
/* module.c: names that a file defines more than once. */
void check_twice(Module *module);
/* signature.c: the comment right above a declaration, without its `#`; NULL: none. */
const char *comment_above(const Diags *diags, Arena *arena, Span span);
/* What the outside sees of a kernel; checks parameters and results. */
void make_signature(Module *module, KernelDecl *kernel);
/* Does the name stand in the expression? */
bool expr_mentions(const Expr *expr, const char *name);
/* Or in the function's body? */
bool fn_mentions(const FnDecl *fn, const char *name);
/* Text of an expression as it was written, spaces normalized. */
const char *source_text(const Diags *diags, Arena *arena, Span span);

#endif

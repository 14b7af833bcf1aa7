/* SPDX-License-Identifier: Apache-2.0 */
/* The core of the IR: the table of ops, queries on ops and values, block editing, and the
 * functions of a Func that intern types, size variables and im2col views. */
#include "ir/ir.h"

#include "ir/build.h"
#include "ir/interns.h"
#include "ir/schedule.h"

#include <string.h>

/* ---- tables ---- */

enum {
    ELEMENTWISE = TRAIT_ELEMENTWISE,
    PURE = TRAIT_PURE,
    ACCESS = TRAIT_ACCESS,
    REGION = TRAIT_REGION,
    TERMINATOR = TRAIT_TERMINATOR,
    APPROX = TRAIT_APPROX,
    ASYNC = TRAIT_ASYNC,
    T = LEVEL_TENSOR,
    L = LEVEL_LOOP,
    S = LEVEL_STAGED,
    TL = T | L,
    LS = L | S,
    TLS = T | L | S,
    V = VARIES,
};

static const OpInfo op_table[OP_COUNT] = {
#define OP(id, name, operands, results, traits, levels, doc)                                       \
    {name, operands, results, traits, levels, doc},
#include "ir/ops.def"
#undef OP
};

const OpInfo *op_info(OpKind kind)
{
    return &op_table[kind];
}

bool op_has(const Op *op, OpTrait trait)
{
    op_visited(op);
    return (op_table[op->kind].traits & trait) != 0;
}

bool op_has_exact_operand(OpKind kind)
{
    return (op_info(kind)->traits & TRAIT_APPROX) && op_info(kind)->operands == 2;
}

bool op_is_approx16(OpKind kind)
{
    return kind == OP_APPROX16_TANH || kind == OP_APPROX16_SIGMOID || kind == OP_APPROX16_SILU ||
           kind == OP_APPROX16_GELU;
}

bool op_from_name(const char *name, size_t n, OpKind *out)
{
    for (int i = 0; i < OP_COUNT; i++) {
        if (strlen(op_table[i].name) == n && memcmp(op_table[i].name, name, n) == 0) {
            *out = (OpKind)i;
            return true;
        }
    }
    return false;
}

/* ---- functions ---- */

Func *func_new(Arena *arena, Diags *diags, const char *name)
{
    Func *func = ARENA_NEW(arena, Func);
    func->arena = arena;
    func->diags = diags;
    func->name = arena_strdup(arena, name);
    func->level = LEVEL_TENSOR;
    func->interns = ARENA_NEW(arena, struct FuncInterns);
    func->schedule = ARENA_NEW(arena, Schedule);
    func->body = build_block(func, NULL);
    return func;
}

static DimVar *dimvar_new(Func *func, DimKind kind, const char *name)
{
    DimVar *var = ARENA_NEW(func->arena, DimVar);
    var->kind = kind;
    var->id = (uint32_t)func->dimvars.n;
    var->name = name ? arena_strdup(func->arena, name) : NULL;
    var->multiple = 1;
    var->least = kind == DIM_STRIDE ? INT64_MIN : 0;
    var->most = INT64_MAX;
    ARENA_PUSH(func->arena, &func->dimvars, var);
    return var;
}

static DimVar *named(Func *func, DimKind kind, const char *name)
{
    for (size_t i = 0; i < func->dimvars.n; i++) {
        DimVar *var = func->dimvars.items[i];
        if (var->kind == kind && text_equal(var->name, name)) {
            return var;
        }
    }
    return dimvar_new(func, kind, name);
}

DimVar *func_size(Func *func, const char *name)
{
    return named(func, DIM_SIZE, name);
}

DimVar *func_stride(Func *func, const char *name)
{
    return named(func, DIM_STRIDE, name);
}

void func_name_dim(Func *func, Dim dim, const char *name)
{
    if (dim->n_terms > 1 && !func_dim_name(func, dim)) {
        ARENA_PUSH(func->arena, &func->named, ((NamedDim){dim, name}));
    }
}

const char *func_dim_name(const Func *func, Dim dim)
{
    for (size_t i = 0; i < func->named.n; i++) {
        if (func->named.items[i].dim == dim) {
            return func->named.items[i].name;
        }
    }
    return NULL;
}

DimVar *func_quotient(Func *func, const char *name, Dim of, int64_t by)
{
    for (size_t i = 0; i < func->dimvars.n; i++) {
        DimVar *var = func->dimvars.items[i];
        if (var->kind == DIM_SIZE && var->of == of && var->by == by) {
            return var;
        }
    }
    /* A hyphen: the text form takes it for a letter, the language does not. */
    const char *own = name ? name : arena_printf(func->arena, "quotient-%zu", func->dimvars.n);
    DimVar *var = dimvar_new(func, DIM_SIZE, own);
    var->unnamed = !name;
    var->of = of;
    var->by = by;
    return var;
}

DimVar *func_own_quotient(Func *func, const char *name, Dim of, int64_t by)
{
    size_t before = func->dimvars.n;
    DimVar *var = func_quotient(func, name, of, by);
    var->unnamed = var->unnamed || func->dimvars.n > before;
    return var;
}

/* Are the sizes known that the polynomial is made of? */
static bool is_known(Dim dim, const int64_t *sizes)
{
    for (int i = 0; i < dim->n_terms; i++) {
        for (int j = 0; j < dim->terms[i].n; j++) {
            if (sizes[dim->terms[i].vars[j]->id] < 0) {
                return false;
            }
        }
    }
    return true;
}

const DimVar *func_derive_sizes(const Func *func, int64_t *sizes)
{
    for (size_t i = 0; i < func->dimvars.n; i++) {
        const DimVar *var = func->dimvars.items[i];
        int64_t of;
        if (var->kind != DIM_SIZE || var->by == 0 || !is_known(var->of, sizes)) {
            continue;
        }
        if (!poly_eval(var->of, sizes, &of)) {
            return var;
        }
        int64_t value = of / var->by - (of % var->by < 0);
        if (value < 0 || (sizes[i] >= 0 && sizes[i] != value)) {
            return var;
        }
        sizes[i] = value;
    }
    return NULL;
}

DimVar *func_range(Func *func, const char *name, Dim whole, int64_t capacity)
{
    DimVar *var = dimvar_new(func, DIM_RANGE, name);
    var->whole = whole;
    var->capacity = capacity;
    return var;
}

/* Loops that each compute all that came before them square the code; the end is here, and not where
 * memory ends. */
enum { MAX_VALUES = 1000000 };

static Value *value_new(Func *func, Type type, const char *name)
{
    if (func->n_values >= MAX_VALUES) {
        diag_fatal(func->diags, DIAG_SOURCE,
                   "%s becomes too large: more than %d values; split it into several kernels",
                   func->name, MAX_VALUES);
    }
    Value *value = ARENA_NEW(func->arena, Value);
    value->type = type;
    value->name = name ? arena_strdup(func->arena, name) : NULL;
    value->id = func->n_values++;
    return value;
}

Type param_given(const Param *param)
{
    return param->caller_type ? param->caller_type : param->value->type;
}

int param_axis(const Param *param, int axis)
{
    return param->axis_perm ? (int)param->axis_perm[axis] : axis;
}

Value *func_param(Func *func, const char *name, Type type, ParamIo io)
{
    Param param = {
        .value = value_new(func, type, name), .io = io, .name = arena_strdup(func->arena, name)};
    param.value->index = (uint32_t)func->params.n;
    ARENA_PUSH(func->arena, &func->params, param);
    return param.value;
}

static bool has_param(const Func *func, const char *name)
{
    for (size_t i = 0; i < func->params.n; i++) {
        if (text_equal(func->params.items[i].name, name)) {
            return true;
        }
    }
    return false;
}

static Value *scratch_of(Func *func, Type type)
{
    size_t n = func->params.n;
    const char *name;
    do {
        name = arena_printf(func->arena, "scratch%zu", n++);
    } while (has_param(func, name));
    return func_param(func, name, type, PARAM_SCRATCH);
}

bool param_is_callers(const Param *param)
{
    return param->io != PARAM_SCRATCH && !param->im2col;
}

const Im2colView *func_im2col_of(const Func *func, const Value *memory)
{
    bool tensor = memory->type->kind == TYPE_TENSOR;
    return tensor ? func->params.items[memory->index].im2col : NULL;
}

const Value *func_memory_of(const Func *func, const Value *memory)
{
    const Im2colView *windows = func_im2col_of(func, memory);
    return windows ? windows->of : memory;
}

int view_places(const Param *view)
{
    int axis = 0, given = 0;
    while (given < 1 + view->im2col->n) {
        given += view->collapsed ? (int)view->collapsed[axis] : 1;
        axis++;
    }
    return given == 1 + view->im2col->n ? axis : 0;
}

Type im2col_source_type(const Func *func, const Im2colView *windows)
{
    return param_given(&func->params.items[windows->of->index]);
}

Value *func_im2col_view(Func *func, const Im2colView *windows, const Dim *places, const Dim *taps)
{
    Type of = im2col_source_type(func, windows);
    Dim dims[2 + 2 * MAX_SPATIAL];
    int rank = 0;
    size_t n = func->params.n;
    const char *name = NULL;
    dims[rank++] = of->dims[0];
    for (int i = 0; i < windows->n; i++) {
        dims[rank++] = places[i];
    }
    for (int i = 0; i < windows->n; i++) {
        if (windows->axes[i].dilation) {
            dims[rank++] = taps[i];
        }
    }
    dims[rank++] = of->dims[of->rank - 1];
    do {
        name = arena_printf(func->arena, "windows%zu", n++);
    } while (has_param(func, name));
    Value *view = func_param(func, name, type_tensor(func, of->dtype, rank, dims), PARAM_IN);
    func->params.items[view->index].im2col = arena_copy(func->arena, windows, sizeof *windows);
    return view;
}

Value *func_scratch(Func *func, Type type)
{
    return scratch_of(func, type_tensor(func, type->dtype, type->rank, type->dims));
}

static bool has_size(const Func *func, const char *name)
{
    for (size_t i = 0; i < func->dimvars.n; i++) {
        if (func->dimvars.items[i]->name && text_equal(func->dimvars.items[i]->name, name)) {
            return true;
        }
    }
    return false;
}

/* A multiple that is no less than the extent, and never 0. NULL: it overflows. */
static Dim pitch_of(Func *func, Dim extent, int64_t multiple)
{
    Dim all = poly_const(func, multiple);
    int64_t known;
    if (poly_is_const(extent, &known)) {
        return poly_const(func, (known / multiple + (known % multiple != 0 || !known)) * multiple);
    }
    size_t n = 0;
    const char *name;
    do {
        name = arena_printf(func->arena, "pitch%zu", n++);
    } while (has_size(func, name));
    Dim whole = poly_var(func, func_own_quotient(func, name, extent, multiple));
    return poly_add(func, poly_mul(func, all, whole), all);
}

Value *func_pitched_scratch(Func *func, Type type, int64_t multiple)
{
    Dim strides[MAX_RANK], next = NULL;
    for (int axis = type->rank - 1; axis >= 0; axis--) {
        bool rows = axis == type->rank - 2;
        strides[axis] = axis == type->rank - 1 ? poly_const(func, 1)
                        : rows ? pitch_of(func, type->dims[type->rank - 1], multiple)
                               : poly_mul(func, next, type->dims[axis + 1]);
        next = strides[axis];
        if (!next) {
            return func_scratch(func, type);
        }
    }
    Type tensor = type_tensor(func, type->dtype, type->rank, type->dims);
    return scratch_of(func, type_with_strides(func, tensor, strides, 0));
}

/* ---- blocks and ops: the raw making that build.c, clone.c and ir_parse.c share ---- */

Block *build_block(Func *func, Op *parent)
{
    Block *block = ARENA_NEW(func->arena, Block);
    block->func = func;
    block->parent = parent;
    return block;
}

Value *block_arg(Func *func, Block *block, Type type, const char *name)
{
    Value **args = ARENA_ARRAY(func->arena, Value *, block->n_args + 1);
    if (block->n_args) {
        memcpy(args, block->args, sizeof(Value *) * block->n_args);
    }
    Value *arg = value_new(func, type, name);
    arg->block = block;
    arg->index = block->n_args;
    args[block->n_args++] = arg;
    block->args = args;
    if (type->kind == TYPE_RANGE) {
        DimVar *var = poly_as_range(type->dims[0]);
        var->binder = arg;
    }
    return arg;
}

/* Between the numbers of two ops that follow each other, for those that are put between them. */
#define ORDER_GAP ((uint64_t)1 << 32)

static void block_insert(Block *block, Op *op, Op *before)
{
    op->parent = block;
    op->next = before;
    op->prev = before ? before->prev : block->last;
    if (op->prev) {
        op->prev->next = op;
    } else {
        block->first = op;
    }
    if (before) {
        before->prev = op;
    } else {
        block->last = op;
    }
    uint64_t least = op->prev ? op->prev->order : 0;
    uint64_t most = before ? before->order : least + 2 * ORDER_GAP;
    op->order = least + (most - least) / 2;
    block->numbered = block->numbered && op->order > least && most > least;
}

bool op_is_before(const Op *a, const Op *b)
{
    Block *block = a->parent;
    uint64_t order = 0;
    for (Op *op = block->numbered ? NULL : block->first; op; op = op->next) {
        op->order = order += ORDER_GAP;
        op_visited(op);
    }
    block->numbered = true;
    return a->order < b->order;
}

/* ---- operands and their uses ---- */

static void use_unlink(ValueUse *use)
{
    if (use->link) {
        *use->link = use->next;
        if (use->next) {
            use->next->link = use->link;
        }
        use->link = NULL;
    }
}

static void use_link(ValueUse *use, Value *value)
{
    if (value) {
        use->next = value->uses;
        use->link = &value->uses;
        if (use->next) {
            use->next->link = &use->next;
        }
        value->uses = use;
    }
}

static void unlink_operands(Op *op)
{
    for (int i = 0; i < op->n_operands; i++) {
        use_unlink(&op->uses[i]);
    }
}

/* Of an op that leaves the function, and of what its regions hold; not of a region that another op
 * has been given. */
static void unlink_all(Op *op)
{
    unlink_operands(op);
    for (int r = 0; r < op->n_regions; r++) {
        for (Op *in = op->regions[r]->first; in && op->regions[r]->parent == op; in = in->next) {
            unlink_all(in);
        }
    }
}

/* Of an op that comes back. */
static void link_again(Op *op)
{
    for (int i = 0; i < op->n_operands; i++) {
        if (op->operands[i] && !op->uses[i].link) {
            use_link(&op->uses[i], op->operands[i]);
        }
    }
    for (int r = 0; r < op->n_regions; r++) {
        for (Op *in = op->regions[r]->first; in; in = in->next) {
            link_again(in);
        }
    }
}

static void give_operands(Arena *arena, Op *op, int n, Value *const *operands)
{
    op->n_operands = (uint16_t)n;
    op->operands = arena_copy(arena, operands, sizeof(Value *) * (size_t)n);
    op->uses = ARENA_ARRAY(arena, ValueUse, n);
    for (int i = 0; i < n; i++) {
        op->uses[i].op = op;
        use_link(&op->uses[i], op->operands[i]);
    }
}

void op_set_operands(Func *func, Op *op, int n, Value *const *operands)
{
    unlink_operands(op);
    give_operands(func->arena, op, n, operands);
}

void op_set_operand(Op *op, int at, Value *value)
{
    use_unlink(&op->uses[at]);
    ((Value **)(uintptr_t)op->operands)[at] = value;
    use_link(&op->uses[at], value);
}

Op *build_op(Builder *b, OpKind kind, int n_operands, Value *const *operands, int n_results,
             const Type *results, int n_regions)
{
    Arena *arena = b->func->arena;
    Op *op = ARENA_NEW(arena, Op);
    op->kind = kind;
    op->span = b->span;
    give_operands(arena, op, n_operands, operands);
    op->n_results = (uint16_t)n_results;
    op->results = ARENA_ARRAY(arena, Value *, n_results);
    for (int i = 0; i < n_results; i++) {
        op->results[i] = value_new(b->func, results[i], NULL);
        op->results[i]->def = op;
        op->results[i]->index = (uint32_t)i;
    }
    op->n_regions = (uint16_t)n_regions;
    op->regions = ARENA_ARRAY(arena, Block *, n_regions);
    for (int i = 0; i < n_regions; i++) {
        op->regions[i] = build_block(b->func, op);
    }
    block_insert(b->block, op, b->before);
    op_visited(op);
    return op;
}

Value *op_add_result(Func *func, Op *op, Type type)
{
    Value **results = ARENA_ARRAY(func->arena, Value *, op->n_results + 1);
    if (op->n_results) {
        memcpy(results, op->results, sizeof(Value *) * op->n_results);
    }
    Value *result = value_new(func, type, NULL);
    result->def = op;
    result->index = op->n_results;
    results[op->n_results++] = result;
    op->results = results;
    return result;
}

static void block_take_out(Op *op)
{
    Block *block = op->parent;
    if (op->prev) {
        op->prev->next = op->next;
    } else {
        block->first = op->next;
    }
    if (op->next) {
        op->next->prev = op->prev;
    } else {
        block->last = op->prev;
    }
    op->prev = op->next = NULL;
    op->parent = NULL;
}

void op_remove(Op *op)
{
    block_take_out(op);
    unlink_all(op);
}

void op_move_before(Op *op, Op *where)
{
    block_take_out(op);
    block_insert(where->parent, op, where);
    link_again(op);
}

void op_move_to_end(Op *op, Block *block)
{
    block_take_out(op);
    block_insert(block, op, NULL);
    link_again(op);
}

/* ---- operands ---- */

Access op_access(const Op *op, int at)
{
    op_visited(op);
    Value *value = op->operands[at];
    Access access = {value, op->operands + at + 1, 0, at};
    if (value && type_is_memory(value->type)) {
        access.n = value->type->rank;
    } else if (op->kind == OP_GATHER && at == 0) {
        access.n = op->n_operands - 1; /* from an array, at the tensor stage */
    }
    return access;
}

ScatterParts scatter_parts(const Op *op)
{
    ScatterParts parts = {0};
    int at = access_next(op, 0);
    bool compares = op_word(op, ATTR_FN) && text_equal(op_word(op, ATTR_FN), "cas");
    parts.value = at < op->n_operands ? op->operands[at++] : NULL;
    parts.compare = compares && at < op->n_operands ? op->operands[at++] : NULL;
    parts.mask = at < op->n_operands ? op->operands[at] : NULL;
    return parts;
}

int access_next(const Op *op, int at)
{
    return at + 1 + op_access(op, at).n;
}

Access op_access_nth(const Op *op, int nth)
{
    int at = 0;
    for (int i = 0; i < nth; i++) {
        at = access_next(op, at);
    }
    return op_access(op, at);
}

Value *dot_accumulator(const Op *dot)
{
    int at = access_next(dot, access_next(dot, 0));
    return at < dot->n_operands ? dot->operands[at] : NULL;
}

Value *op_moved_value(const Op *op)
{
    return op->n_results > 0 ? op->results[0] : op->operands[op->n_operands - 1];
}

bool op_has_operand(const Op *op, const Value *value)
{
    op_visited(op);
    for (int i = 0; i < op->n_operands; i++) {
        if (op->operands[i] == value) {
            return true;
        }
    }
    return false;
}

const Op *value_def_of_kind(const Value *value, OpKind kind)
{
    return value->def && value->def->kind == kind ? value->def : NULL;
}

Op *op_enclosing(const Op *op, OpKind kind)
{
    for (Op *up = op->parent ? op->parent->parent : NULL; up;
         up = up->parent ? up->parent->parent : NULL) {
        if (up->kind == kind) {
            return up;
        }
    }
    return NULL;
}

bool block_is_scalar(const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        bool fine = op_has(op, TRAIT_ELEMENTWISE) || op->kind == OP_CONST || op->kind == OP_SIZE ||
                    op->kind == OP_YIELD || op->kind == OP_FOR || op->kind == OP_IF ||
                    op->kind == OP_WHILE;
        for (int i = 0; i < op->n_results; i++) {
            fine = fine && type_is_scalar(op->results[i]->type);
        }
        for (int i = 0; i < op->n_regions; i++) {
            fine = fine && block_is_scalar(op->regions[i]);
        }
        if (!fine) {
            return false;
        }
    }
    return true;
}

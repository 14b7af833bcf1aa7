/* SPDX-License-Identifier: Apache-2.0 */
/* The signature of a kernel before any generic or size is bound, and the checks that need no
 * values. */
#include "frontend/messages/frontend_errors.h"
#include "frontend/syntax/ast.h"

#include <ctype.h>
#include <string.h>

enum { MAX_SIZES = 64 };

typedef struct Signer {
    Module *module;
    Arena *arena;
    Diags *diags;
    KernelDecl *kernel;
    KernelSignature *signature;
} Signer;

static bool is_generic(const KernelDecl *kernel, const char *name)
{
    for (size_t i = 0; i < kernel->where.generics.n; i++) {
        if (text_equal(kernel->where.generics.items[i].name, name)) {
            return true;
        }
    }
    return false;
}

static bool is_const_param(const KernelDecl *kernel, const char *name)
{
    for (size_t i = 0; i < kernel->params.n; i++) {
        if (kernel->params.items[i].is_const && text_equal(kernel->params.items[i].name, name)) {
            return true;
        }
    }
    return false;
}

static void add_size(Signer *s, const char *name)
{
    if (is_const_param(s->kernel, name)) {
        return;
    }
    for (size_t i = 0; i < s->signature->sizes.n; i++) {
        if (text_equal(s->signature->sizes.items[i], name)) {
            return;
        }
    }
    if (s->signature->sizes.n < MAX_SIZES) {
        ARENA_PUSH(s->arena, &s->signature->sizes, name);
    } else {
        front_error(s->diags, ERR_SIGNATURE, s->kernel->span, "a kernel has at most %d sizes",
                    MAX_SIZES);
    }
}

static const SizeDef *def_called(const KernelDecl *kernel, const char *name, size_t n)
{
    for (size_t i = 0; i < kernel->where.defs.n; i++) {
        const SizeDef *def = &kernel->where.defs.items[i];
        if (strlen(def->name) == n && strncmp(def->name, name, n) == 0) {
            return def;
        }
    }
    return NULL;
}

/* The text of an extent, where sizes that `where` defines are what they are made of. */
static void expand_extent(Signer *s, const char *text, Text *out, int depth)
{
    for (const char *c = text; *c;) {
        size_t n = 0;
        while (isalnum((unsigned char)c[n]) || c[n] == '_') {
            n++;
        }
        const SizeDef *def = depth > 0 && n > 0 ? def_called(s->kernel, c, n) : NULL;
        if (def) {
            text_char(out, '(');
            expand_extent(s, source_text(s->diags, s->arena, def->value->span), out, depth - 1);
            text_char(out, ')');
        } else {
            text_add_n(out, c, n ? n : 1);
        }
        c += n ? n : 1;
    }
}

static const char *extent_text(Signer *s, const Expr *dim)
{
    Text out = text_new(s->arena);
    if (dim->kind == EXPR_INT) {
        return arena_printf(s->arena, "%lld", (long long)dim->integer);
    }
    if (dim->op == TOK_ELLIPSIS) {
        return dim->name;
    }
    expand_extent(s, source_text(s->diags, s->arena, dim->span), &out, 4);
    return out.data;
}

/* The names in an extent are sizes. */
static void collect_sizes(Signer *s, const Expr *dim)
{
    bool sum = dim->kind == EXPR_BINARY && (dim->op == TOK_PLUS || dim->op == TOK_MINUS ||
                                            dim->op == TOK_STAR || dim->op == TOK_FLOOR);
    if (dim->kind == EXPR_NAME && def_called(s->kernel, dim->name, strlen(dim->name))) {
        return; /* its own sizes are collected where it is defined */
    }
    DType dtype;
    if (dim->kind == EXPR_NAME && dtype_from_name(dim->name, strlen(dim->name), &dtype)) {
        front_error(s->diags, ERR_SIZE, dim->span, "`%s` is an element type, not a size",
                    dim->name);
    } else if (dim->kind == EXPR_NAME) {
        bool other = s->signature->any_rank && dim->op != TOK_ELLIPSIS && dim->name[0] == 'd' &&
                     isdigit((unsigned char)dim->name[1]) && !dim->name[2];
        if (other) {
            Diag *diag = front_error(s->diags, ERR_SIZE, dim->span,
                                     "`%s` is an axis that `...` stands for", dim->name);
            diag_help(s->diags, diag, "give the size another name");
        }
        add_size(s, dim->name);
    } else if (sum) {
        collect_sizes(s, dim->a);
        collect_sizes(s, dim->b);
    } else if (dim->kind != EXPR_INT && dim->kind != EXPR_POISON) {
        Diag *diag = front_error(s->diags, ERR_SIZE, dim->span, "this is not an extent");
        bool divides = dim->kind == EXPR_BINARY && dim->op == TOK_SLASH;
        diag_help(s->diags, diag, "%s",
                  divides ? "sizes are divided by `//`, which rounds down: `N // 2`"
                          : "an extent is a sum of products of sizes and integers");
    }
}

/* Declares the type behind the kernel's head. */
static void fix_where(Signer *s, Diag *diag, const char *type)
{
    const Where *where = &s->kernel->where;
    bool clauses = where->generics.n > 0 || where->defs.n > 0 || where->rules.n > 0;
    Span head = s->kernel->head, end = {head.source, head.end, head.end};
    if (head.end > head.start) {
        diag_fix(s->diags, diag, end, "%s %s: float", clauses ? "," : " where", type);
    }
}

static void unknown_type(Signer *s, const Expr *type)
{
    Nearest nearest = nearest_to(type->name);
    for (int i = 0; i < DT_COUNT; i++) {
        nearest_try(&nearest, dtype_name((DType)i));
    }
    for (size_t i = 0; i < s->kernel->where.generics.n; i++) {
        nearest_try(&nearest, s->kernel->where.generics.items[i].name);
    }
    Diag *diag =
        front_error(s->diags, ERR_TYPE_NAME, type->span, "no type is called `%s`", type->name);
    bool generic = type->name[0] >= 'A' && type->name[0] <= 'Z';
    const char *habit = foreign_word_help(type->name);
    if (habit) {
        diag_help(s->diags, diag, "%s", habit);
    } else if (nearest_found(&nearest) && !generic) {
        diag_help(s->diags, diag, "did you mean `%s`?", nearest_found(&nearest));
        diag_fix(s->diags, diag, type->span, "%s", nearest_found(&nearest));
    } else {
        diag_help(s->diags, diag, "declare it after the results: `where %s: float`", type->name);
        fix_where(s, diag, type->name);
    }
}

static const char *check_dtype(Signer *s, const Expr *type)
{
    DType dtype;
    if (type->kind != EXPR_NAME) {
        front_error(s->diags, ERR_TYPE_NAME, type->span, "this is not a type");
        return "f32";
    }
    if (!is_generic(s->kernel, type->name) &&
        !dtype_from_name(type->name, strlen(type->name), &dtype)) {
        unknown_type(s, type);
    }
    return type->name;
}

/* Of two `...` in a type the first would not say where it ends. */
static void check_one_rest(Signer *s, const Expr *type)
{
    const Expr *first = NULL;
    for (size_t i = 0; i < type->args.n; i++) {
        const Expr *dim = type->args.items[i];
        if (dim->op != TOK_ELLIPSIS || dim->kind != EXPR_NAME) {
            continue;
        }
        if (first && first->span.start != dim->span.start) {
            Diag *diag =
                front_error(s->diags, ERR_SIZE, dim->span, "a type has one `...` at most");
            diag_label(s->diags, diag, first->span, "here is the first");
            return;
        }
        first = dim;
    }
}

static void check_dims(Signer *s, const Expr *type, KernelParam *param)
{
    param->rank = (int)type->args.n;
    if (type->args.n == 0 || type->args.n > TENSOR_RANK) {
        Diag *diag =
            front_error(s->diags, ERR_SIGNATURE, type->span, "a tensor of %zu axes", type->args.n);
        diag_help(s->diags, diag, "tensors have 1 to %d axes; a scalar has no brackets",
                  TENSOR_RANK);
        param->rank = 0;
        return;
    }
    param->dims = ARENA_ARRAY(s->arena, const char *, type->args.n);
    check_one_rest(s, type);
    for (size_t i = 0; i < type->args.n; i++) {
        collect_sizes(s, type->args.items[i]);
        param->dims[i] = extent_text(s, type->args.items[i]);
    }
}

/* What is no const has a default that is read like a value of the command line. */
static void check_default(Signer *s, const ParamDecl *decl, bool tensor)
{
    const Expr *value = decl->fallback;
    if (value->kind == EXPR_UNARY && value->op == TOK_MINUS) {
        value = value->a;
    }
    bool number = value->kind == EXPR_INT || value->kind == EXPR_FLOAT ||
                  value->kind == EXPR_BOOL ||
                  (value->kind == EXPR_NAME && text_equal(value->name, "inf"));
    if (tensor || decl->is_inout) {
        Diag *diag =
            front_error(s->diags, ERR_SIGNATURE, decl->fallback->span, "an array has no default");
        diag_help(s->diags, diag, "a scalar has one: `%s: f32 = 1`", decl->name);
    } else if (!decl->is_const && !number && value->kind != EXPR_POISON) {
        Diag *diag = front_error(s->diags, ERR_SIGNATURE, decl->fallback->span,
                                 "the default of an argument is a number, true or false");
        diag_help(s->diags, diag, "an expression may be the default of a `const` parameter");
    }
}

static void add_param(Signer *s, const ParamDecl *decl, ParamIo io)
{
    KernelParam param = {.name = decl->name, .rank = -1, .io = io, .is_const = decl->is_const};
    bool tensor = decl->type->kind == EXPR_INDEX;
    param.dtype = check_dtype(s, tensor ? decl->type->a : decl->type);
    if (tensor) {
        check_dims(s, decl->type, &param);
    }
    if (tensor && decl->is_const) {
        front_error(s->diags, ERR_SIGNATURE, decl->type->span, "a const parameter is a scalar");
    } else if (!tensor && io == PARAM_INOUT) {
        Diag *diag =
            front_error(s->diags, ERR_SIGNATURE, decl->type->span, "a scalar cannot be written");
        diag_help(s->diags, diag, "write `%s[1]`", param.dtype);
        diag_fix(s->diags, diag, decl->type->span, "%s[1]", param.dtype);
    }
    if (decl->fallback) {
        param.fallback = source_text(s->diags, s->arena, decl->fallback->span);
        check_default(s, decl, tensor);
    }
    ARENA_PUSH(s->arena, &s->signature->params, param);
}

static void duplicate(Signer *s, const char *name, Span first, Span second)
{
    Diag *diag = front_error(s->diags, ERR_DUPLICATE, second, "`%s` is defined twice", name);
    if (first.end > first.start) {
        diag_label(s->diags, diag, first, "first here");
    }
}

static const ParamDecl *param_at(const KernelDecl *kernel, size_t n)
{
    return n < kernel->params.n ? &kernel->params.items[n]
                                : &kernel->results.items[n - kernel->params.n];
}

static void check_names(Signer *s)
{
    size_t n = s->kernel->params.n + s->kernel->results.n;
    for (size_t i = 0; i < n; i++) {
        const ParamDecl *param = param_at(s->kernel, i);
        for (size_t j = 0; j < i; j++) {
            if (text_equal(param_at(s->kernel, j)->name, param->name)) {
                duplicate(s, param->name, param_at(s->kernel, j)->span, param->span);
                break;
            }
        }
        for (size_t j = 0; j < s->signature->sizes.n; j++) {
            if (text_equal(s->signature->sizes.items[j], param->name)) {
                front_error(s->diags, ERR_DUPLICATE, param->span, "`%s` is a size and a parameter",
                            param->name);
            }
        }
    }
}

/* A size is defined once, by sizes that are not defined later. */
static void check_defs(Signer *s)
{
    for (size_t i = 0; i < s->kernel->where.defs.n; i++) {
        const SizeDef *def = &s->kernel->where.defs.items[i];
        for (size_t j = 0; j < i; j++) {
            if (text_equal(s->kernel->where.defs.items[j].name, def->name)) {
                duplicate(s, def->name, s->kernel->where.defs.items[j].span, def->span);
            }
        }
        if (expr_mentions(def->value, def->name)) {
            Diag *diag = front_error(s->diags, ERR_SIZE, span_join(def->span, def->value->span),
                                     "`%s` is defined in terms of itself", def->name);
            diag_help(s->diags, diag,
                      "a size that a type names needs no definition: leave the clause out");
        }
        for (size_t j = 0; j < s->kernel->params.n + s->kernel->results.n; j++) {
            const ParamDecl *param = param_at(s->kernel, j);
            if (text_equal(param->name, def->name)) {
                duplicate(s, def->name, param->span, def->span);
            }
        }
    }
}

/* ---- assume N in … ---- */

static void add_set(Signer *s, const Stmt *stmt)
{
    AssumeSet set = {.size = stmt->value->kind == EXPR_NAME ? stmt->value->name : NULL};
    bool known = false;
    for (size_t i = 0; i < s->signature->sizes.n; i++) {
        known = known || text_equal(s->signature->sizes.items[i], set.size);
    }
    if (!known) {
        Diag *diag = front_error(s->diags, ERR_ASSUME, stmt->value->span,
                                 "this is not a size of the kernel");
        diag_help(s->diags, diag, "write `assume N in 64, 128` of a size in the parameters' types");
        return;
    }
    set.values = ARENA_ARRAY(s->arena, int64_t, stmt->values.n);
    for (size_t i = 0; i < stmt->values.n; i++) {
        const Expr *value = stmt->values.items[i];
        if (value->kind != EXPR_INT) {
            front_error(s->diags, ERR_ASSUME, value->span, "this is not an integer");
            continue;
        }
        set.values[set.n++] = value->integer;
    }
    ARENA_PUSH(s->arena, &s->kernel->sets, set);
}

/* Wherever they stand: sizes are the same in all of the kernel. */
static void add_sets(Signer *s, const StmtList *list)
{
    for (size_t i = 0; i < list->n; i++) {
        const Stmt *stmt = list->items[i];
        if (stmt->kind == STMT_ASSUME && stmt->values.n > 0) {
            add_set(s, stmt);
        }
        add_sets(s, &stmt->body);
        add_sets(s, &stmt->otherwise);
    }
}

/* ---- the comment above ---- */

/* Where the line before the one that begins at `line` begins. */
static size_t line_before(const char *text, size_t line)
{
    size_t at = line - 1;
    while (at > 0 && text[at - 1] != '\n') {
        at--;
    }
    return at;
}

/* The text of a line that is a comment and nothing else, from behind its `#`; NULL: it is not. */
static const char *comment_of(const char *text, size_t begin, size_t end, size_t *n)
{
    while (begin < end && (text[begin] == ' ' || text[begin] == '\t')) {
        begin++;
    }
    if (begin == end || text[begin] != '#') {
        return NULL;
    }
    begin++;
    begin += begin < end && text[begin] == ' ';
    while (end > begin && isspace((unsigned char)text[end - 1])) {
        end--;
    }
    *n = end - begin;
    return text + begin;
}

/* The comment right above a declaration: lines up to an empty one. A line of the licence, as it
 * stands at the head of a file, is no part of it. */
const char *comment_above(const Diags *diags, Arena *arena, Span span)
{
    static const char licence[] = "SPDX-License-Identifier:";
    const char *text = diags->sources.items[span.source].text;
    size_t below = span.start, begin, n;
    while (below > 0 && text[below - 1] != '\n') {
        below--;
    }
    begin = below;
    while (begin > 0 && comment_of(text, line_before(text, begin), begin - 1, &n)) {
        begin = line_before(text, begin);
    }
    Text out = text_new(arena);
    for (size_t at = begin; at < below;) {
        size_t end = at;
        while (text[end] != '\n') {
            end++;
        }
        const char *words = comment_of(text, at, end, &n);
        if (n < sizeof licence - 1 || strncmp(words, licence, sizeof licence - 1) != 0) {
            text_printf(&out, "%s%.*s", out.n ? "\n" : "", (int)n, words);
        }
        at = end + 1;
    }
    return out.n > 0 ? out.data : NULL;
}

void make_signature(Module *module, KernelDecl *kernel)
{
    Signer s = {module, module->arena, module->diags, kernel, &kernel->signature};
    s.signature->name = kernel->name;
    s.signature->any_rank = kernel->any_rank;
    s.signature->doc = comment_above(s.diags, s.arena, kernel->span);
    for (size_t i = 0; i < kernel->params.n; i++) {
        const ParamDecl *param = &kernel->params.items[i];
        add_param(&s, param, param->is_inout ? PARAM_INOUT : PARAM_IN);
    }
    for (size_t i = 0; i < kernel->results.n; i++) {
        add_param(&s, &kernel->results.items[i], PARAM_OUT);
    }
    for (size_t i = 0; i < kernel->where.generics.n; i++) {
        ARENA_PUSH(s.arena, &s.signature->generics, kernel->where.generics.items[i].name);
        ARENA_PUSH(s.arena, &s.signature->classes,
                   type_class_name(kernel->where.generics.items[i].type_class));
    }
    for (size_t i = 0; i < kernel->where.defs.n; i++) {
        collect_sizes(&s, kernel->where.defs.items[i].value);
    }
    check_names(&s);
    check_defs(&s);
    while (kernel->of) {
        kernel = kernel->of;
    }
    add_sets(&s, &kernel->body);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Parses declarations: kernels, functions, and a file as a list of them. */
#include "frontend/syntax/parser.h"

#include <string.h>

enum { MAX_DECLARATIONS = 4096, MAX_PARAMS = 128 };

/* ---- parameters ---- */

/* `inout x: T`, as some languages have it. */
static void refuse_word_before_name(Parser *p)
{
    const char *word = token_text(p->token.kind);
    Token name = parser_peek(p);
    if (name.kind == TOK_NAME) {
        diag_help(p->diags, parser_error(p, "a parameter"),
                  "the keyword comes before the type: `%s: %s …`", token_name(p, name), word);
    }
}

static void parse_params(Parser *p, ParamList *list, bool typed)
{
    if (!parser_expect(p, TOK_LPAREN, "and the parameters")) {
        return;
    }
    while (!parser_at(p, TOK_RPAREN) && !p->recovering) {
        ParamDecl param = {.span = p->token.span};
        if (parser_at(p, TOK_INOUT) || parser_at(p, TOK_CONST)) {
            refuse_word_before_name(p);
        }
        param.name = parser_name(p, "a parameter");
        if (parser_take(p, TOK_COLON)) {
            param.is_inout = parser_take(p, TOK_INOUT);
            param.is_const = !param.is_inout && parser_take(p, TOK_CONST);
            p->any_rank = typed;
            param.type = parse_type(p);
            p->any_rank = false;
        } else if (typed) {
            parser_error(p, "`:` and the parameter's type");
        }
        if (!p->recovering && parser_take(p, TOK_ASSIGN)) {
            param.fallback = parse_expr(p);
        }
        ARENA_PUSH(p->arena, list, param);
        if (list->n >= MAX_PARAMS || !parser_take(p, TOK_COMMA)) {
            break;
        }
    }
    parser_expect(p, TOK_RPAREN,
                  list->n >= MAX_PARAMS ? "after 128 parameters" : "after the parameters");
}

/* ---- kernels ---- */

static void parse_named_result(Parser *p, ParamList *results)
{
    ParamDecl result = {.name = "out", .span = p->token.span};
    if (parser_at(p, TOK_NAME) && parser_peek(p).kind == TOK_COLON) {
        result.name = parser_name(p, "a result");
        parser_next(p);
    }
    if (parser_at(p, TOK_INOUT) || parser_at(p, TOK_CONST)) {
        parser_help_reserved(p, parser_error(p, "a type"));
        return;
    }
    p->any_rank = true;
    result.type = parse_type(p);
    p->any_rank = false;
    result.span = span_join(result.span, p->last);
    ARENA_PUSH(p->arena, results, result);
}

static void parse_result_list(Parser *p, ParamList *results)
{
    if (!parser_take(p, TOK_LPAREN)) {
        parse_named_result(p, results);
        return;
    }
    do {
        parse_named_result(p, results);
    } while (!p->recovering && parser_take(p, TOK_COMMA));
    parser_expect(p, TOK_RPAREN, "after the results");
}

static bool writes_a_parameter(const KernelDecl *kernel)
{
    for (size_t i = 0; i < kernel->params.n; i++) {
        if (kernel->params.items[i].is_inout) {
            return true;
        }
    }
    return false;
}

static void parse_results(Parser *p, KernelDecl *kernel)
{
    if (!parser_at(p, TOK_ARROW) && writes_a_parameter(kernel)) {
        return;
    }
    if (!parser_expect(p, TOK_ARROW, "and the results")) {
        return;
    }
    parse_result_list(p, &kernel->results);
    for (size_t i = 0; i < kernel->results.n && !p->recovering; i++) {
        /* A scalar result is an array of one element. */
        ParamDecl *result = &kernel->results.items[i];
        if (result->type->kind == EXPR_NAME) {
            Expr *index = expr_new(p, EXPR_INDEX, result->type->span);
            Expr *one = expr_new(p, EXPR_INT, result->type->span);
            one->integer = 1;
            one->name = "1";
            index->a = result->type;
            ARENA_PUSH(p->arena, &index->args, one);
            result->type = expr_grown(p, index);
        }
    }
}

static void parse_class(Parser *p, Where *where)
{
    GenericDecl generic = {.span = p->token.span};
    generic.name = parser_name(p, "a name");
    parser_next(p);
    Span span = p->token.span;
    const char *name = parser_name(p, "float, int, number or any");
    if (!p->recovering && !type_class_find(name, &generic.type_class)) {
        p->recovering = true;
        Diag *diag =
            front_error(p->diags, ERR_TYPE_NAME, span, "no class of types is called `%s`", name);
        diag_help(p->diags, diag, "there are float, int, number and any");
    }
    ARENA_PUSH(p->arena, &where->generics, generic);
}

static bool is_comparison(const Expr *expr)
{
    TokenKind op = expr->kind == EXPR_BINARY ? expr->op : TOK_END;
    return op == TOK_EQ || op == TOK_NE || op == TOK_LT || op == TOK_LE || op == TOK_GT ||
           op == TOK_GE;
}

static void parse_rule(Parser *p, Where *where)
{
    Expr *rule = parse_operand(p);
    if (!p->recovering && !is_comparison(rule)) {
        p->recovering = true;
        Diag *diag =
            front_error(p->diags, ERR_EXPECTED, rule->span, "this is no clause of `where`");
        if (rule->kind == EXPR_NAME && parser_at(p, TOK_NAME)) { /* H is a multiple of G */
            diag_help(p->diags, diag,
                      "write the fact as a condition: `%s %% 16 == 0`, `%s >= 1`; `%s = Q*G` "
                      "says that it is a multiple of the size G",
                      rule->name, rule->name, rule->name);
        } else {
            diag_help(p->diags, diag,
                      "write `T: float`, `P = N // 2`, or a comparison of sizes, "
                      "`N %% 16 == 0`");
        }
    }
    ARENA_PUSH(p->arena, &where->rules, rule);
}

static void parse_clause(Parser *p, Where *where)
{
    TokenKind next = parser_at(p, TOK_NAME) ? parser_peek(p).kind : TOK_END;
    if (next == TOK_ASSIGN) {
        SizeDef def = {.span = p->token.span};
        def.name = parser_name(p, "a name");
        parser_next(p);
        def.value = parse_operand(p);
        ARENA_PUSH(p->arena, &where->defs, def);
    } else if (next == TOK_COLON) {
        parse_class(p, where);
    } else {
        parse_rule(p, where);
    }
}

static void parse_where(Parser *p, Where *where)
{
    if (!p->recovering && parser_take_word(p, "where")) {
        do {
            parse_clause(p, where);
        } while (!p->recovering && parser_take(p, TOK_COMMA));
    }
}

static void end_value(Parser *p)
{
    if (!p->recovering && !p->token.first && !parser_at(p, TOK_SEMI)) {
        parser_help_foreign(p, parser_error(p, "the end of this declaration"));
    }
}

/* `derivative of f(x, y, g) = …`: words that are names elsewhere. */
static bool at_derivative(const Parser *p)
{
    Token next = parser_peek(p);
    return parser_at_word(p, "derivative") && next.kind == TOK_NAME &&
           next.span.end - next.span.start == 2 &&
           strncmp(p->lexer.text + next.span.start, "of", 2) == 0;
}

static bool begins_declaration(const Parser *p)
{
    return parser_at(p, TOK_KERNEL) || parser_at(p, TOK_FN) || parser_at(p, TOK_TUNE) ||
           parser_at(p, TOK_SCHEDULE) || parser_at(p, TOK_IMPORT) || at_derivative(p);
}

/* After an error in a declaration's head: its body begins at the next brace, if it has one. */
static bool find_body(Parser *p)
{
    p->recovering = false;
    p->brackets = 0;
    while (!parser_at(p, TOK_LBRACE) && !parser_at(p, TOK_END) &&
           !(p->token.first && begins_declaration(p))) {
        parser_next(p);
    }
    return parser_at(p, TOK_LBRACE);
}

static void keep_kernel(Parser *p, KernelDecl *kernel, bool head)
{
    if (head) {
        ARENA_PUSH(p->arena, &p->module->kernels, kernel);
    } else if (*kernel->name) {
        ARENA_PUSH(p->arena, &p->module->broken_kernels, kernel);
    }
}

static void parse_kernel(Parser *p)
{
    KernelDecl *kernel = ARENA_NEW(p->arena, KernelDecl);
    int errors = p->diags->errors;
    Span keyword = p->token.span;
    parser_next(p);
    kernel->span = p->token.span;
    kernel->name = parser_name(p, "the kernel's name");
    if (!p->recovering && parser_take(p, TOK_ASSIGN)) { /* kernel b = vjp(f) */
        kernel->derivative = parse_expr(p);
        end_value(p);
        kernel->head = span_join(kernel->span, p->last);
        kernel->full_span = span_join(keyword, p->last);
        keep_kernel(p, kernel, !p->recovering);
        return;
    }
    p->rest = false;
    if (!p->recovering) {
        parse_params(p, &kernel->params, true);
    }
    if (!p->recovering) {
        parse_results(p, kernel);
    }
    kernel->any_rank = p->rest;
    parse_where(p, &kernel->where);
    bool head = !p->recovering;
    kernel->head = span_join(kernel->span, p->last);
    if (head && parser_take(p, TOK_ASSIGN)) {
        kernel->value = parse_expr(p);
        kernel->value_span = kernel->value->span;
        end_value(p);
    } else if (head || find_body(p)) {
        head = head && parser_at(p, TOK_LBRACE);
        kernel->body = parse_block(p);
    }
    kernel->full_span = span_join(keyword, p->last);
    kernel->broken = p->diags->errors > errors;
    keep_kernel(p, kernel, head);
}

/* ---- functions ---- */

/* Parses the result: a type that is returned, or named results that the body writes. */
static void parse_fn_results(Parser *p, FnDecl *fn)
{
    bool named = parser_at(p, TOK_NAME) && parser_peek(p).kind == TOK_COLON;
    if (named || parser_at(p, TOK_LPAREN)) {
        parse_result_list(p, &fn->results);
    } else {
        fn->result_type = parse_type(p);
    }
}

static void parse_fn_rest(Parser *p, FnDecl *fn)
{
    if (!p->recovering && parser_take(p, TOK_ASSIGN)) {
        fn->value = parse_expr(p);
        end_value(p);
    } else if (!p->recovering) {
        fn->body = parse_block(p);
    }
}

const char *derivative_name(Arena *arena, const char *of)
{
    return arena_printf(arena, "derivative of %s", of);
}

/* A function, or the declared derivative of one. */
static void parse_fn(Parser *p)
{
    FnDecl *fn = ARENA_NEW(p->arena, FnDecl);
    int errors = p->diags->errors;
    bool derivative = !parser_at(p, TOK_FN);
    Span keyword = p->token.span;
    parser_next(p);
    if (derivative) {
        parser_next(p); /* of */
    }
    fn->span = p->token.span;
    fn->name = parser_name(p, "the function's name");
    if (p->module->library && parser_take(p, TOK_DOT)) {
        fn->name = arena_printf(p->arena, "%s.%s", fn->name, parser_name(p, "a name"));
    }
    fn->derivative_of = derivative ? fn->name : NULL;
    fn->name = derivative ? derivative_name(p->arena, fn->name) : fn->name;
    if (!p->recovering) {
        parse_params(p, &fn->params, false);
    }
    if (!p->recovering && parser_take(p, TOK_ARROW)) {
        parse_fn_results(p, fn);
    }
    parse_where(p, &fn->where);
    bool head = !p->recovering;
    fn->head = span_join(fn->span, p->last);
    if (p->module->library && head) {
        const char *text = p->lexer.text;
        const char *next = strstr(text + p->token.span.start, "\nfn ");
        const char *other = strstr(text + p->token.span.start, "\nderivative of ");
        next = !next || (other && other < next) ? other : next;
        fn->waits = true;
        fn->rest = p->token.span;
        p->lexer.at = next ? (size_t)(next - text) : p->lexer.n;
        parser_next(p);
    } else if (!p->recovering || find_body(p)) {
        head = head && (parser_at(p, TOK_LBRACE) || parser_at(p, TOK_ASSIGN));
        parse_fn_rest(p, fn);
    }
    fn->full_span = span_join(keyword, p->last);
    fn->broken = p->diags->errors > errors;
    if (head) {
        ARENA_PUSH(p->arena, &p->module->fns, fn);
    } else if (*fn->name) {
        ARENA_PUSH(p->arena, &p->module->broken_fns, fn);
    }
}

void fn_complete(const Module *home, FnDecl *fn)
{
    if (!fn->waits) {
        return;
    }
    Module module = *home;
    Parser p = {.module = &module, .arena = home->arena, .diags = home->diags};
    p.lexer = lexer_new(home->diags, fn->rest.source);
    p.lexer.at = fn->rest.start;
    p.last = fn->span;
    fn->waits = false;
    parser_next(&p);
    p.last = fn->span;
    parse_fn_rest(&p, fn);
}

/* ---- imports ---- */

static void parse_import(Parser *p)
{
    parser_next(p);
    ImportDecl import = {.span = p->token.span};
    if (parser_at(p, TOK_STRING)) {
        import.is_file = true;
        import.path = parser_string(p);
    } else {
        import.path = parser_name(p, "a file, \"path.tile\", or a module of the standard library");
    }
    if (!p->recovering) {
        ARENA_PUSH(p->arena, &p->module->imports, import);
        end_value(p);
    }
}

/* ---- the name of a derivative: vjp(f, x) ---- */

Expr *parse_derivative_text(Module *module, const char *text)
{
    Module other = *module;
    other.source = diags_add_source(module->diags, text, text, strlen(text));
    Parser p = {.module = &other, .arena = module->arena, .diags = module->diags};
    p.lexer = lexer_new(module->diags, other.source);
    p.last = (Span){other.source, 0, 0};
    parser_next(&p);
    Expr *expr = parse_expr(&p);
    end_value(&p);
    return p.recovering ? NULL : expr;
}

/* ---- the file ---- */

static void skip_to_declaration(Parser *p)
{
    p->recovering = false;
    p->brackets = 0;
    while (!parser_at(p, TOK_END)) {
        if (p->token.first && begins_declaration(p)) {
            return;
        }
        parser_next(p);
    }
}

static void parse_declaration(Parser *p)
{
    switch (p->token.kind) {
    case TOK_KERNEL: parse_kernel(p); break;
    case TOK_FN: parse_fn(p); break;
    case TOK_SCHEDULE: parse_schedule(p); break;
    case TOK_TUNE: parse_tune(p); break;
    case TOK_SEMI: parser_next(p); break;
    case TOK_IMPORT: parse_import(p); break;
    default: {
        bool comment = parser_at(p, TOK_FLOOR) || parser_at(p, TOK_SLASH);
        if (at_derivative(p)) {
            parse_fn(p);
            return;
        }
        Diag *diag = parser_error(p, "`kernel`, `fn`, `schedule`, `tune` or `import`");
        if (comment) {
            diag_help(p->diags, diag, "a comment begins with `#`");
            diag_fix(p->diags, diag, p->token.span, "#");
        }
        parser_help_foreign(p, diag);
    } break;
    }
}

void parse_module(Module *module)
{
    Parser p = {.module = module, .arena = module->arena, .diags = module->diags};
    p.lexer = lexer_new(module->diags, module->source);
    p.last = (Span){module->source, 0, 0};
    parser_next(&p);
    for (int n = 0; !parser_at(&p, TOK_END); n++) {
        size_t before = p.lexer.at;
        if (n >= MAX_DECLARATIONS) {
            front_error(p.diags, ERR_SOURCE_SIZE, p.token.span,
                        "a file has at most %d declarations", MAX_DECLARATIONS);
            return;
        }
        parse_declaration(&p);
        if (p.recovering && p.lexer.at == before) {
            parser_next(&p);
        }
        if (p.recovering) {
            skip_to_declaration(&p);
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Completion: what could be written here. The client filters by what is written already. */
#include "ir/target/target.h"
#include "lsp/describe.h"
#include "lsp/server.h"

#include <string.h>

typedef enum ItemKind {
    ITEM_FUNCTION = 3,
    ITEM_FIELD = 5,
    ITEM_VARIABLE = 6,
    ITEM_MODULE = 9,
    ITEM_PROPERTY = 10,
    ITEM_KEYWORD = 14,
    ITEM_VALUE = 20,
    ITEM_TYPE = 25,
} ItemKind;

typedef struct Completer {
    Call *call;
    const Document *document;
    const Analysis *a;
    uint32_t offset;
    size_t at; /* tokens before this one stand before what is completed */
    const char *text;
} Completer;

static void item(Completer *c, const char *label, ItemKind kind, const char *detail,
                 const char *doc)
{
    Text *out = c->call->result;
    put_comma(out);
    text_char(out, '{');
    put_text(out, "label", label);
    text_printf(out, ",\"kind\":%d", (int)kind);
    if (detail && *detail) {
        text_char(out, ',');
        put_text(out, "detail", detail);
    }
    if (doc && *doc) {
        text_add(out, ",\"documentation\":{\"kind\":\"markdown\",");
        put_text(out, "value", doc);
        text_char(out, '}');
    }
    text_char(out, '}');
}

/* ---- what stands before ---- */

/* The n-th token before the place, 1 the nearest; its kind is TOK_END if there is none. */
static Token before(const Completer *c, size_t n)
{
    return c->at >= n ? c->a->tokens.items[c->at - n] : (Token){.kind = TOK_END};
}

static bool is_word(const Completer *c, Token token, const char *word)
{
    size_t n = token.span.end - token.span.start;
    return token.kind != TOK_END && strlen(word) == n &&
           memcmp(c->text + token.span.start, word, n) == 0;
}

static const char *word_of(const Completer *c, Token token)
{
    return arena_strndup(c->call->arena, c->text + token.span.start,
                         token.span.end - token.span.start);
}

/* The name that is being written begins the place. */
static void find_place(Completer *c)
{
    while (c->at < c->a->tokens.n && c->a->tokens.items[c->at].span.start < c->offset) {
        c->at++;
    }
    Token last = before(c, 1);
    bool writing = last.kind == TOK_NAME || token_is_keyword(last.kind);
    if (writing && last.span.end >= c->offset) {
        c->at--;
    }
}

/* ---- lists ---- */

static void words(Completer *c, WordKind kind)
{
    for (size_t i = 0; word_at(i); i++) {
        const Word *word = word_at(i);
        if (word->kind == kind && !strchr(word->name, '.')) {
            ItemKind item_kind = kind == WORD_BUILTIN ? ITEM_FUNCTION : ITEM_KEYWORD;
            item(c, word->name, item_kind, word->signature, word->doc);
        }
    }
}

static void types(Completer *c)
{
    static const char *const names[] = {
#define DTYPE(id, name, bits, class) name,
#include "ir/dtypes.def"
#undef DTYPE
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        item(c, names[i], ITEM_TYPE, NULL, NULL);
    }
}

static void locals(Completer *c, bool only_types)
{
    const Names *names = c->a->names;
    for (size_t i = names ? names->definitions.n : 0; i-- > 0;) {
        const Definition *d = names->definitions.items[i];
        bool local = d->to > d->from && d->from <= c->offset && c->offset <= d->to &&
                     d->kind <= NAME_INDEX && d->kind > NAME_FN;
        bool hidden = false;
        for (size_t k = i + 1; k < names->definitions.n && local && !hidden; k++) {
            const Definition *later = names->definitions.items[k];
            hidden = later->from <= c->offset && c->offset <= later->to &&
                     later->to > later->from && text_equal(later->name, d->name);
        }
        if (local && !hidden && (!only_types || d->kind == NAME_TYPE || d->kind == NAME_SIZE)) {
            item(c, d->name, d->kind == NAME_TYPE ? ITEM_TYPE : ITEM_VARIABLE,
                 definition_code(c->a, c->call->arena, d), NULL);
        }
    }
}

typedef struct Functions {
    Completer *c;
    const char *prefix; /* "fast." */
    size_t n_prefix;
} Functions;

static bool add_function(void *user, const Module *home, FnDecl *fn)
{
    (void)home;
    Functions *functions = user;
    Completer *c = functions->c;
    const char *dot = strchr(fn->name, '.');
    bool shown = functions->n_prefix
                     ? strncmp(fn->name, functions->prefix, functions->n_prefix) == 0
                     : !dot || strncmp(fn->name, "fast.", 5) == 0;
    if (shown) {
        const char *doc = comment_above(&c->a->diags, c->call->arena, fn->span);
        item(c, fn->name + functions->n_prefix, ITEM_FUNCTION,
             source_text(&c->a->diags, c->call->arena, fn->head), doc);
    }
    return false;
}

static void functions(Completer *c, const char *prefix)
{
    Functions found = {c, prefix, strlen(prefix)};
    each_fn(c->a->module, NULL, add_function, &found);
}

static void kernels(Completer *c)
{
    for (size_t i = 0; i < c->a->module->kernels.n; i++) {
        const KernelDecl *kernel = c->a->module->kernels.items[i];
        item(c, kernel->name, ITEM_FUNCTION,
             source_text(&c->a->diags, c->call->arena, kernel->head), kernel->signature.doc);
    }
}

/* ---- inside of what ---- */

/* `x.`: the transpose, functions of that prefix, atomics. */
static void fields(Completer *c)
{
    Token of = before(c, 2);
    const char *prefix = arena_printf(c->call->arena, "%s.", word_of(c, of));
    for (size_t i = 0; word_at(i); i++) {
        const Word *word = word_at(i);
        if (strncmp(word->name, prefix, strlen(prefix)) == 0) {
            item(c, word->name + strlen(prefix), ITEM_FUNCTION, word->signature, word->doc);
        }
    }
    functions(c, prefix);
    if (c->call->result->data[c->call->result->n - 1] == '[') {
        item(c, "T", ITEM_FIELD, "the transpose", "Swaps the last two axes.");
    }
}

static void imports(Completer *c)
{
    const Module *standard = c->a->module->standard;
    for (int i = standard ? standard->first_source : 0; standard && i <= standard->source; i++) {
        item(c, library_module(c->a, c->call->arena, i), ITEM_MODULE, "standard library", NULL);
    }
}

static void each_name(Completer *c, const char *names, ItemKind kind)
{
    while (*names) {
        size_t n = strcspn(names, " ");
        const char *name = arena_strndup(c->call->arena, names, n);
        if (n > 1 && !text_equal(name, "int")) {
            item(c, name, kind, NULL, NULL);
        }
        names += n + strspn(names + n, " ");
    }
}

/* The kernel's axes, as `tile` names them. */
static void axes(Completer *c, const char *kernel)
{
    const Names *names = c->a->names;
    for (size_t i = 0; names && i < names->definitions.n; i++) {
        const Definition *d = names->definitions.items[i];
        bool axis = d->kind == NAME_SIZE || d->kind == NAME_INDEX;
        if (axis && d->kernel && text_equal(d->kernel->name, kernel)) {
            item(c, d->name, ITEM_VARIABLE, d->kind == NAME_SIZE ? "size" : "index", NULL);
        }
    }
}

/* The entry's first token before the place; its kind is TOK_END where a key is expected. */
static Token entry_key(const Completer *c)
{
    Token found = {.kind = TOK_END};
    bool first = c->at < c->a->tokens.n && c->a->tokens.items[c->at].first;
    for (size_t n = 1; n <= c->at && !first; n++) {
        Token token = before(c, n);
        if (token.kind == TOK_LBRACE || token.kind == TOK_SEMI || token.kind == TOK_COLON) {
            break;
        }
        found = token;
        first = token.first;
    }
    return found;
}

static void schedule_items(Completer *c, const ScheduleDecl *schedule)
{
    Token key = entry_key(c);
    const ScheduleKey *kind = key.kind == TOK_END ? NULL : schedule_key(word_of(c, key));
    if (kind) {
        if (schedule_lists(kind->subs, "*")) {
            axes(c, schedule->kernel);
        }
        each_name(c, kind->subs, ITEM_PROPERTY);
        each_name(c, kind->values, ITEM_VALUE);
        return;
    }
    size_t n;
    const ScheduleKey *keys = schedule_keys(&n);
    for (size_t i = 0; i < n; i++) {
        item(c, keys[i].key, ITEM_PROPERTY, keys[i].values,
             schedule_key_text(c->call->arena, &keys[i]));
    }
    item(c, "launch", ITEM_KEYWORD, NULL, word_find("launch")->doc);
}

static void targets(Completer *c)
{
    size_t n;
    const Target *rows = target_rows(&n);
    for (size_t i = 0; i < n; i++) {
        item(c, rows[i].name, ITEM_VALUE, "target", NULL);
    }
}

/* Names of the parameters of the call that holds the place: `axis=`. */
static void arguments(Completer *c)
{
    size_t open = c->at;
    for (int depth = 0; open > 0; open--) {
        TokenKind kind = c->a->tokens.items[open - 1].kind;
        depth += kind == TOK_RPAREN || kind == TOK_RBRACKET;
        if (kind == TOK_LBRACE || kind == TOK_RBRACE) {
            return;
        }
        if ((kind == TOK_LPAREN || kind == TOK_LBRACKET) && depth-- == 0) {
            break;
        }
    }
    const Definition *callee =
        open > 1 ? name_at(c->a, c->a->tokens.items[open - 2].span.start, NULL) : NULL;
    const FnDecl *fn = callee && callee->kind == NAME_FN ? callee->fn : NULL;
    for (size_t i = 0; fn && i < fn->params.n; i++) {
        const ParamDecl *param = &fn->params.items[i];
        item(c, arena_printf(c->call->arena, "%s=", param->name), ITEM_VARIABLE,
             param_code(c->a, c->call->arena, param), NULL);
    }
}

static void expressions(Completer *c, bool statement)
{
    arguments(c);
    locals(c, false);
    functions(c, "");
    words(c, WORD_BUILTIN);
    types(c);
    words(c, WORD_OTHER);
    if (statement) {
        words(c, WORD_STATEMENT);
        item(c, "var", ITEM_KEYWORD, NULL, "A name whose value may change: `var s = 0.0`.");
    }
    if (is_word(c, before(c, 2), "vjp") || is_word(c, before(c, 2), "grad") ||
        is_word(c, before(c, 2), "jvp")) {
        kernels(c);
    }
}

static void complete(Completer *c)
{
    Token last = before(c, 1);
    const ScheduleDecl *schedule = schedule_around(c->a, c->offset);
    const Token *brace = brace_around(c->a, c->offset);
    bool here = c->at < c->a->tokens.n && c->a->tokens.items[c->at].first &&
                c->a->tokens.items[c->at].span.start <= c->offset;
    bool first = c->at >= c->a->tokens.n || here || last.kind == TOK_LBRACE ||
                 last.kind == TOK_RBRACE || last.kind == TOK_SEMI || last.kind == TOK_END;
    for (uint32_t i = c->offset; i-- > last.span.end && !first;) {
        first = c->text[i] == '\n'; /* at the start of an empty line */
    }
    if (last.kind == TOK_DOT) {
        fields(c);
    } else if (last.kind == TOK_IMPORT) {
        imports(c);
    } else if (last.kind == TOK_SCHEDULE || last.kind == TOK_TUNE) {
        kernels(c);
    } else if (is_word(c, last, "on") && schedule) {
        targets(c);
    } else if (schedule && brace && brace->span.start > schedule->span.start) {
        schedule_items(c, schedule);
    } else if (schedule && !brace) {
        words(c, WORD_OTHER);
    } else if (!brace && first) {
        words(c, WORD_DECLARATION);
    } else if (!brace && (last.kind == TOK_COLON || last.kind == TOK_ARROW ||
                          last.kind == TOK_CONST || last.kind == TOK_INOUT)) {
        types(c);
        locals(c, true);
        words(c, WORD_OTHER);
    } else {
        expressions(c, first);
    }
}

/* True if the offset is in a comment or in a string, where nothing is completed. */
static bool in_prose(const Completer *c)
{
    Token last = before(c, 1);
    bool string = last.kind == TOK_STRING && last.span.end >= c->offset;
    uint32_t from = last.kind == TOK_END ? 0 : last.span.end;
    for (uint32_t i = c->offset; i > from && c->text[i - 1] != '\n'; i--) {
        if (c->text[i - 1] == '#') {
            return true;
        }
    }
    return string;
}

void method_completion(Call *call)
{
    uint32_t offset;
    Document *document = call_position(call, &offset);
    const Analysis *a = document ? document_analysis(&call->server->documents, document) : NULL;
    if (!a || !a->names || a->tokens.n == 0) {
        return;
    }
    Completer c = {.call = call, .document = document, .a = a, .offset = offset};
    c.text = document->lined.text;
    find_place(&c);
    text_add(call->result, "{\"isIncomplete\":false,\"items\":[");
    if (!in_prose(&c)) {
        complete(&c);
    }
    text_add(call->result, "]}");
}

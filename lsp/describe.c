/* SPDX-License-Identifier: Apache-2.0 */
/* Describes names, words and schedule keys. */
#include "lsp/describe.h"

#include <string.h>

/* ---- words ---- */

static const Word WORDS[] = {
#define WORD(name, kind, signature, doc) {name, WORD_##kind, signature, doc},
#include "lsp/words.def"
#undef WORD
};

const Word *word_at(size_t index)
{
    return index < sizeof WORDS / sizeof *WORDS ? &WORDS[index] : NULL;
}

const Word *word_find(const char *name)
{
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        if (text_equal(WORDS[i].name, name)) {
            return &WORDS[i];
        }
    }
    return NULL;
}

/* ---- code ---- */

const char *param_code(const Analysis *a, Arena *arena, const ParamDecl *param)
{
    Span span = {param->span.source, param->span.start,
                 param->span.start + (uint32_t)strlen(param->name)};
    const char *text = a->diags.sources.items[span.source].text;
    if (strncmp(text + span.start, param->name, strlen(param->name)) != 0) {
        span.end = param->span.end; /* the result `out` has no name there */
    }
    span.end = param->type && param->type->span.end > span.end ? param->type->span.end : span.end;
    const Expr *fallback = param->fallback;
    span.end = fallback && fallback->span.end > span.end ? fallback->span.end : span.end;
    return source_text(&a->diags, arena, span);
}

const char *definition_type(const Analysis *a, const Definition *definition)
{
    const TypedSpan *typed = analysis_defined(a, definition->span);
    return typed ? typed->type : NULL;
}

static const char *typed_code(const Analysis *a, Arena *arena, const Definition *definition,
                              const char *word)
{
    const char *type = definition_type(a, definition);
    return arena_printf(arena, "%s%s%s%s", word, definition->name, type ? ": " : "",
                        type ? type : "");
}

/* "type T: float" */
static const char *type_code(Arena *arena, const Definition *definition)
{
    const Where *where = definition->kernel ? &definition->kernel->where : &definition->fn->where;
    for (size_t i = 0; i < where->generics.n; i++) {
        if (text_equal(where->generics.items[i].name, definition->name)) {
            return arena_printf(arena, "type %s: %s", definition->name,
                                type_class_name(where->generics.items[i].type_class));
        }
    }
    return arena_printf(arena, "type %s", definition->name);
}

const char *definition_code(const Analysis *a, Arena *arena, const Definition *definition)
{
    switch (definition->kind) {
    case NAME_KERNEL:
        return arena_printf(arena, "kernel %s",
                            source_text(&a->diags, arena, definition->kernel->head));
    case NAME_FN:
        return arena_printf(arena, "fn %s", source_text(&a->diags, arena, definition->fn->head));
    case NAME_PARAM:
    case NAME_RESULT: return param_code(a, arena, definition->param);
    case NAME_SIZE: return typed_code(a, arena, definition, "size ");
    case NAME_TYPE: return type_code(arena, definition);
    case NAME_LET: return typed_code(a, arena, definition, "let ");
    case NAME_VAR: return typed_code(a, arena, definition, "var ");
    case NAME_INDEX: return typed_code(a, arena, definition, "index ");
    case NAME_FILE: return arena_printf(arena, "import %s", definition->name);
    case NAME_BUILTIN: {
        const Word *word = word_find(definition->name);
        return word && word->signature ? word->signature : definition->name;
    }
    case NAME_DTYPE: break;
    }
    return definition->name;
}

/* ---- text ---- */

const char *library_module(const Analysis *a, Arena *arena, int source)
{
    const char *name = source >= 0 ? a->diags.sources.items[source].name : "";
    size_t n = strlen(name); /* <stdlib/math.tile> */
    return name[0] == '<' && n > 14 ? arena_printf(arena, "%.*s", (int)n - 14, name + 8) : NULL;
}

/* "axes `M` (0), `N` (1)" of f32[M, N]; nothing of a scalar. */
static void put_axes(Text *out, const char *type)
{
    const char *at = strchr(type, '[');
    if (!at || strchr(type, '(')) {
        return;
    }
    text_add(out, out->n ? "\n\naxes" : "axes");
    for (int axis = 0; *at && *at != ']'; axis++) {
        size_t n = strcspn(++at, ",]");
        at += *at == ' ';
        n = strcspn(at, ",]");
        text_printf(out, "%s `%.*s` (%d)", axis ? "," : "", (int)n, at, axis);
        at += n;
    }
}

/* The parameters that have this size as an extent. */
static void put_size_uses(Text *out, const Definition *size)
{
    const ParamList *params = size->kernel ? &size->kernel->params : &size->fn->params;
    for (size_t i = 0; i < params->n; i++) {
        const Expr *type = params->items[i].type;
        for (size_t k = 0; type && type->kind == EXPR_INDEX && k < type->args.n; k++) {
            const Expr *dim = type->args.items[k];
            if (dim->kind == EXPR_NAME && text_equal(dim->name, size->name)) {
                text_printf(out, "%saxis %zu of `%s`", out->n ? ", " : "", k,
                            params->items[i].name);
            }
        }
    }
}

static void put_comment(Text *out, const Analysis *a, Arena *arena, Span span)
{
    const char *comment = comment_above(&a->diags, arena, span);
    if (comment) {
        text_add(out, comment);
    }
}

static const char *dtype_text(Arena *arena, const char *name)
{
    DType dtype;
    if (!dtype_from_name(name, strlen(name), &dtype)) {
        return "";
    }
    const char *kind = "unsigned integer";
    if (dtype == DT_BOOL) {
        kind = "true or false";
    } else if (dtype_is_float(dtype)) {
        kind = "floating-point number";
    } else if (dtype_is_signed(dtype)) {
        kind = "signed integer";
    }
    return arena_printf(arena, "%s, %d bit%s", kind, dtype_bits(dtype),
                        dtype_bits(dtype) == 1 ? "" : "s");
}

const char *definition_text(const Analysis *a, Arena *arena, const Definition *definition)
{
    Text out = text_new(arena);
    switch (definition->kind) {
    case NAME_KERNEL: put_comment(&out, a, arena, definition->kernel->span); break;
    case NAME_FN: put_comment(&out, a, arena, definition->fn->span); break;
    case NAME_SIZE: put_size_uses(&out, definition); break;
    case NAME_BUILTIN: {
        const Word *word = word_find(definition->name);
        text_add(&out, word ? word->doc : "");
        break;
    }
    case NAME_DTYPE: text_add(&out, dtype_text(arena, definition->name)); break;
    default: {
        const char *type = definition_type(a, definition);
        bool of_param = definition->kind == NAME_PARAM || definition->kind == NAME_RESULT;
        if (type && of_param) {
            text_printf(&out, "checked as `%s`", type);
        }
        if (type) {
            put_axes(&out, type);
        }
    }
    }
    const char *module = library_module(a, arena, definition->span.source);
    if (module && definition->kind == NAME_FN) {
        text_printf(&out, "%sstandard library, `%s`", out.n ? "\n\n" : "", module);
    } else if (definition->span.source >= 0 && definition->span.source != a->source) {
        text_printf(&out, "%sfrom `%s`", out.n ? "\n\n" : "",
                    a->diags.sources.items[definition->span.source].name);
    }
    return out.data;
}

const char *schedule_key_text(Arena *arena, const ScheduleKey *key)
{
    Text out = text_new(arena);
    text_printf(&out, "%s\n\n", key->doc);
    if (!text_equal(key->subs, "-")) {
        text_printf(&out, "subkeys: `%s`, ", key->subs);
    }
    text_printf(&out, "values: `%s`; decided by the pass `%s`", key->values, key->pass);
    text_printf(&out, "%s\n\nfor %s", key->changes_bits ? ", may change bits" : "", key->where);
    return out.data;
}

const ScheduleDecl *schedule_around(const Analysis *a, uint32_t offset)
{
    for (size_t i = 0; a->module && i < a->module->schedules.n; i++) {
        const ScheduleDecl *schedule = a->module->schedules.items[i];
        if (schedule->full_span.source == a->source && schedule->full_span.start <= offset &&
            offset <= schedule->full_span.end) {
            return schedule;
        }
    }
    return NULL;
}

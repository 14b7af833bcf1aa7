/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of the writer of nests: names, lines, sizes, types and axes in the syntax of the
 * source language, and the reason why a launch cannot be written. */
#include "passes/nest/nest_text.h"

#include "ir/text/ir_text.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

const char *const nest_reasons[] = {
    [NEST_REASON_NONE] = "",
#define NEST_REASON(id, text) [NEST_REASON_##id] = text,
#include "passes/nest/nest_reasons.def"
#undef NEST_REASON
};

void nest_refuse(NestWriter *w, NestReason reason, const Op *op)
{
    if (!w->reason) {
        w->reason = reason;
        w->at = op;
    }
}

/* ---- names ---- */

static bool is_taken(const NestWriter *w, const char *name)
{
    static const char *const words[] = {
        "kernel", "fn",       "schedule", "tune",     "import",    "let",    "var",    "const",
        "inout",  "if",       "else",     "for",      "while",     "break",  "in",     "by",
        "and",    "continue", "or",       "parallel", "unchecked", "assume", "return", "not",
        "true",   "false",    "None",     "inf",      "nan"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (text_equal(words[i], name)) {
            return true;
        }
    }
    for (size_t i = 0; i < w->names.n; i++) {
        if (text_equal(w->names.items[i], name)) {
            return true;
        }
    }
    return false;
}

void nest_take_name(NestWriter *w, const char *name)
{
    ARENA_PUSH(w->func->arena, &w->names, name);
}

const char *nest_name(NestWriter *w, const char *wish)
{
    Arena *arena = w->func->arena;
    const char *plain = arena_strndup(arena, wish, strcspn(wish, "."));
    const char *name = plain;
    for (int i = 2; is_taken(w, name) || !*name; i++) {
        name = arena_printf(arena, "%s%d", *plain ? plain : "t", i);
    }
    nest_take_name(w, name);
    return name;
}

/* The name of a loop's variable: that of its size in small letters. */
static const char *range_name(NestWriter *w, const char *wish)
{
    char *name = arena_strndup(w->func->arena, wish ? wish : "i", wish ? strlen(wish) : 1);
    for (char *at = name; *at; at++) {
        *at = (char)tolower((unsigned char)*at);
    }
    return nest_name(w, name);
}

void nest_line(NestWriter *w, const char *format, ...)
{
    va_list args;
    text_repeat(w->out, ' ', 4 * w->indent);
    va_start(args, format);
    text_vprintf(w->out, format, args);
    va_end(args);
    text_char(w->out, '\n');
}

/* ---- sizes, types, axes ---- */

const char *nest_dim(NestWriter *w, Dim dim)
{
    const DimVar *range = poly_as_range(dim);
    if (range) {
        return range->binder ? w->exprs[range->binder->id].text : "?";
    }
    Text text = text_new(w->func->arena);
    say_dim(w->func, dim, &text);
    return text.data;
}

const char *nest_type_text(NestWriter *w, Type type)
{
    Text text = text_new(w->func->arena);
    text_add(&text, dtype_name(type->dtype));
    for (int i = 0; i < type->rank; i++) {
        text_printf(&text, "%s%s", i ? ", " : "[", nest_dim(w, type->dims[i]));
    }
    text_add(&text, type->rank ? "]" : "");
    return text.data;
}

void nest_entry(NestWriter *w, const char *format, ...)
{
    va_list args;
    text_printf(w->schedule, "    %s", w->scope);
    va_start(args, format);
    text_vprintf(w->schedule, format, args);
    va_end(args);
    text_char(w->schedule, '\n');
}

const char *nest_axis(NestWriter *w, const Value *arg, Dim extent, int64_t step, const char *part,
                      bool exact)
{
    Arena *arena = w->func->arena;
    const DimVar *range =
        arg->type->kind == TYPE_RANGE ? arg->type->dims[0]->terms[0].vars[0] : NULL;
    const char *name = arg->name;
    if (!name && range) {
        name = range->name;
    }
    name = range_name(w, name);
    const char *whole = nest_dim(w, extent);
    w->exprs[arg->id] = (NestExpr){name, BINDS_PRIMARY};
    if (poly_as_range(extent)) {
        nest_refuse(w, NEST_REASON_PART_OF_RANGE, NULL);
    }
    if (step == 0) {
        return arena_printf(arena, "%s in %s", name, part ? part : whole);
    }
    if (exact) {
        return arena_printf(arena, "%s in %s by exactly %lld", name, whole, (long long)step);
    }
    nest_entry(w, "tile %s %lld", name, (long long)step);
    return arena_printf(arena, part ? "%s in %s[%s] by auto" : "%s in %s by auto", name, whole,
                        part);
}

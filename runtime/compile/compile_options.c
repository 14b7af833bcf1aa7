/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a compilation: copies of their own, those of the code generator, and the text that
 * reproduces the compilation. */
#include "runtime/compile/compilation.h"

#include <inttypes.h>

static const char *copy_text(Arena *arena, const char *text)
{
    return text ? arena_strdup(arena, text) : NULL;
}

static const TesseraPair *copy_pairs(Arena *arena, const TesseraPair *from, size_t n)
{
    TesseraPair *pairs = ARENA_ARRAY(arena, TesseraPair, n);
    for (size_t i = 0; i < n; i++) {
        pairs[i] = (TesseraPair){copy_text(arena, from[i].name), copy_text(arena, from[i].value)};
    }
    return pairs;
}

static const TesseraArg *copy_args(Arena *arena, const TesseraOptions *from)
{
    TesseraArg *args = ARENA_ARRAY(arena, TesseraArg, from->n_args);
    for (size_t i = 0; i < from->n_args; i++) {
        args[i] = from->args[i];
        TesseraTensor *tensor = &args[i].tensor;
        bool ranked = tensor->rank >= 0 && tensor->rank <= TESSERA_MAX_RANK;
        size_t bytes = ranked ? sizeof(int64_t) * (size_t)tensor->rank : 0;
        tensor->strides =
            tensor->strides && ranked ? arena_copy(arena, tensor->strides, bytes) : NULL;
    }
    return args;
}

void options_copy(Arena *arena, const TesseraOptions *from, TesseraOptions *to)
{
    const char **lines = ARENA_ARRAY(arena, const char *, from->n_lines);
    for (size_t i = 0; i < from->n_lines; i++) {
        lines[i] = copy_text(arena, from->lines[i]);
    }
    *to = *from;
    to->kernel = copy_text(arena, from->kernel);
    to->target = copy_text(arena, from->target);
    to->pins = copy_text(arena, from->pins);
    to->device = copy_text(arena, from->device);
    to->bindings = copy_pairs(arena, from->bindings, from->n_bindings);
    to->lines = lines;
    TesseraSize *sizes = ARENA_ARRAY(arena, TesseraSize, from->n_sizes);
    TesseraFact *facts = ARENA_ARRAY(arena, TesseraFact, from->n_facts);
    for (size_t i = 0; i < from->n_sizes; i++) {
        sizes[i] = (TesseraSize){copy_text(arena, from->sizes[i].name), from->sizes[i].value};
    }
    for (size_t i = 0; i < from->n_facts; i++) {
        facts[i] = from->facts[i];
        facts[i].name = copy_text(arena, from->facts[i].name);
    }
    to->sizes = sizes;
    to->facts = facts;
    to->args = copy_args(arena, from);
    to->strides = copy_pairs(arena, from->strides, from->n_strides);
}

void compilation_reproducer(void *user, Text *out)
{
    const Compilation *c = user;
    const TesseraOptions *o = &c->options;
    text_printf(out, "# tessera %s: compile %s", TESSERA_VERSION, c->name);
    text_printf(out, "%s%s", o->kernel ? ":" : "", o->kernel ? o->kernel : "");
    text_printf(out, " --target %s", o->target ? o->target : "(none)");
    for (size_t i = 0; i < o->n_bindings; i++) {
        text_printf(out, " --set %s=%s", o->bindings[i].name, o->bindings[i].value);
    }
    for (size_t i = 0; i < o->n_sizes; i++) {
        text_printf(out, " --size %s=%" PRId64, o->sizes[i].name, o->sizes[i].value);
    }
    for (size_t i = 0; i < o->n_strides; i++) {
        text_printf(out, " --strides '%s=%s'", o->strides[i].name, o->strides[i].value);
    }
    for (size_t i = 0; i < o->n_lines; i++) {
        text_printf(out, " --schedule '%s'", o->lines[i]);
    }
    for (size_t i = 0; c->pinned.taken && i < c->pinned.taken->lines.n; i++) {
        text_printf(out, " --schedule '%s'", c->pinned.taken->lines.items[i].text);
    }
    text_char(out, '\n');
    text_add_n(out, c->text, c->n);
}

CodegenOptions compilation_codegen(Compilation *c)
{
    int level = c->options.optimize; /* 0: the default; negative: none */
    if (level == 0) {
        level = 3;
    } else if (level < 0) {
        level = 0;
    }
    return (CodegenOptions){.optimize = level, .report_time = debug_report_time, .user = c};
}

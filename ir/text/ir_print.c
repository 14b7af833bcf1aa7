/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the text form of the IR (docs/ir.md). ir_parse.c reads it back to the same function. */
#include "ir/interns.h"
#include "ir/layout/layout.h"
#include "ir/schedule.h"
#include "ir/target/target_card.h"
#include "ir/text/ir_text.h"
#include "support/hash_table.h"

#include <inttypes.h>
#include <string.h>

typedef struct Printer {
    const Func *func;
    Text *out;
    const char **names; /* by value id: without the %; NULL until printed once */
    HashTable taken;    /* names of the source that values have */
    uint32_t unnamed;
    int indent;
    PrintSpans *spans; /* by line; NULL: nothing asks */
    size_t counted;    /* bytes of `out` whose lines are in `spans` */
} Printer;

/* ---- names: the source's name, made unique by a suffix; else a number ---- */

typedef struct Name {
    const char *plain;
    int uses;
} Name;

static bool same_name(const void *item, const void *key)
{
    return strcmp(((const Name *)item)->plain, key) == 0;
}

/* How many values have had this name, with this one. */
static int count_name(Printer *p, const char *plain)
{
    uint64_t hash = hash_text(0, plain);
    Name *name = table_find(&p->taken, hash, same_name, plain);
    if (!name) {
        name = ARENA_NEW(p->func->arena, Name);
        name->plain = plain;
        table_add(p->func->arena, &p->taken, hash, name);
    }
    return ++name->uses;
}

static const char *value_name(Printer *p, const Value *value)
{
    if (p->names[value->id]) {
        return p->names[value->id];
    }
    const char *name;
    Arena *arena = p->func->arena;
    if (!value->name || (value->name[0] >= '0' && value->name[0] <= '9')) {
        Text number = text_new_for(arena, 10);
        text_i64(&number, p->unnamed++);
        name = number.data;
    } else {
        /* A name that came from printed text carries its suffix: strip it, so that print → parse →
         * print is a fixed point. */
        size_t n = strcspn(value->name, ".");
        const char *plain = arena_strndup(arena, value->name, n);
        int uses = count_name(p, plain);
        name = uses == 1 ? plain : arena_printf(arena, "%s.%d", plain, uses);
    }
    p->names[value->id] = name;
    return name;
}

/* ---- dimensions and types ---- */

static void put_dim(Printer *p, Dim dim)
{
    if (dim->n_terms == 0) {
        text_char(p->out, '0');
    }
    for (int i = 0; i < dim->n_terms; i++) {
        const PolyTerm *term = &dim->terms[i];
        text_add(p->out, i ? " + " : "");
        if (term->coef != 1 || term->n == 0) {
            text_i64(p->out, term->coef);
            text_add(p->out, term->n ? "*" : "");
        }
        for (int k = 0; k < term->n; k++) {
            text_add(p->out, k ? "*" : "");
            const DimVar *var = term->vars[k];
            if (var->kind == DIM_RANGE && var->binder) {
                text_char(p->out, '%');
                text_add(p->out, value_name(p, var->binder));
            } else {
                text_add(p->out, var->name ? var->name : "?");
            }
        }
    }
}

static void put_dims(Printer *p, int n, const Dim *dims)
{
    text_char(p->out, '[');
    for (int i = 0; i < n; i++) {
        text_add(p->out, i ? ", " : "");
        put_dim(p, dims[i]);
    }
    text_char(p->out, ']');
}

static void put_shaped(Printer *p, Type type)
{
    text_add(p->out, dtype_name(type->dtype));
    if (type->rank) {
        put_dims(p, type->rank, type->dims);
    }
}

static void put_type(Printer *p, Type type)
{
    switch (type->kind) {
    case TYPE_ARRAY:
        put_shaped(p, type);
        if (type->layout) {
            text_add(p->out, "@L");
            text_i64(p->out, type->layout->id);
        }
        break;
    case TYPE_TENSOR:
    case TYPE_SHARED:
        text_add(p->out, type->kind == TYPE_TENSOR ? "tensor<" : "shared<");
        put_shaped(p, type);
        if (type->strides) {
            text_add(p->out, " strides ");
            put_dims(p, type->rank, type->strides);
        }
        if (type->align) {
            text_printf(p->out, " align %d", type->align);
        }
        text_char(p->out, '>');
        break;
    case TYPE_RANGE: text_add(p->out, "range"); break;
    case TYPE_MBARRIER:
        text_add(p->out, "mbarrier<");
        put_dim(p, type->dims[0]);
        text_char(p->out, '>');
        break;
    }
}

/* ---- operations ---- */

static void put_value(Printer *p, const Value *value)
{
    text_char(p->out, '%');
    text_add(p->out, value_name(p, value));
}

/* Bytes from 0x80 on stand as they are: UTF-8. */
static void put_quoted(Printer *p, const char *text)
{
    text_char(p->out, '"');
    for (const char *c = text; *c; c++) {
        if (*c == '\n' || *c == '\t') {
            text_add(p->out, *c == '\n' ? "\\n" : "\\t");
        } else if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            text_printf(p->out, "\\x%02x", (unsigned)(unsigned char)*c);
        } else {
            text_add(p->out, *c == '"' || *c == '\\' ? "\\" : "");
            text_char(p->out, *c);
        }
    }
    text_char(p->out, '"');
}

static void put_attr(Printer *p, const Op *op, const Attr *attr)
{
    text_char(p->out, ' ');
    text_add(p->out, attr_name(attr->key));
    text_char(p->out, '=');
    switch (attr_kind(attr->key)) {
    case ATTR_KIND_INT: text_i64(p->out, attr->i); break;
    case ATTR_KIND_NUM:
        if (op->n_results && !dtype_is_float(op->results[0]->type->dtype)) {
            text_i64(p->out, attr->i);
        } else {
            text_double(p->out, attr->f);
        }
        break;
    case ATTR_KIND_WORD: text_add(p->out, attr->word); break;
    case ATTR_KIND_TEXT: put_quoted(p, attr->word); break;
    case ATTR_KIND_INTS:
        text_char(p->out, '[');
        for (int i = 0; i < attr->n; i++) {
            text_add(p->out, i ? ", " : "");
            text_i64(p->out, attr->ints[i]);
        }
        text_char(p->out, ']');
        break;
    case ATTR_KIND_DIMS: put_dims(p, attr->n, attr->dims); break;
    }
}

static void put_line_start(Printer *p)
{
    text_repeat(p->out, ' ', 2 * p->indent);
}

/* The attribute with the least key above `key`; NULL: that was the last. */
static const Attr *next_attr(const Op *op, int key)
{
    const Attr *next = NULL;
    for (int i = 0; i < op->n_attrs; i++) {
        const Attr *attr = &op->attrs[i];
        if ((int)attr->key > key && (!next || attr->key < next->key)) {
            next = attr;
        }
    }
    return next;
}

/* Everything but the regions. */
static void put_op_head(Printer *p, const Op *op)
{
    for (int i = 0; i < op->n_results; i++) {
        text_add(p->out, i ? ", " : "");
        put_value(p, op->results[i]);
    }
    text_add(p->out, op->n_results ? " = " : "");
    text_add(p->out, op_info(op->kind)->name);
    for (int at = 0; at < op->n_operands; at = access_next(op, at)) {
        Access access = op_access(op, at);
        text_add(p->out, at ? ", " : " ");
        put_value(p, access.memory);
        if (!type_is_memory(access.memory->type) && access.n == 0) {
            continue;
        }
        text_char(p->out, '[');
        for (int i = 0; i < access.n; i++) {
            text_add(p->out, i ? ", " : "");
            if (access.indices[i]) {
                put_value(p, access.indices[i]);
            } else {
                text_char(p->out, ':');
            }
        }
        text_char(p->out, ']');
    }
    const Attr *attr = next_attr(op, -1);
    for (; attr; attr = next_attr(op, (int)attr->key)) {
        if (attr->key != ATTR_OVER || !op_runs_over_tile(op)) { /* it is understood */
            put_attr(p, op, attr);
        }
    }
}

static void put_result_types(Printer *p, const Op *op)
{
    for (int i = 0; i < op->n_results; i++) {
        text_add(p->out, i ? ", " : " : ");
        put_type(p, op->results[i]->type);
    }
}

static void put_block(Printer *p, const Block *block);

/* `spans` gets a line for each that `out` has by now. */
static void count_lines(Printer *p)
{
    for (; p->counted < p->out->n; p->counted++) {
        if (p->out->data[p->counted] == '\n') {
            ARENA_PUSH(p->func->arena, p->spans, SPAN_NONE);
        }
    }
}

static void put_block(Printer *p, const Block *block)
{
    text_add(p->out, "{\n");
    p->indent++;
    if (block->n_args) {
        put_line_start(p);
        text_char(p->out, '(');
        for (int i = 0; i < block->n_args; i++) {
            text_add(p->out, i ? ", " : "");
            put_value(p, block->args[i]);
            text_add(p->out, ": ");
            put_type(p, block->args[i]->type);
        }
        text_add(p->out, ")\n");
    }
    for (const Op *op = block->first; op; op = op->next) {
        if (p->spans) {
            count_lines(p);
            p->spans->items[p->spans->n - 1] = op->span;
        }
        put_line_start(p);
        put_op_head(p, op);
        for (int i = 0; i < op->n_regions; i++) {
            text_add(p->out, " ");
            put_block(p, op->regions[i]);
        }
        put_result_types(p, op);
        text_char(p->out, '\n');
    }
    p->indent--;
    put_line_start(p);
    text_char(p->out, '}');
}

/* ---- the header ---- */

static const char *stage_name(IrLevel stage)
{
    static const char *const NAMES[] = {
        [LEVEL_TENSOR] = "tensor", [LEVEL_LOOP] = "loop", [LEVEL_STAGED] = "staged"};
    return NAMES[stage];
}

static void put_params(Printer *p)
{
    static const char *const io[] = {"in", "out", "inout", "scratch"};
    for (size_t i = 0; i < p->func->params.n; i++) {
        const Param *param = &p->func->params.items[i];
        text_printf(p->out, "  %s ", io[param->io]);
        put_value(p, param->value);
        text_add(p->out, ": ");
        put_type(p, param->value->type);
        for (int axis = 0; param->axis_perm && axis < param->value->type->rank; axis++) {
            text_printf(p->out, "%s%" PRId64, axis ? ", " : " axis_perm [", param->axis_perm[axis]);
        }
        text_add(p->out, param->axis_perm ? "]" : "");
        for (int axis = 0; param->collapsed && axis < param->value->type->rank; axis++) {
            text_printf(p->out, "%s%" PRId64, axis ? ", " : " collapsed [", param->collapsed[axis]);
        }
        if (param->collapsed) {
            text_add(p->out, "] of ");
            put_dims(p, param->caller_type->rank, param->caller_type->dims);
        }
        /* An im2col view prints stride, dilation, offset and, of pooling windows, the inner stride
         * of each spatial axis: `im2col %x [1, 1, -1]`. */
        const Im2colView *windows = param->im2col;
        if (windows) {
            text_add(p->out, " im2col ");
            put_value(p, windows->of);
            for (int j = 0; j < windows->n; j++) {
                text_printf(p->out, " [%" PRId64 ", %" PRId64 ", ", windows->axes[j].stride,
                            windows->axes[j].dilation);
                put_dim(p, windows->axes[j].offset);
                if (windows->axes[j].inner) {
                    text_printf(p->out, ", %" PRId64, windows->axes[j].inner);
                }
                text_char(p->out, ']');
            }
        }
        text_add(p->out, param->sorted ? " sorted" : "");
        if (param->alias) {
            text_add(p->out, " alias ");
            put_value(p, param->alias);
        }
        text_char(p->out, '\n');
    }
}

static void put_layouts(Printer *p)
{
    static const char *const inputs[] = {" register [", " lane [", " warp ["};
    for (size_t i = 0; i < p->func->interns->layouts.n; i++) {
        const Layout *layout = p->func->interns->layouts.items[i];
        text_printf(p->out, "  layout L%" PRIu32 " = rank %d", layout->id, layout->rank);
        for (int in = 0; in < IN_COUNT; in++) {
            text_add(p->out, inputs[in]);
            for (int bit = 0; bit < layout->bits[in]; bit++) {
                text_add(p->out, bit ? ", [" : "[");
                for (int axis = 0; axis < layout->rank; axis++) {
                    text_add(p->out, axis ? ", " : "");
                    text_i64(p->out, layout->basis[in][bit][axis]);
                }
                text_char(p->out, ']');
            }
            text_char(p->out, ']');
        }
        text_char(p->out, '\n');
    }
}

static Printer printer_new(const Func *func, Text *out)
{
    Printer p = {.func = func, .out = out};
    p.names = ARENA_ARRAY(func->arena, const char *, func->n_values);
    return p;
}

static void put_func(Printer *p)
{
    const Func *func = p->func;
    text_printf(p->out, "func %s level %s%s", func->name, stage_name(func->level),
                func->padded ? " padded" : "");
    if (func->target) {
        text_printf(p->out, " target %s", target_spelling(func->target));
    }
    text_add(p->out, " {\n");
    for (size_t i = 0; i < p->func->dimvars.n; i++) {
        const DimVar *var = p->func->dimvars.items[i];
        if (var->kind == DIM_RANGE) {
            continue;
        }
        /* Only the facts that differ from a dimension variable's defaults are printed. */
        int64_t none = var->kind == DIM_SIZE ? 0 : INT64_MIN;
        text_printf(p->out, "  %s %s", var->kind == DIM_SIZE ? "size" : "stride", var->name);
        if (var->by > 0) {
            text_add(p->out, " = [");
            put_dim(p, var->of);
            text_printf(p->out, "] // %" PRId64, var->by);
        }
        if (var->multiple != 1) {
            text_printf(p->out, " multiple %" PRId64, var->multiple);
        }
        if (var->least != none) {
            text_printf(p->out, " least %" PRId64, var->least);
        }
        if (var->most != INT64_MAX) {
            text_printf(p->out, " most %" PRId64, var->most);
        }
        text_char(p->out, '\n');
    }
    put_params(p);
    for (size_t i = 0; i < p->func->schedule->entries.n; i++) {
        const ScheduleEntry *line = &p->func->schedule->entries.items[i];
        text_add(p->out, "  schedule ");
        if (line->per_launch) {
            text_printf(p->out, "launch %d ", line->launch);
        }
        text_printf(p->out, "%s%s%s = ", line->key, line->sub[0] ? "." : "", line->sub);
        if (line->symbol) {
            text_add(p->out, line->symbol);
        } else {
            text_printf(p->out, "%" PRId64, line->number);
        }
        text_printf(p->out, " %s\n", entry_origins[line->origin]);
    }
    put_layouts(p);
    p->indent = 1;
    for (size_t i = 0; i < func->functions.n; i++) {
        text_printf(p->out, "  function %s ", func->functions.items[i].name);
        put_block(p, func->functions.items[i].block);
        text_char(p->out, '\n');
    }
    text_add(p->out, "  body ");
    put_block(p, func->body);
    text_add(p->out, "\n}\n");
}

void print_func(const Func *func, Text *out)
{
    Printer p = printer_new(func, out);
    put_func(&p);
}

void print_func_spans(const Func *func, Text *out, PrintSpans *spans)
{
    Printer p = printer_new(func, out);
    p.spans = spans;
    ARENA_PUSH(func->arena, spans, SPAN_NONE);
    put_func(&p);
    count_lines(&p);
}

void print_type(const Func *func, Type type, Text *out)
{
    Printer p = printer_new(func, out);
    put_type(&p, type);
}

void print_dim(const Func *func, Dim dim, Text *out)
{
    Printer p = printer_new(func, out);
    put_dim(&p, dim);
}

void print_op(const Func *func, const Op *op, Text *out)
{
    Printer p = printer_new(func, out);
    put_op_head(&p, op);
    put_result_types(&p, op);
}

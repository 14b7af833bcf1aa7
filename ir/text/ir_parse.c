/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the text form of the IR (docs/ir.md): the header here, ops in ir_parse_op.c. The result
 * is well-formed but not yet verified. */
#include "ir/nominal_sizes.h"
#include "ir/schedule.h"
#include "ir/target/target_card.h"
#include "ir/text/ir_parse.h"
#include "ir/text/ir_text.h"

#include <ctype.h>
#include <string.h>

/* ---- the header ---- */

static void size_line(Parser *p, DimKind kind)
{
    size_t start = p->at;
    const char *name = parse_word(p);
    bool computed = kind == DIM_SIZE && parse_take(p, '='), dot = strchr(name, '.') != NULL;
    if (dot ? kind == DIM_SIZE && !computed : kind != DIM_SIZE) {
        parse_fail(p, start, "names of strides have a dot, of sizes those alone that passes add");
    }
    DimVar *var = kind == DIM_SIZE ? func_size(p->func, name) : func_stride(p->func, name);
    if (computed) {
        /* A size that is computed from another one: `= [M + 1] // 2`. */
        Dim dims[MAX_RANK];
        size_t at = p->at;
        int n = parse_dims(p, dims);
        parse_need(p, '/');
        parse_need(p, '/');
        var->by = parse_integer(p);
        var->of = n == 1 ? dims[0] : NULL;
        if (n != 1 || var->by < 1 || poly_mentions(dims[0], var)) {
            parse_fail(p, at, "a size is one other by a positive number");
        }
    }
    for (;;) {
        if (parse_take_word(p, "multiple")) {
            var->multiple = parse_integer(p);
        } else if (parse_take_word(p, "least")) {
            var->least = parse_integer(p);
        } else if (parse_take_word(p, "most")) {
            var->most = parse_integer(p);
        } else {
            break;
        }
    }
    if (var->multiple < 1) {
        parse_fail(p, p->at, "a size is a multiple of 1 at least");
    }
}

static void collapsed_param(Parser *p, Param *param)
{
    int64_t collapsed[MAX_RANK];
    Dim dims[MAX_RANK];
    Type type = param->value->type;
    size_t start = p->at;
    int n = parse_int_list(p, collapsed, MAX_RANK);
    if (n != type->rank || !parse_take_word(p, "of")) {
        parse_fail(p, start, "expected how many axes each axis is, and `of` the caller's");
    }
    int rank = parse_dims(p, dims);
    param->caller_type = type_tensor(p->func, type->dtype, rank, dims);
    param->collapsed = arena_copy(p->arena, collapsed, sizeof *collapsed * (size_t)n);
}

/* `%x [1, 1, -1] [2, 1, -1*half] [4, 1, 0, 2]` */
static void im2col_param(Parser *p, Param *param)
{
    Im2colView windows = {.of = parse_value(p)};
    Dim axis[MAX_RANK];
    size_t start = p->at;
    for (parse_skip(p); parse_peek(p) == '[' && windows.n < MAX_SPATIAL; parse_skip(p)) {
        int i = windows.n++;
        int n = parse_dims(p, axis);
        if ((n != 3 && n != 4) || !poly_is_const(axis[0], &windows.axes[i].stride) ||
            !poly_is_const(axis[1], &windows.axes[i].dilation) ||
            (n == 4 && !poly_is_const(axis[3], &windows.axes[i].inner))) {
            parse_fail(p, start, "an axis of im2col has a stride, a dilation and an offset, and of "
                                 "pooling windows an inner stride");
        }
        windows.axes[i].offset = axis[2];
    }
    param->im2col = arena_copy(p->arena, &windows, sizeof windows);
}

static void param_line(Parser *p, ParamIo io)
{
    const char *name = parse_value_name(p);
    parse_need(p, ':');
    Value *param = func_param(p->func, name, parse_value_type(p), io);
    if (parse_take_word(p, "axis_perm")) {
        int64_t order[MAX_RANK];
        size_t start = p->at;
        if (parse_int_list(p, order, MAX_RANK) != param->type->rank) {
            parse_fail(p, start, "an axis permutation names each axis once");
        }
        p->func->params.items[param->index].axis_perm =
            arena_copy(p->arena, order, sizeof *order * param->type->rank);
    }
    if (parse_take_word(p, "collapsed")) {
        collapsed_param(p, &p->func->params.items[param->index]);
    }
    if (parse_take_word(p, "im2col")) {
        im2col_param(p, &p->func->params.items[param->index]);
    }
    p->func->params.items[param->index].sorted = parse_take_word(p, "sorted");
    if (parse_take_word(p, "alias")) {
        p->func->params.items[param->index].alias = parse_value(p);
    }
    parse_define(p, param, name);
}

/* schedule KEY[.SUB] = VALUE ORIGIN, or schedule launch N KEY… */
static void schedule_entry(Parser *p)
{
    bool alone = parse_take_word(p, "launch");
    int64_t launch = alone ? parse_integer(p) : 0;
    char *key = arena_strdup(p->arena, parse_word(p));
    char *dot = strchr(key, '.');
    const char *sub = dot ? dot + 1 : "";
    if (dot) {
        *dot = 0;
    }
    parse_need(p, '=');
    parse_skip(p);
    bool is_number = isdigit((unsigned char)parse_peek(p)) || parse_peek(p) == '-';
    int64_t amount = is_number ? parse_integer(p) : 0;
    const char *name = is_number ? NULL : parse_word(p);
    for (int origin = ENTRY_DERIVED; origin <= ENTRY_COMMAND; origin++) {
        if (parse_take_word(p, entry_origins[origin])) {
            schedule_add_user(p->func, (ScheduleEntry){.key = key,
                                                       .sub = sub,
                                                       .symbol = name,
                                                       .number = amount,
                                                       .origin = (EntryOrigin)origin,
                                                       .span = SPAN_NONE,
                                                       .per_launch = alone,
                                                       .launch = (int)launch});
            return;
        }
    }
    parse_fail(p, p->at, "expected the line's origin");
}

static void layout_line(Parser *p)
{
    static const char *const inputs[] = {"register", "lane", "warp"};
    Layout layout = {0};
    parse_word(p);
    parse_need(p, '=');
    parse_need_word(p, "rank");
    int64_t rank = parse_integer(p);
    if (rank < 1 || rank > MAX_RANK) {
        parse_fail(p, p->at, "a layout has 1 to 8 axes");
    }
    layout.rank = (uint8_t)rank;
    for (int in = 0; in < IN_COUNT; in++) {
        parse_need_word(p, inputs[in]);
        parse_need(p, '[');
        while (!parse_take(p, ']')) {
            int64_t basis[MAX_RANK] = {0};
            if (layout.bits[in] && !parse_take(p, ',')) {
                parse_fail(p, p->at, "expected `,`");
            }
            if (layout.bits[in] == LAYOUT_BITS || parse_int_list(p, basis, MAX_RANK) != rank) {
                parse_fail(p, p->at,
                           "a basis vector has one number an axis, an input at most 12 bits");
            }
            for (int axis = 0; axis < rank; axis++) {
                layout.basis[in][layout.bits[in]][axis] = (int32_t)basis[axis];
            }
            layout.bits[in]++;
        }
    }
    ARENA_PUSH(p->arena, &p->layouts, func_intern_layout(p->func, &layout));
}

static void header_lines(Parser *p)
{
    for (;;) {
        if (parse_take_word(p, "size")) {
            size_line(p, DIM_SIZE);
        } else if (parse_take_word(p, "stride")) {
            size_line(p, DIM_STRIDE);
        } else if (parse_take_word(p, "in")) {
            param_line(p, PARAM_IN);
        } else if (parse_take_word(p, "out")) {
            param_line(p, PARAM_OUT);
        } else if (parse_take_word(p, "inout")) {
            param_line(p, PARAM_INOUT);
        } else if (parse_take_word(p, "scratch")) {
            param_line(p, PARAM_SCRATCH);
        } else if (parse_take_word(p, "schedule")) {
            schedule_entry(p);
        } else if (parse_take_word(p, "layout")) {
            layout_line(p);
        } else if (parse_take_word(p, "function")) {
            const char *name = parse_word(p);
            Block *block = build_block(p->func, NULL);
            parse_region(p, NULL, block);
            func_add_function(p->func, name, block);
        } else {
            return;
        }
    }
}

static IrLevel stage(Parser *p)
{
    if (parse_take_word(p, "tensor")) {
        return LEVEL_TENSOR;
    }
    if (parse_take_word(p, "loop")) {
        return LEVEL_LOOP;
    }
    parse_need_word(p, "staged");
    return LEVEL_STAGED;
}

Func *parse_func(Arena *arena, Diags *diags, int source)
{
    Parser *p = ARENA_NEW(arena, Parser);
    p->arena = arena;
    p->diags = diags;
    p->source = source;
    p->text = diags->sources.items[source].text;
    p->n = diags->sources.items[source].n;
    if (setjmp(p->failed)) {
        return NULL;
    }
    parse_need_word(p, "func");
    p->func = func_new(p->arena, p->diags, parse_word(p));
    parse_need_word(p, "level");
    p->func->level = stage(p);
    p->func->padded = parse_take_word(p, "padded");
    if (parse_take_word(p, "target")) {
        size_t start = p->at;
        const Target *nearest;
        p->func->target = target_on_card(arena, parse_word(p), &nearest);
        if (!p->func->target) {
            parse_fail(p, start, "no such target");
        }
    }
    parse_need(p, '{');
    header_lines(p);
    parse_need_word(p, "body");
    parse_need(p, '{');
    parse_ops(p, p->func->body);
    parse_need(p, '}');
    parse_need(p, '}');
    if (parse_peek(p)) {
        parse_fail(p, p->at, "text after the function");
    }
    nominal_sizes_choose(p->func);
    return p->func;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the module's observer the types of names and expressions, as an editor shows them. */
#include "frontend/lower/lower.h"

#include <inttypes.h>
#include <string.h>

static void describe_const(const Val *val, Text *out)
{
    text_printf(out, "%s = ", dtype_name(val->dtype));
    if (val->dtype == DT_BOOL) {
        text_add(out, val->scalar.i ? "true" : "false");
    } else if (dtype_is_int(val->dtype)) {
        text_printf(out, "%" PRId64, val->scalar.i);
    } else {
        text_double(out, val->scalar.f);
    }
}

static void describe(Lower *l, const Val *val, Text *out)
{
    switch (val->kind) {
    case VAL_CONST: describe_const(val, out); break;
    case VAL_DIM: text_printf(out, "i64 = %s", dim_text(l, val->dim)); break;
    case VAL_DTYPE: text_printf(out, "type %s", dtype_name(val->dtype)); break;
    case VAL_TYPE: text_printf(out, "type %s", type_text(l, val->type)); break;
    case VAL_RANGE: {
        const DimVar *range = poly_as_range(val->dim);
        Dim whole = range ? range->axis_extent : NULL;
        text_printf(out, "range of %s", whole ? dim_text(l, whole) : "an axis");
        break;
    }
    case VAL_TUPLE:
        for (int i = 0; i < val->n_items; i++) {
            text_add(out, i ? ", " : "(");
            describe(l, &val->items[i], out);
        }
        text_char(out, ')');
        break;
    default: text_add(out, val_text(l, val));
    }
}

static bool is_observed(const Lower *l, Span span, const Val *val)
{
    return l->module->observer && span.source >= 0 && span.end > span.start && !is_poison(val) &&
           !in_library(l, span);
}

void observe_definition(Lower *l, const char *name, Span span, const Val *val)
{
    if (is_observed(l, span, val)) {
        Text text = text_new(l->arena);
        describe(l, val, &text);
        span.end = span.start + (uint32_t)strlen(name); /* of a result with its type */
        l->module->observer->defined(l->module->observer->user, span, text.data);
    }
}

void observe_expression(Lower *l, const Expr *expr, const Val *val)
{
    if (is_observed(l, expr->span, val)) {
        Text text = text_new(l->arena);
        describe(l, val, &text);
        l->module->observer->typed(l->module->observer->user, expr->span, text.data);
    }
}

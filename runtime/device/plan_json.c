/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a launch plan as JSON, for programs that launch the machine code themselves;
 * docs/tools.md explains the fields. */
#include "runtime/device/plan_json.h"

#include <inttypes.h>
#include <stdio.h>

static void put_list(Text *out, int i)
{
    text_add(out, i ? ",\n    " : "\n    ");
}

static void put_int(Text *out, const char *name, int64_t value)
{
    text_printf(out, "\"%s\": %" PRId64, name, value);
}

static void put_bool(Text *out, const char *name, bool value)
{
    text_printf(out, ", \"%s\": %s", name, value ? "true" : "false");
}

/* [[coefficient, size, size, …], …] */
static void put_expr(Text *out, const PlanExpr *expr)
{
    text_char(out, '[');
    for (int i = 0; i < expr->n; i++) {
        const PlanTerm *term = &expr->terms[i];
        text_printf(out, "%s[%" PRId64, i ? ", " : "", term->coef);
        for (int v = 0; v < term->n; v++) {
            text_printf(out, ", %d", term->vars[v]);
        }
        text_char(out, ']');
    }
    text_char(out, ']');
}

static void put_exprs(Text *out, const char *name, const PlanExpr *exprs, int n)
{
    text_printf(out, ", \"%s\": [", name);
    for (int i = 0; i < n; i++) {
        text_add(out, i ? ", " : "");
        put_expr(out, &exprs[i]);
    }
    text_char(out, ']');
}

static void put_tensor(Text *out, const char *name, DType dtype, const char *io, int rank)
{
    text_printf(out,
                "{\"name\": \"%s\", \"dtype\": \"%s\", \"bits\": %d, \"io\": \"%s\", \"rank\": %d",
                name, dtype_name(dtype), dtype_memory_bits(dtype), io, rank);
}

static void put_param(Text *out, const PlanParam *param)
{
    static const char *const io[] = {"in", "out", "inout"};
    put_tensor(out, param->name, param->dtype, io[param->io], param->rank);
    put_exprs(out, "dims", param->dims, param->rank);
    text_add(out, ", \"order\": [");
    for (int axis = 0; axis < param->rank; axis++) {
        text_printf(out, "%s%d", axis ? ", " : "", param->order[axis]);
    }
    text_char(out, ']');
    for (int axis = 0; axis < param->n_merged; axis++) {
        text_printf(out, "%s%d", axis ? ", " : ", \"merged\": [", param->merged[axis]);
    }
    text_add(out, param->n_merged ? "]" : "");
    if (param->strides) {
        put_exprs(out, "strides", param->strides, param->rank);
    }
    text_add(out, ", ");
    put_int(out, "align", param->align);
    text_char(out, '}');
}

static void put_maps(Text *out, const Plan *plan)
{
    text_add(out, "  \"maps\": [");
    for (int i = 0; i < plan->n_maps; i++) {
        const PlanTensorMap *map = &plan->maps[i];
        put_list(out, i);
        text_printf(out, "{\"param\": %d, \"box\": [", map->param);
        for (int axis = 0; axis < map->rank; axis++) {
            text_printf(out, "%s%" PRId64, axis ? ", " : "", map->box[axis]);
        }
        text_printf(out, "], \"swizzle\": %d", map->swizzle);
        put_bool(out, "wide_l2", map->wide_l2);
        if (map->tf32) {
            put_bool(out, "tf32", true);
        }
        if (map->few > 0) {
            text_printf(out, ", \"few\": %d", map->few - 1);
        }
        for (int axis = 0; axis < map->n_merged; axis++) {
            text_printf(out, "%s%d%s", axis ? ", " : ", \"merged\": [", map->merged[axis],
                        axis + 1 == map->n_merged ? "]" : "");
        }
        for (int axis = 0; axis < map->n_split; axis++) {
            text_printf(out, "%s%" PRId64 "%s", axis ? ", " : ", \"split\": [", map->split[axis],
                        axis + 1 == map->n_split ? "]" : "");
        }
        for (int axis = 0; axis < map->n_windows; axis++) {
            const PlanWindows *windows = &map->windows[axis];
            text_add(out, axis ? ", {" : ", \"windows\": [{");
            text_add(out, "\"first\": ");
            put_expr(out, &windows->first);
            text_add(out, ", ");
            put_int(out, "step", windows->step);
            text_add(out, ", \"places\": ");
            put_expr(out, &windows->places);
            text_char(out, '}');
        }
        text_add(out, map->n_windows ? "]}" : "}");
    }
    text_add(out, "],\n");
}

/* ---- launches ---- */

typedef struct ArgLayout {
    int bytes, align;
} ArgLayout;

static void put_launch(Text *out, const Plan *plan, const PlanLaunch *launch)
{
    text_printf(out, "{\"symbol\": \"%s\", ", launch->symbol);
    put_int(out, "threads", launch->threads);
    text_add(out, ", ");
    put_int(out, "shared", launch->shared_bytes);
    put_bool(out, "persistent", launch->persistent);
    text_add(out, ", ");
    put_int(out, "blocks_per_unit", launch->blocks_per_unit);
    text_add(out, ", ");
    put_int(out, "cluster", launch->cluster > 1 ? launch->cluster : 1);
    put_bool(out, "early", launch->dependent);
    put_bool(out, "concurrent", launch->concurrent);
    if (launch->most_tiles > 0) {
        text_printf(out, ", \"most_tiles\": %" PRId64, launch->most_tiles);
    }
    text_add(out, ",\n     \"axes\": [");
    for (int i = 0; i < launch->n_axes; i++) {
        text_add(out, i ? ", {\"extent\": " : "{\"extent\": ");
        put_expr(out, &launch->axes[i].extent);
        text_printf(out, ", \"step\": %" PRId64, launch->axes[i].step);
        if (launch->axes[i].from > 0) {
            text_printf(out, ", \"from\": %" PRId64, launch->axes[i].from);
        }
        if (launch->axes[i].upto > 0) {
            text_printf(out, ", \"upto\": %" PRId64, launch->axes[i].upto);
        }
        text_char(out, '}');
    }
    text_char(out, ']');
    /* Arguments are packed one after the other at their own alignment. */
    static const char *const kinds[] = {"pointer", "scalar", "size", "map", "log"};
    int at = 0;
    text_add(out, ",\n     \"args\": [");
    for (int i = 0; i < launch->n_args; i++) {
        const PlanArg *arg = &launch->args[i];
        int bytes =
            arg->kind == ARG_SCALAR ? (dtype_bits(plan->params[arg->index].dtype) + 7) / 8 : 8;
        ArgLayout layout = arg->kind == ARG_MAP ? (ArgLayout){128, 64} : (ArgLayout){bytes, bytes};
        at = (at + layout.align - 1) / layout.align * layout.align;
        text_printf(out, "%s{\"kind\": \"%s\", \"index\": %d, \"offset\": %d, \"bytes\": %d}",
                    i ? ",\n              " : "", kinds[arg->kind], arg->index, at, layout.bytes);
        at += layout.bytes;
    }
    text_char(out, ']');
    text_char(out, '}');
}

void plan_json(const Plan *plan, Text *out)
{
    text_printf(out, "{\n  \"kernel\": \"%s\", \"target\": \"%s\",\n", plan->kernel, plan->target);
    text_add(out, "  \"sizes\": [");
    for (int i = 0; i < plan->n_sizes; i++) {
        const PlanSize *size = &plan->sizes[i];
        put_list(out, i);
        text_printf(out, "{\"name\": \"%s\", ", size->name);
        put_int(out, "multiple", size->multiple);
        text_add(out, ", ");
        put_int(out, "least", size->least);
        text_add(out, ", ");
        put_int(out, "most", size->most);
        text_add(out, ", ");
        put_int(out, "by", size->by);
        text_add(out, ", \"of\": ");
        put_expr(out, &size->of);
        put_bool(out, "stride", size->stride);
        text_char(out, '}');
    }
    text_add(out, "],\n");
    text_add(out, "  \"params\": [");
    for (int i = 0; i < plan->n_params; i++) {
        put_list(out, i);
        put_param(out, &plan->params[i]);
    }
    for (int i = 0; i < plan->n_scratch; i++) {
        const PlanScratch *scratch = &plan->scratch[i];
        char name[32];
        (void)snprintf(name, sizeof name, "scratch%d", i);
        put_list(out, plan->n_params + i);
        put_tensor(out, name, scratch->dtype, "scratch", scratch->rank);
        put_exprs(out, "dims", scratch->dims, scratch->rank);
        if (scratch->strides) {
            put_exprs(out, "strides", scratch->strides, scratch->rank);
        }
        text_printf(out, ", \"launches\": [%d, %d]}", scratch->first, scratch->last);
    }
    text_add(out, "],\n");
    put_maps(out, plan);
    text_printf(out, "  \"log_bytes\": %" PRId64 ",\n",
                plan->log_words ? (LOG_HEAD + (int64_t)LOG_RECORDS * plan->log_words) * 8 : 0);
    text_add(out, "  \"launches\": [");
    for (int i = 0; i < plan->n_launches; i++) {
        put_list(out, i);
        put_launch(out, plan, &plan->launches[i]);
    }
    text_add(out, "]\n}\n");
}

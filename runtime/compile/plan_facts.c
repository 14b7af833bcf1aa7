/* SPDX-License-Identifier: Apache-2.0 */
/* Phrases what machine code assumes about its arguments: divisors and bounds of sizes, strides,
 * alignment. */
#include "runtime/compile/compilation.h"

#include <inttypes.h>

static void add_fact(Text *out, const char *name, const char *relation, int64_t number,
                     const char *rest)
{
    text_printf(out, "%s%s %s %" PRId64 "%s", out->n ? ", " : "", name, relation, number, rest);
}

int usual_align(const Target *target)
{
    enum { OF_GPUS = 16 };
    return target->family == FAMILY_CPU ? 1 : OF_GPUS;
}

const char *plan_facts(Arena *arena, const Plan *plan, int usual)
{
    Text out = text_new(arena);
    for (int i = 0; i < plan->n_sizes; i++) {
        const PlanSize *size = &plan->sizes[i];
        bool exact = size->multiple == size->most && size->least > 0;
        if (size->stride || size->by > 0) {
            continue;
        }
        if (exact) {
            add_fact(&out, size->name, "==", size->most, "");
            continue;
        }
        if (size->multiple > 1) {
            add_fact(&out, size->name, "%", size->multiple, " == 0");
        }
        if (size->least > 0) {
            add_fact(&out, size->name, ">=", size->least, "");
        }
        if (size->most < INT64_MAX) {
            add_fact(&out, size->name, "<=", size->most, "");
        }
    }
    for (int i = 0; i < plan->n_params; i++) {
        const PlanParam *param = &plan->params[i];
        if (param->rank >= 0 && param->strides) {
            text_printf(&out, "%s%s with strides", out.n ? ", " : "", param->name);
        }
        if (param->rank >= 0 && param->align < usual) {
            text_printf(&out, "%s%s at %d bytes", out.n ? ", " : "", param->name, param->align);
        }
    }
    return out.n ? out.data : "any size";
}

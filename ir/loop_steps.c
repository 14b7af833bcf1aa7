/* SPDX-License-Identifier: Apache-2.0 */
/* Copies the steps of loops from a scheduled function to the function of the front end, and prints
 * them. Results that are rounded once per step depend on the steps, so the interpreter must use
 * the same ones as the code that it checks. */
#include "ir/loop_steps.h"

#include "ir/build.h"
#include "ir/schedule.h"

#include <string.h>

/* 0: the schedule does not say, or not the same for all launches. */
static int64_t step_of(const Func *func, const char *range)
{
    int64_t step = 0;
    for (size_t i = 0; func->schedule && i < func->schedule->entries.n; i++) {
        const ScheduleEntry *line = &func->schedule->entries.items[i];
        if (!text_equal(line->key, "tile") || !text_equal(line->sub, range)) {
            continue;
        }
        if (!line->used || line->per_launch || schedule_differs(line)) {
            return 0;
        }
        step = line->number;
    }
    return step;
}

typedef struct Steps {
    const Func *from;   /* whose schedule says them */
    const bool *folded; /* only those of loops, and along which something is folded; NULL: all */
    void (*each)(struct Steps *steps, Attr *attr, int nth, DimVar *range);
    Text *words;
    bool any;
} Steps;

/* Ranges whose steps the schedule may choose. */
static void each_step(Op *op, void *user)
{
    Steps *steps = user;
    Attr *attr = (Attr *)op_attr(op, ATTR_STEPS);
    bool chosen = (op->kind == OP_PARALLEL || op->kind == OP_FOR) && !op_int(op, ATTR_EXACT, 0);
    for (int i = 0; attr && chosen && i < attr->n; i++) {
        DimVar *range =
            attr->ints[i] ? poly_as_range(op->regions[0]->args[i]->type->dims[0]) : NULL;
        if (range && range->name &&
            (!steps->folded || op->kind == OP_FOR || steps->folded[range->id])) {
            steps->each(steps, attr, i, range);
        }
    }
}

static void note_any(Steps *steps, Attr *attr, int nth, DimVar *range)
{
    (void)attr;
    (void)nth;
    (void)range;
    steps->any = true;
}

static void take_step(Steps *steps, Attr *attr, int nth, DimVar *range)
{
    int64_t step = step_of(steps->from, range->name);
    if (step > 0) {
        attr->ints[nth] = step;
        range->capacity = step;
    }
}

bool steps_any(const Func *source)
{
    Steps steps = {.each = note_any};
    block_walk(source->body, each_step, &steps);
    return steps.any;
}

void steps_take(Func *source, const Func *scheduled)
{
    Steps steps = {.from = scheduled, .each = take_step};
    block_walk(source->body, each_step, &steps);
}

/* Loops may share a name, and then the line of the schedule. */
static void add_words(Steps *steps, Attr *attr, int nth, DimVar *range)
{
    int64_t step = step_of(steps->from, range->name);
    size_t length = strlen(range->name);
    for (const char *at = steps->words->data; *at; at += strcspn(at, ","), at += *at == ',') {
        if (strncmp(at, range->name, length) == 0 && at[length] == '=') {
            return;
        }
    }
    text_printf(steps->words, "%s%s=%lld", steps->words->n ? "," : "", range->name,
                (long long)(step > 0 ? step : attr->ints[nth]));
}

void steps_words(const Func *source, const Func *scheduled, const bool *folded, Text *words)
{
    Steps steps = {.from = scheduled, .folded = folded, .each = add_words, .words = words};
    text_add(words, "");
    block_walk(source->body, each_step, &steps);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Events that a run reports to its caller: print and assert, and outcomes that depend on an
 * unspecified order. */
#include "ir/interp/interp_internal.h"
#include "ir/message_format.h"

#include <string.h>

void interp_note(InterpRun *run, InterpNoteKind kind, const Op *op)
{
    for (size_t i = 0; i < run->noted.n; i++) {
        if (run->noted.items[i] == op) {
            return;
        }
    }
    ARENA_PUSH(run->arena, &run->noted, op);
    if (run->options->note) {
        run->options->note(run->options->user, &(InterpEvent){.kind = kind, .op = op});
    }
}

Buffer *padding_of(InterpRun *run, Type type, const Array *array)
{
    Buffer *padding = NULL;
    int64_t inner = array->n;
    for (int axis = 0; run->func->padded && axis < type->rank && array->n; axis++) {
        DimVar *range = poly_as_range(type->dims[axis]);
        int64_t extent = array->dims[axis];
        inner /= extent;
        int64_t lo = range && range->binder ? run->cells[range->binder->id].range.lo : 0;
        if (!range || (run->lens[range->id] >= extent && lo >= 0)) {
            continue;
        }
        padding = padding ? padding : buffer_zeroed(run, (size_t)array->n);
        for (int64_t i = 0; i < array->n; i++) {
            int64_t at = i / inner % extent;
            padding->bytes[i] |= at >= run->lens[range->id] || at + lo < 0;
        }
    }
    return padding;
}

static void say_element(InterpRun *run, const Op *op, int64_t element)
{
    int n = op->n_operands - 1;
    Scalar *values = ARENA_ARRAY(run->arena, Scalar, n);
    DType *dtypes = ARENA_ARRAY(run->arena, DType, n);
    for (int i = 0; i < n; i++) {
        const Array *array = run_operand(run, op, i + 1);
        if (array->poison && array->poison->bytes[element]) {
            run_fail(run, op, "value %d is padding or unset memory", i);
        }
        dtypes[i] = array->dtype;
        values[i] = array_scalar(array, element);
    }
    InterpEvent note = {op->kind == OP_PRINT ? INTERP_PRINT : INTERP_ASSERT,
                        op,
                        op_word(op, ATTR_TEXT),
                        n,
                        dtypes,
                        values};
    if (run->options->note) {
        run->options->note(run->options->user, &note);
    } else if (note.kind == INTERP_ASSERT) {
        Text out = text_new(run->arena);
        say_text(&out, note.text, note.n, note.dtypes, note.values);
        run_fail(run, op, "%s", out.n ? out.data : "");
    }
}

void interp_say(InterpRun *run, const Op *op)
{
    const Array *when = run_operand(run, op, 0), *active = while_active(run);
    Buffer *padding = padding_of(run, op->operands[0]->type, when);
    bool wanted = op->kind == OP_PRINT;
    for (int64_t i = 0; i < when->n; i++) {
        if (active && active->n == when->n && !active->data->bytes[i]) {
            continue;
        }
        bool unknown = when->poison && when->poison->bytes[i];
        bool says = (when->data->bytes[i] != 0) == wanted;
        if (unknown || (says && padding && padding->bytes[i])) {
            run_fail(run, op, "whether it says something depends on padding or unset memory");
        }
        if (says) {
            say_element(run, op, i);
        }
    }
    buffer_drop(run, padding);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the registers and memory accesses of a thread under the layouts of its tiles, for the
 * estimates of code length. */
#include "passes/analysis/code_registers.h"

#include "ir/target/target.h"
#include "passes/analysis/axis_dependence.h"

static const double SCALAR = 1;

/* Bits of a register's number by which its elements differ along none of these axes. */
static uint32_t equal_registers(const Layout *layout, unsigned axes)
{
    uint32_t equal = 0;
    for (int bit = 0; bit < layout->bits[IN_REGISTER]; bit++) {
        bool moves = false;
        for (int axis = 0; axis < layout->rank; axis++) {
            moves = moves || ((axes >> axis & 1) && layout->basis[IN_REGISTER][bit][axis]);
        }
        equal |= moves ? 0 : 1u << bit;
    }
    return equal;
}

/* Registers of a thread that hold different elements of a tile that varies along these axes. */
double code_registers_along(Type type, unsigned axes)
{
    if (!type_is_tile(type)) {
        return SCALAR;
    }
    if (!type->layout) {
        return 1;
    }
    int64_t extents[MAX_RANK];
    for (int i = 0; i < type->rank; i++) {
        extents[i] = poly_capacity(type->dims[i]);
    }
    Layout held = layout_compact(type->layout);
    uint32_t equal = equal_registers(&held, axes);
    int n = 0;
    for (uint32_t r = 0; r < (uint32_t)layout_registers(&held); r++) {
        n += !(r & equal) && layout_register_exists(&held, extents, r);
    }
    return n;
}

double code_registers(Type type)
{
    return code_registers_along(type, an_all_axes(type));
}

/* Halves of 32 bits that an element takes. */
double code_words(Type type)
{
    return dtype_bits(type->dtype) > 32 ? 2 : 1;
}

/* Elements that a thread moves at once to or from shared memory: neighbours in its registers, of at
 * most a vector's bytes. */
double code_shared_vector(const Func *func, Type type)
{
    if (!type_is_tile(type) || !type->layout) {
        return 1;
    }
    int bytes = dtype_bits(type->dtype) / 8 > 0 ? dtype_bits(type->dtype) / 8 : 1;
    int most = func->target->vector_bytes / bytes;
    int held = layout_contiguous(type->layout, type->rank - 1);
    return held < most ? held : most;
}

/* The bits of a layout's part that move along an axis. */
int code_bits_along(const Layout *layout, LayoutIn part, int axis)
{
    int n = 0;
    for (int i = 0; i < layout->bits[part]; i++) {
        n += layout->basis[part][i][axis] != 0;
    }
    return n;
}

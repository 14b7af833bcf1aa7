/* SPDX-License-Identifier: Apache-2.0 */
/* Places a launch's allocations in shared memory, from the IR alone: the emitters address them, and
 * `explain` counts their bytes also where no code is made. */
#include "codegen/plan/plan_shared.h"

#include "ir/build.h"
#include "ir/layout/layout.h"
#include "ir/target/target.h"

enum {
    PLAIN_ALIGN = 16,
    EXCHANGE_ALIGN = 16,
    MIN_EXCHANGE_BYTES = 4, /* a word, by which warps also tell each other whether one continues */
};

/* ---- sizes ---- */

int64_t plan_extent(Func *func, Type type, int axis)
{
    int64_t extent = poly_capacity(type->dims[axis]);
    if (extent < 0) {
        diag_bug(func->diags, "%s: axis %d of a tile has no static extent", func->target->name,
                 axis);
    }
    return extent;
}

int64_t plan_elements(Func *func, Type type)
{
    int64_t elements = 1;
    for (int axis = 0; axis < type->rank; axis++) {
        elements *= plan_extent(func, type, axis);
    }
    return elements;
}

int64_t plan_memory_bytes(Func *func, const Value *memory)
{
    bool barrier = memory->type->kind == TYPE_MBARRIER;
    int64_t count = plan_elements(func, memory->type);
    if (op_int(memory->def, ATTR_PACKED, 0)) {
        return count / 2;
    }
    return count * (barrier ? MBARRIER_BYTES : dtype_bytes(memory->type->dtype));
}

int plan_reduce_slots(Func *func, const Op *op)
{
    if (op->kind != OP_CLUSTER_REDUCE) {
        return op->kind == OP_CLUSTER_REDUCE_SCATTER ? 1 : 0;
    }
    Access access = op_access(op, 1);
    return access.indices[0] ? (int)plan_extent(func, access.memory->type, 0) : 1;
}

uint32_t plan_warp_copies(int warps, const Layout *layout)
{
    int bits = 0;
    while (1 << bits < warps) {
        bits++;
    }
    return layout_copy_bits(layout, IN_WARP, bits);
}

bool plan_crosses_warps(Type type, int warps)
{
    return type->rank ? plan_warp_copies(warps, type->layout) != 0 : warps > 1;
}

int64_t plan_exchange_bytes(Func *func, const Op *scatter, int warps)
{
    Type type = scatter->operands[access_next(scatter, 0)]->type;
    if (scatter->n_results == 0 || !plan_crosses_warps(type, warps)) {
        return 0;
    }
    int64_t bytes = dtype_bytes(type->dtype) * plan_elements(func, type);
    return bytes < MIN_EXCHANGE_BYTES ? MIN_EXCHANGE_BYTES : bytes;
}

/* ---- offsets ---- */

typedef struct Placer {
    Func *func;
    SharedLayout layout;
    int warps;
    int receive_mbarriers; /* how many */
} Placer;

static int aligned(int bytes, int align)
{
    return (bytes + align - 1) / align * align;
}

static void end_at(Placer *placer, int end)
{
    placer->layout.bytes = end > placer->layout.bytes ? end : placer->layout.bytes;
}

static void place(Op *op, void *user)
{
    Placer *placer = user;
    placer->receive_mbarriers += plan_reduce_slots(placer->func, op);
    if (op->kind != OP_SHARED && op->kind != OP_MBARRIER) {
        return;
    }
    int align = PLAIN_ALIGN;
    if (op->kind == OP_MBARRIER) {
        align = MBARRIER_BYTES;
    } else if (op_int(op, ATTR_SWIZZLE, 0) > 0) {
        align = SWIZZLE_ALIGN;
    }
    int after = aligned(placer->layout.bytes, align);
    SharedAllocation at = {op, (int)op_int(op, ATTR_OFFSET, after),
                           (int)plan_memory_bytes(placer->func, op->results[0])};
    ARENA_PUSH(placer->func->arena, &placer->layout.allocations, at);
    end_at(placer, at.offset + at.bytes);
}

static void place_exchange(Op *op, void *user)
{
    Placer *placer = user;
    int64_t bytes =
        op->kind == OP_SCATTER ? plan_exchange_bytes(placer->func, op, placer->warps) : 0;
    if (bytes) {
        end_at(placer, placer->layout.exchange + (int)bytes);
    }
}

SharedLayout plan_shared(Func *func, const Op *launch, int warps)
{
    Placer placer = {.func = func, .warps = warps};
    SharedLayout *layout = &placer.layout;
    block_walk(launch->regions[0], place, &placer);
    layout->receive_mbarriers = aligned(layout->bytes, MBARRIER_BYTES);
    layout->bytes = layout->receive_mbarriers + placer.receive_mbarriers * MBARRIER_BYTES;
    layout->exchange = aligned(layout->bytes, EXCHANGE_ALIGN);
    block_walk(launch->regions[0], place_exchange, &placer);
    return placer.layout;
}

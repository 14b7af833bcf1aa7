/* SPDX-License-Identifier: Apache-2.0 */
/* Finds accesses to global memory that waste so many of the bytes they move that it pays to convert
 * the tile's layout through shared memory first. */
#include "passes/analysis/access_width.h"
#include "passes/analysis/coalescing.h"
#include "passes/layout/assign_layouts.h"

enum { WORSE = 4 }; /* times the sectors: worth moving the tile through shared memory */

/* True if each thread of the block owns elements of the tile. */
static bool has_work_for_all(LayoutPass *pass, const Op *op, Type tile)
{
    int64_t extents[MAX_RANK], elements = 1;
    layout_extents(pass, tile, extents);
    for (int i = 0; i < tile->rank; i++) {
        elements *= extents[i];
    }
    return elements >= (int64_t)pass->lanes * layout_warps(pass, op->parent);
}

/* Sectors that an access with this layout moves for each that it uses. */
static bool wastes_sectors(const Layout *layout, const int64_t *pitch, int bits, int width)
{
    int held = layout_contiguous(layout, layout->rank - 1);
    Sectors sectors = an_sectors(layout, pitch, bits, held < width ? held : width);
    return sectors.touched * SECTOR_BYTES >= WORSE * sectors.used;
}

static void note_product(Op *op, void *user)
{
    bool *found = user;
    *found = *found || op->kind == OP_DOT || op->kind == OP_DOT_ASYNC || layout_sums_outer(op);
}

/* Operands of dots are staged by the pass stage, and a block with dots may have no shared memory
 * left for their results. */
static bool has_product(const Op *launch)
{
    bool found = false;
    block_walk(launch->regions[0], note_product, &found);
    return found;
}

/* True if elements of the tile are contiguous in memory; otherwise no layout coalesces the
 * lanes. */
static bool is_along_memory(const Op *op)
{
    Access access = op_access(op, 0);
    const Value *last = access.n ? access.indices[access.n - 1] : NULL;
    return !last || last->type->kind == TYPE_RANGE;
}

const Layout *layout_coalesced_instead(LayoutPass *pass, const Op *op, Type type, const Layout *has)
{
    int bits = dtype_memory_bits(type->dtype);
    int width = an_vector(pass->func, op);
    int64_t pitch[MAX_RANK] = {0}; /* stays 0 for a tile that is too small to be converted */
    if (has_work_for_all(pass, op, type)) {
        /* The pitch of an axis is the distance of its neighbours in elements; 0 if the tile does
         * not take the inner axes whole, or has fewer axes than the tensor. */
        Access access = op_access(op, 0);
        Type memory = access.memory->type;
        int64_t apart = 1;
        bool plain = !memory->strides && memory->rank == type->rank;
        for (int i = type->rank - 1; i >= 0; i--) {
            pitch[i] = plain ? apart : 0;
            int64_t most = plain ? poly_most(memory->dims[i]) : 0;
            plain = plain && most <= poly_capacity(type->dims[i]);
            apart = plain ? apart * most : 0;
        }
    }
    if (!is_along_memory(op) || !wastes_sectors(has, pitch, bits, width) ||
        has_product(op_enclosing(op, OP_LAUNCH))) {
        return NULL;
    }
    int warps = layout_warps(pass, op->parent);
    Layout layout = layout_of_memory(pass, type, width, bits, warps);
    return wastes_sectors(&layout, pitch, bits, width) ? NULL : layout_intern(pass, layout);
}

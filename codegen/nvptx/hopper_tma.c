/* SPDX-License-Identifier: Apache-2.0 */
/* sm_90a: asynchronous copies between tensors and shared memory by TMA.
 *
 * A tile is copied as one box per column chunk (as wide as the swizzle, or the maximum of TMA)
 * and, if it has more rows than a box may have, per slice of rows. Scalar indices have box extent
 * 1. TMA fills elements outside of the tensor with 0 and clips stores. That fill is slow: if the
 * tensor has fewer rows than the tile, the box has only those rows, and the rest of the tile is
 * cleared once when the block begins.
 *
 * The rows of an im2col view are output positions, which TMA iterates over by itself (im2col
 * mode): from the first one of the tile, each at the start of its window, offset by the filter
 * tap. */
#include "codegen/nvptx/hopper.h"

#include "codegen/plan/plan_builder.h"
#include "ir/bulk_tile.h"
#include "ir/build.h"

enum { WIDE_L2_BYTES = 128, CLEAR_BYTES = 16 };

static const Op *allocation(GpuEmitter *em, const Value *memory)
{
    return gpu_shared(em, memory)->op;
}

/* Tiles of elements that lie two a byte: the engine, and what is here, knows the bytes. */
static bool is_packed(GpuEmitter *em, const Value *shared)
{
    return op_int(allocation(em, shared), ATTR_PACKED, 0) != 0;
}

HopperTile hopper_tile(GpuEmitter *em, const Op *op, const Access *access)
{
    Type type = access->memory->type;
    if (type->kind != TYPE_SHARED || access->n < 2 || !access->indices[0]) {
        gpu_bug(em, op, "a tile of shared memory is a ring slot and whole axes");
    }
    for (int axis = 1; axis < access->n; axis++) {
        if (access->indices[axis]) {
            gpu_bug(em, op, "a tile of shared memory is taken whole");
        }
    }
    HopperTile tile = {.rows = 1, .elem_bytes = dtype_bytes(type->dtype)};
    for (int axis = 1; axis + 1 < type->rank; axis++) {
        tile.rows *= poly_capacity(type->dims[axis]);
    }
    tile.cols = poly_capacity(type->dims[type->rank - 1]) / (is_packed(em, access->memory) ? 2 : 1);
    tile.swizzle = (int)op_int(allocation(em, access->memory), ATTR_SWIZZLE, 0);
    tile.pitch = tile.swizzle ? tile.swizzle : tile.cols * tile.elem_bytes;
    tile.chunks = tile.cols * tile.elem_bytes / tile.pitch;
    LLVMValueRef slot = gpu_scalar(em, access->indices[0]);
    tile.address = hopper_address(em, gpu_shared_slot(em, access->memory, slot));
    return tile;
}

/* ---- boxes ---- */

static Access tensor_access(const Op *op)
{
    return op_access_nth(op, op->kind == OP_BULK_LOAD ? 0 : 1);
}

static Access shared_access(const Op *op)
{
    return op_access_nth(op, op->kind == OP_BULK_LOAD ? 1 : 0);
}

typedef struct Boxes {
    int rank, rows; /* rows: the axis that is cut into parts; -1: none */
    int64_t extent[MAX_RANK];
    int64_t chunks, chunk_cols; /* along the last axis */
    int64_t parts, part_rows;   /* along `rows` */
    int64_t blocks; /* of a cluster, or a role's warp groups, each of which moves this many parts */
    int64_t box_bytes;
} Boxes;

static Boxes cut_boxes(GpuEmitter *em, const Op *op)
{
    Access tensor = tensor_access(op);
    const Value *shared = shared_access(op).memory;
    if (tensor.n > em->func->target->bulk_rank && !func_im2col_of(em->func, tensor.memory)) {
        gpu_bug(em, op, "the copy engine takes tensors of at most 5 axes");
    }
    Boxes boxes = {.rank = tensor.n, .rows = bulk_rows_axis(&tensor), .parts = 1, .blocks = 1};
    boxes.blocks = op_int(op, op->kind == OP_BULK_LOAD ? ATTR_CLUSTER : ATTR_WARPGROUPS, 1);
    int elem_bytes = dtype_bytes(shared->type->dtype);
    int swizzle = (int)op_int(allocation(em, shared), ATTR_SWIZZLE, 0);
    int64_t cols = bulk_extent(&tensor, tensor.n - 1) / (is_packed(em, shared) ? 2 : 1);
    boxes.chunk_cols = swizzle ? swizzle / elem_bytes : cols;
    boxes.chunks = cols / boxes.chunk_cols;
    boxes.box_bytes = elem_bytes;
    for (int axis = 0; axis < tensor.n; axis++) {
        boxes.extent[axis] = bulk_extent(&tensor, axis);
        if (axis == boxes.rows) {
            boxes.extent[axis] /= boxes.blocks;
            /* The largest part is chosen that fits in a box and divides the extent. */
            int64_t parts =
                (boxes.extent[axis] + em->func->target->bulk_box - 1) / em->func->target->bulk_box;
            while (boxes.extent[axis] % parts) {
                parts++;
            }
            boxes.part_rows = boxes.extent[axis] / parts;
            boxes.parts = boxes.extent[axis] / boxes.part_rows;
            boxes.extent[axis] = boxes.part_rows;
        } else if (axis == tensor.n - 1) {
            boxes.extent[axis] = boxes.chunk_cols;
        }
        boxes.box_bytes *= boxes.extent[axis];
    }
    if (cols % boxes.chunk_cols || boxes.chunk_cols > em->func->target->bulk_box) {
        gpu_bug(em, op, "the tile's columns are no whole number of boxes");
    }
    if (boxes.parts * boxes.blocks > 1 &&
        boxes.part_rows % 8) { /* the swizzle repeats every 8 rows */
        gpu_bug(em, op, "the tile's rows are no whole number of boxes");
    }
    return boxes;
}

/* ---- tensors of few rows ---- */

void hopper_clear_few(GpuEmitter *em)
{
    bool any = false;
    for (size_t i = 0; i < em->shared.allocations.n; i++) {
        const Op *op = em->shared.allocations.items[i].op;
        if (op->kind == OP_SHARED && bulk_short_tile(em->func, op->results[0])) {
            /* All threads of the role clear the tile, because copies write only the rows that
             * exist. */
            const Value *shared = op->results[0];
            int64_t slots = poly_capacity(shared->type->dims[0]);
            LLVMValueRef zero = LLVMConstNull(LLVMVectorType(em->i32, CLEAR_BYTES / 4));
            int64_t bytes = slots * poly_capacity(shared->type->dims[1]) *
                            poly_capacity(shared->type->dims[2]) * dtype_bytes(shared->type->dtype);
            bytes /= is_packed(em, shared) ? 2 : 1;
            LLVMValueRef base = gpu_shared_slot(em, shared, NULL);
            LLVMBasicBlockRef before = LLVMGetInsertBlock(em->builder);
            LLVMBasicBlockRef loop = gpu_new_block(em, "clear"),
                              after = gpu_new_block(em, "cleared");
            LLVMValueRef step =
                gpu_i32(em, ((int64_t)em->role->warps << em->warp_bits) * CLEAR_BYTES);
            LLVMValueRef first =
                LLVMBuildMul(em->builder, em->role->thread, gpu_i32(em, CLEAR_BYTES), "");
            LLVMValueRef any_left = /* a tile may be less than each thread's first piece */
                LLVMBuildICmp(em->builder, LLVMIntULT, first, gpu_i32(em, bytes), "");
            LLVMBuildCondBr(em->builder, any_left, loop, after);
            gpu_go(em, loop);
            LLVMValueRef at = LLVMBuildPhi(em->builder, em->i32, "");
            LLVMSetAlignment(LLVMBuildStore(em->builder, zero, gpu_at(em, base, at)), CLEAR_BYTES);
            LLVMValueRef next = LLVMBuildAdd(em->builder, at, step, "");
            LLVMValueRef more =
                LLVMBuildICmp(em->builder, LLVMIntULT, next, gpu_i32(em, bytes), "");
            LLVMBuildCondBr(em->builder, more, loop, after);
            LLVMAddIncoming(at, (LLVMValueRef[]){first, next},
                            (LLVMBasicBlockRef[]){before, LLVMGetInsertBlock(em->builder)}, 2);
            gpu_go(em, after);
            any = true;
        }
    }
    if (any) {
        gpu_asm(em, LLVMVoidTypeInContext(em->context), "fence.proxy.async.shared::cta;",
                "~{memory}", true, 0, NULL);
    }
}

void hopper_describe_map(GpuEmitter *em, const Op *op, PlanTensorMap *map)
{
    Boxes boxes = cut_boxes(em, op);
    bool few = op->kind == OP_BULK_LOAD && bulk_short_tile(em->func, shared_access(op).memory);
    map->rank = boxes.rank;
    map->few = few ? boxes.rows + 1 : 0;
    for (int axis = 0; axis < boxes.rank; axis++) {
        map->box[axis] = boxes.extent[axis];
    }
    map->swizzle = (int)op_int(allocation(em, shared_access(op).memory), ATTR_SWIZZLE, 0);
    map->tf32 = op_attr(op, ATTR_PRECISION) != NULL;
    map->wide_l2 = op->kind == OP_BULK_LOAD && map->swizzle == WIDE_L2_BYTES;
    const Value *tensor = tensor_access(op).memory;
    if (func_im2col_of(em->func, tensor)) {
        /* An im2col map describes pixels in place of rows and has the axes of the tensor itself. */
        const Param *view = &em->func->params.items[tensor->index];
        const Im2colView *windows = view->im2col;
        Type given = param_given(view);
        map->rank = windows->n + 2;
        map->n_windows = windows->n;
        for (int axis = 0; axis < map->rank; axis++) {
            map->box[axis] = 1;
        }
        map->box[0] = boxes.part_rows;
        map->box[map->rank - 1] = boxes.chunk_cols;
        for (int i = 0; i < windows->n; i++) {
            map->windows[i] =
                (PlanWindows){plan_expr(em->func, windows->axes[i].offset), windows->axes[i].stride,
                              plan_expr(em->func, given->dims[1 + i])};
        }
    }
}

/* ---- coordinates ---- */

/* A number that the program computes may be any: what has no 32 bits lies outside all the same. */
static LLVMValueRef keep_outside(GpuEmitter *em, const Value *index, LLVMValueRef first)
{
    if (!index || !index->def || index->type->kind == TYPE_RANGE) {
        return first;
    }
    LLVMValueRef most = LLVMConstInt(LLVMTypeOf(first), INT32_MAX, false);
    LLVMValueRef below = LLVMBuildICmp(em->builder, LLVMIntULT, first, most, "");
    return LLVMBuildSelect(em->builder, below, first, most, "");
}

static LLVMValueRef plus(GpuEmitter *em, LLVMValueRef value, int64_t by)
{
    return by ? LLVMBuildAdd(em->builder, value, gpu_i32(em, by), "") : value;
}

/* Where box (part, chunk) lies in the slot. */
static int64_t box_offset(const Boxes *boxes, int64_t part, int64_t chunk)
{
    return (chunk * boxes->parts * boxes->blocks + part) * boxes->box_bytes;
}

/* "{$2, $3}" with the fastest axis first, operands from `at`. */
static const char *coordinate_list(GpuEmitter *em, int rank, int at)
{
    Text text = text_new(em->arena);
    for (int axis = 0; axis < rank; axis++) {
        text_printf(&text, "%s$%d", axis ? ", " : "{", at + axis);
    }
    text_char(&text, '}');
    return text.data;
}

typedef struct BulkOp {
    const char *text, *constraints;
    LLVMValueRef args[3 + MAX_RANK + MAX_SPATIAL];
    int n_fixed; /* operands before the coordinates; the first is the shared address */
} BulkOp;

/* The fixed operands are set: address, map, … */
static void emit_boxes(GpuEmitter *em, const Op *op, const Boxes *boxes, BulkOp *bulk)
{
    Access tensor = tensor_access(op);
    LLVMValueRef first[MAX_RANK], address = bulk->args[0];
    bool packed = dtype_is_packed(tensor.memory->type->dtype);
    for (int axis = 0; axis < tensor.n; axis++) {
        LLVMValueRef at = gpu_access_first(em, &tensor, axis);
        at = keep_outside(em, tensor.indices[axis], at);
        first[axis] = LLVMBuildTrunc(em->builder, at, em->i32, "");
        if (packed && axis + 1 == tensor.n) {
            first[axis] = LLVMBuildLShr(em->builder, first[axis], gpu_i32(em, 1), "");
        }
    }
    if (boxes->blocks > 1) { /* this block's parts, or this group's */
        bool load = op->kind == OP_BULK_LOAD;
        LLVMValueRef rank = load ? hopper_cluster_rank(em) : hopper_group(em);
        LLVMValueRef rows = gpu_i32(em, boxes->parts * boxes->part_rows);
        LLVMValueRef bytes = gpu_i32(em, boxes->parts * boxes->box_bytes);
        LLVMValueRef *row = &first[boxes->rows];
        *row = LLVMBuildAdd(em->builder, *row, LLVMBuildMul(em->builder, rank, rows, ""), "");
        bytes = LLVMBuildMul(em->builder, rank, bytes, "");
        address = LLVMBuildAdd(em->builder, address, bytes, "");
    }
    for (int64_t chunk = 0; chunk < boxes->chunks; chunk++) {
        for (int64_t part = 0; part < boxes->parts; part++) {
            bulk->args[0] = plus(em, address, box_offset(boxes, part, chunk));
            for (int axis = 0; axis < boxes->rank; axis++) {
                int64_t by = 0;
                if (axis == boxes->rank - 1) {
                    by = chunk * boxes->chunk_cols;
                } else if (axis == boxes->rows) {
                    by = part * boxes->part_rows;
                }
                bulk->args[bulk->n_fixed + boxes->rank - 1 - axis] = plus(em, first[axis], by);
            }
            gpu_asm(em, LLVMVoidTypeInContext(em->context), bulk->text, bulk->constraints, true,
                    bulk->n_fixed + boxes->rank, bulk->args);
        }
    }
}

static const char *bulk_constraints(GpuEmitter *em, const char *fixed, int rank)
{
    Text text = text_new(em->arena);
    text_add(&text, fixed);
    for (int axis = 0; axis < rank; axis++) {
        text_add(&text, ",r");
    }
    text_add(&text, ",~{memory}");
    return text.data;
}

/* ---- windows ---- */

/* Where a value is made, if that is done: what is computed of it there is not computed in each step
 * of a loop below. Returns where to continue; NULL: the cursor has not moved. */
static LLVMBasicBlockRef go_to_source(GpuEmitter *em, LLVMValueRef value)
{
    LLVMBasicBlockRef now = LLVMGetInsertBlock(em->builder);
    LLVMBasicBlockRef source = LLVMIsAInstruction(value) ? LLVMGetInstructionParent(value) : NULL;
    LLVMValueRef last = source && source != now ? LLVMGetBasicBlockTerminator(source) : NULL;
    if (last) {
        LLVMPositionBuilderBefore(em->builder, last);
    }
    return last ? now : NULL;
}

/* Pixels of all images together may be too many for 32 bits. */
static bool are_many(const Target *target, Type given, int n)
{
    double most = 1;
    for (int i = 0; i <= n; i++) {
        most *= (double)poly_most(given->dims[i]);
    }
    return most > INT32_MAX - target->bulk_box * target->bulk_box;
}

/* The tile's first pixel, among those of all images. */
static LLVMValueRef first_pixel(GpuEmitter *em, const Access *tensor, int n, LLVMTypeRef type)
{
    LLVMValueRef pixel = NULL;
    for (int axis = 0; axis < n; axis++) {
        LLVMValueRef at = gpu_access_first(em, tensor, axis);
        at = LLVMBuildIntCast2(em->builder, at, type, false, "");
        LLVMValueRef extent = gpu_size_value(em, tensor->memory->type->dims[axis]);
        extent = LLVMBuildIntCast2(em->builder, extent, type, false, "");
        pixel = !pixel ? at
                       : LLVMBuildAdd(em->builder, LLVMBuildMul(em->builder, pixel, extent, ""), at,
                                      "");
    }
    return pixel;
}

/* i32: the images' index, then where the window of a pixel begins on each spatial axis. */
static void pixel_place(GpuEmitter *em, const Access *tensor, int64_t ahead, LLVMValueRef *place)
{
    const Param *view = &em->func->params.items[tensor->memory->index];
    const Im2colView *windows = view->im2col;
    Type given = param_given(view);
    int n = view_places(view);
    LLVMValueRef source = gpu_value(em, tensor->indices[0])->regs[0];
    LLVMBasicBlockRef back = n == 1 ? go_to_source(em, source) : NULL;
    LLVMTypeRef type = are_many(em->func->target, given, windows->n) ? em->i64 : em->i32;
    LLVMValueRef pixel = first_pixel(em, tensor, n, type);
    pixel = LLVMBuildAdd(em->builder, pixel, LLVMConstInt(type, (uint64_t)ahead, false), "");
    for (int i = windows->n; i > 0; i--) {
        LLVMValueRef places = gpu_size_value(em, given->dims[i]);
        places = LLVMBuildIntCast2(em->builder, places, type, false, "");
        LLVMValueRef at = LLVMBuildURem(em->builder, pixel, places, "");
        pixel = LLVMBuildUDiv(em->builder, pixel, places, "");
        at = LLVMBuildTrunc(em->builder, at, em->i32, "");
        at = LLVMBuildMul(em->builder, at, gpu_i32(em, windows->axes[i - 1].stride), "");
        LLVMValueRef first = gpu_size_value(em, windows->axes[i - 1].offset);
        first = LLVMBuildTrunc(em->builder, first, em->i32, "");
        place[i] = LLVMBuildAdd(em->builder, at, first, "");
    }
    place[0] = LLVMBuildTrunc(em->builder, pixel, em->i32, "");
    if (back) {
        gpu_go(em, back);
    }
}

static LLVMValueRef times(GpuEmitter *em, LLVMValueRef index, int64_t by)
{
    return LLVMBuildMul(em->builder, index, gpu_i64(em, by), "");
}

static void emit_windows(GpuEmitter *em, const Op *op, const Boxes *boxes, BulkOp *bulk)
{
    static const char *const constraints[1 + MAX_SPATIAL] = {
        [1] = "r,l,r,r,r,r,h,~{memory}",
        [2] = "r,l,r,r,r,r,r,h,h,~{memory}",
        [3] = "r,l,r,r,r,r,r,r,h,h,h,~{memory}",
    };

    Access tensor = tensor_access(op);
    const Im2colView *windows = func_im2col_of(em->func, tensor.memory);
    int n = windows->n, rank = n + 2;
    LLVMValueRef place[1 + MAX_SPATIAL], address = bulk->args[0];
    LLVMValueRef channel = gpu_access_first(em, &tensor, tensor.n - 1);
    channel = LLVMBuildTrunc(em->builder, channel, em->i32, "");
    bulk->constraints = constraints[n];
    bulk->text = arena_printf(em->arena,
                              "cp.async.bulk.tensor.%dd.shared::cluster.global.im2col"
                              ".mbarrier::complete_tx::bytes [$0], [$1, %s], [$2], %s;",
                              rank, coordinate_list(em, rank, 3), coordinate_list(em, n, 3 + rank));

    /* The instruction takes the displacements of a tap and of a place in a pooling window as one
     * i16, the fastest axis first. */
    LLVMValueRef *offsets = &bulk->args[3 + rank];
    LLVMTypeRef i16 = em->i16;
    const Param *view = &em->func->params.items[tensor.memory->index];
    int inner = view_places(view), tap = view_inner_places(view);
    for (int i = 0; i < windows->n; i++) {
        LLVMValueRef *offset = &offsets[windows->n - 1 - i];
        LLVMValueRef at = gpu_i64(em, 0);
        if (windows->axes[i].inner) {
            at = times(em, gpu_access_first(em, &tensor, inner++), windows->axes[i].inner);
        }
        if (windows->axes[i].dilation) {
            LLVMValueRef reach = gpu_access_first(em, &tensor, tap++);
            reach = times(em, reach, windows->axes[i].dilation);
            at = windows->axes[i].inner ? LLVMBuildAdd(em->builder, at, reach, "") : reach;
        }
        *offset = LLVMBuildTrunc(em->builder, at, i16, "");
    }

    for (int64_t part = 0; part < boxes->parts; part++) {
        pixel_place(em, &tensor, part * boxes->part_rows, place);
        for (int i = 0; i <= n; i++) {
            bulk->args[3 + rank - 1 - i] = place[i];
        }
        for (int64_t chunk = 0; chunk < boxes->chunks; chunk++) {
            bulk->args[0] = plus(em, address, box_offset(boxes, part, chunk));
            bulk->args[3] = plus(em, channel, chunk * boxes->chunk_cols);
            gpu_asm(em, LLVMVoidTypeInContext(em->context), bulk->text, bulk->constraints, true,
                    3 + rank + n, bulk->args);
        }
    }
}

/* ---- the ops ---- */

void hopper_emit_bulk_load(GpuEmitter *em, Op *op)
{
    Access shared = shared_access(op), barrier = op_access_nth(op, 2);
    Boxes boxes = cut_boxes(em, op);
    LLVMBasicBlockRef after = hopper_elected(em, op);
    HopperTile tile = hopper_tile(em, op, &shared);
    LLVMValueRef position = gpu_scalar(em, barrier.indices[0]);
    LLVMValueRef slot = hopper_address(em, gpu_shared_slot(em, barrier.memory, position));
    Dim few = bulk_short_tile(em->func, shared.memory);
    int64_t all = boxes.box_bytes * boxes.parts * boxes.blocks * boxes.chunks;
    LLVMValueRef bytes = gpu_i32(em, all);
    if (few) {
        LLVMValueRef row = gpu_i32(em, boxes.box_bytes / boxes.part_rows * boxes.chunks);
        bytes = LLVMBuildMul(em->builder,
                             LLVMBuildTrunc(em->builder, gpu_size_value(em, few), em->i32, ""), row,
                             "");
    }
    gpu_asm(em, LLVMVoidTypeInContext(em->context),
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,~{memory}", true, 2,
            (LLVMValueRef[]){slot, bytes});
    BulkOp bulk = {.args = {tile.address, gpu_map(em, op), slot}, .n_fixed = 3};
    if (func_im2col_of(em->func, tensor_access(op).memory)) {
        emit_windows(em, op, &boxes, &bulk);
        hopper_elected_end(em, after);
        return;
    }
    bulk.constraints = bulk_constraints(em, "r,l,r", boxes.rank);
    const char *all_of = boxes.blocks > 1 ? ".multicast::cluster" : "";
    const char *mask =
        boxes.blocks > 1 ? arena_printf(em->arena, ", 0x%x", (1u << boxes.blocks) - 1) : "";
    bulk.text = arena_printf(em->arena,
                             "cp.async.bulk.tensor.%dd.shared::cluster.global"
                             ".mbarrier::complete_tx::bytes%s [$0], [$1, %s], [$2]%s;",
                             boxes.rank, all_of, coordinate_list(em, boxes.rank, 3), mask);
    emit_boxes(em, op, &boxes, &bulk);
    hopper_elected_end(em, after);
}

/* Without a loop around it, no bulk_wait has to follow: then the store itself waits, because shared
 * memory must outlive it (in a role, the role's end does). */
static bool must_drain(const Op *op)
{
    if (op_enclosing(op, OP_ROLES)) {
        return false;
    }
    for (const Op *later = op->next; later; later = later->next) {
        if (later->kind == OP_BULK_WAIT) {
            return false;
        }
    }
    return true;
}

static void drain(GpuEmitter *em)
{
    gpu_asm(em, LLVMVoidTypeInContext(em->context), "cp.async.bulk.wait_group.read 0;", "~{memory}",
            true, 0, NULL);
}

void hopper_emit_bulk_store(GpuEmitter *em, Op *op)
{
    Access shared = shared_access(op);
    Boxes boxes = cut_boxes(em, op);
    LLVMBasicBlockRef after = hopper_elected(em, op);
    HopperTile tile = hopper_tile(em, op, &shared);
    BulkOp bulk = {.args = {tile.address, gpu_map(em, op)}, .n_fixed = 2};
    bulk.constraints = bulk_constraints(em, "r,l", boxes.rank);
    bulk.text = arena_printf(em->arena,
                             "cp.async.bulk.tensor.%dd.global.shared::cta.bulk_group"
                             " [$1, %s], [$0];",
                             boxes.rank, coordinate_list(em, boxes.rank, 2));
    emit_boxes(em, op, &boxes, &bulk);
    gpu_asm(em, LLVMVoidTypeInContext(em->context), "cp.async.bulk.commit_group;", "~{memory}",
            true, 0, NULL);
    if (must_drain(op)) {
        drain(em);
    }
    hopper_elected_end(em, after);
}

void hopper_emit_bulk_wait(GpuEmitter *em, const Op *op)
{
    LLVMBasicBlockRef after = hopper_elected(em, op);
    drain(em);
    hopper_elected_end(em, after);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that do not begin at a multiple of 16 bytes. The tile begins before its row, so that its
 * vectors are aligned; the first and the last vector of the row then also hold elements of the
 * adjacent rows, which a load replaces by its padding value and a store leaves unchanged. */
#include "codegen/gpu/gpu_access.h"
#include "ir/layout/layout.h"

bool gpu_has_edges(GlobalAccess *g)
{
    return g->type->rank > 0 && g->skips[g->type->rank - 1] && gpu_access_run(g) > 1;
}

static Edges find_edges(GlobalAccess *g)
{
    GpuEmitter *em = g->em;
    LLVMBuilderRef b = em->builder;
    int last = g->type->rank - 1;
    Edges edges = {g, g->skips[last], g->limits[last], NULL, last, gpu_access_run(g)};
    LLVMValueRef first = gpu_size_value(em, g->access.memory->type->dims[0]);
    LLVMValueRef left = LLVMBuildMul(b, first, g->strides[0], "");
    left = LLVMBuildSub(b, left, g->offset, "");
    left = LLVMBuildSub(b, left, gpu_i64(em, edges.n - 1), "");
    left = llvm_call2(em->l, "llvm.smin", left, LLVMBuildSExt(b, edges.limit, em->i64, ""));
    edges.whole = LLVMBuildTrunc(b, left, em->i32, "");
    return edges;
}

static LLVMValueRef compare(Edges *edges, LLVMIntPredicate is, LLVMValueRef a, LLVMValueRef c)
{
    return LLVMBuildICmp(edges->g->em->builder, is, a, c, "");
}

static LLVMValueRef coord_of(Edges *edges, const GpuRun *run, int i)
{
    GpuEmitter *em = edges->g->em;
    LLVMValueRef coord = gpu_coord(em, edges->g->type->layout, edges->axis, run->regs[0]);
    return LLVMBuildAdd(em->builder, coord, gpu_i32(em, i), "");
}

/* i1: is element i of the piece one of the row's? */
static LLVMValueRef is_of_row(Edges *edges, const GpuRun *run, int i)
{
    LLVMValueRef coord = coord_of(edges, run, i);
    return gpu_both(edges->g->em, compare(edges, LLVMIntSGE, coord, edges->skip),
                    compare(edges, LLVMIntSLT, coord, edges->limit));
}

/* i1: does the piece begin inside of these axes and before the row's end? */
LLVMValueRef gpu_edges_inside(Edges *edges, const GpuRun *run, LLVMValueRef limit)
{
    LLVMValueRef below = compare(edges, LLVMIntSLT, coord_of(edges, run, 0), limit);
    return gpu_both(edges->g->em, gpu_inside_on(edges->g, edges->axis, run->regs[0]), below);
}

/* i1: is all of the piece the row's? */
static LLVMValueRef is_whole(Edges *edges, const GpuRun *run)
{
    LLVMValueRef past = coord_of(edges, run, edges->n);
    return gpu_both(edges->g->em, compare(edges, LLVMIntSGE, coord_of(edges, run, 0), edges->skip),
                    compare(edges, LLVMIntSLE, past, edges->limit));
}

/* i1: is a part of it the row's? */
static LLVMValueRef is_partial(Edges *edges, const GpuRun *run)
{
    LLVMValueRef not_whole = LLVMBuildNot(edges->g->em->builder, is_whole(edges, run), "");
    return gpu_both(edges->g->em, gpu_edges_inside(edges, run, edges->limit), not_whole);
}

/* The tensor's last piece, element by element. */
static LLVMValueRef load_singly(Edges *edges, const GpuRun *run, LLVMValueRef vector)
{
    GlobalAccess *g = edges->g;
    LLVMBuilderRef b = g->em->builder;
    LLVMValueRef torn = compare(edges, LLVMIntSGE, coord_of(edges, run, 0), edges->whole);
    GpuBranch branch = gpu_branch_begin(g->em, torn);
    LLVMValueRef parts = vector;
    for (int i = 0; i < run->n; i++) {
        LLVMValueRef at = gpu_register_place(g, run->regs[i]);
        LLVMValueRef part = gpu_access_load(g, is_of_row(edges, run, i), at, 1);
        parts = LLVMBuildInsertElement(b, parts, part, gpu_i32(g->em, i), "");
    }
    return gpu_branch_end_value(g->em, branch, parts, vector);
}

/* Puts what the op says in the place of neighbours' elements. */
static LLVMValueRef clip_run(Edges *edges, const GpuRun *run, LLVMValueRef vector)
{
    GlobalAccess *g = edges->g;
    LLVMBuilderRef b = g->em->builder;
    LLVMTypeRef type = llvm_memory_type(g->em->l, g->dtype);
    LLVMValueRef otherwise = llvm_number(g->em->l, g->dtype, type, op_attr(g->op, ATTR_VALUE));
    GpuBranch branch = gpu_branch_begin(g->em, is_partial(edges, run));
    LLVMValueRef parts = load_singly(edges, run, vector);
    for (int i = 0; i < run->n; i++) {
        LLVMValueRef at = gpu_i32(g->em, i);
        LLVMValueRef part = LLVMBuildExtractElement(b, parts, at, "");
        part = LLVMBuildSelect(b, is_of_row(edges, run, i), part, otherwise, "");
        parts = LLVMBuildInsertElement(b, parts, part, at, "");
    }
    return gpu_branch_end_value(g->em, branch, parts, vector);
}

/* All pieces are asked for before any is looked at. */
void gpu_edges_load(GlobalAccess *g, GpuValue *out)
{
    GpuEmitter *em = g->em;
    Edges edges = find_edges(g);
    GpuRun run;
    LLVMValueRef *vectors = ARENA_ARRAY(em->arena, LLVMValueRef, out->n);
    for (int r = 0; r < out->n; r++) {
        if (gpu_run_at(em, g->type, r, edges.n, &run)) {
            LLVMValueRef inside = gpu_edges_inside(&edges, &run, edges.whole);
            vectors[r] = gpu_access_load(g, inside, gpu_register_place(g, r), edges.n);
        }
    }
    for (int r = 0; r < out->n; r++) {
        if (gpu_run_at(em, g->type, r, edges.n, &run)) {
            gpu_define_run(g, out, &run, clip_run(&edges, &run, vectors[r]));
        }
    }
}

/* ---- store ---- */

void gpu_edges_store(Edges *edges, LLVMValueRef first, const GpuValue *in, const GpuRun *run)
{
    GlobalAccess *g = edges->g;
    GpuEmitter *em = g->em;
    LLVMValueRef regs[sizeof run->regs / sizeof *run->regs];
    for (int i = 0; i < run->n; i++) {
        regs[i] = in->regs[run->regs[i]];
    }
    first = gpu_both(em, first, gpu_inside_on(g, edges->axis, run->regs[0]));
    gpu_access_store(g, gpu_both(em, first, is_whole(edges, run)),
                     gpu_register_place(g, run->regs[0]), run->n, regs);
    GpuBranch branch = gpu_branch_begin(em, gpu_both(em, first, is_partial(edges, run)));
    for (int i = 0; i < run->n; i++) {
        gpu_access_store(g, is_of_row(edges, run, i), gpu_register_place(g, run->regs[i]), 1,
                         &regs[i]);
    }
    gpu_branch_end(em, branch);
}

Edges gpu_edges_anew(GlobalAccess *g)
{
    const GpuTarget *target = g->em->target;
    Edges edges = find_edges(g);
    edges.skip = target->warp_uniform(g->em, edges.skip);
    edges.limit = target->warp_uniform(g->em, edges.limit);
    return edges;
}

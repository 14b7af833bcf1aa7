/* SPDX-License-Identifier: Apache-2.0 */
/* Vector loads from unaligned addresses. A thread loads the two aligned vectors that contain its
 * elements and shifts the words by the misalignment. Adjacent lanes load each vector twice, the
 * second time from L1. Elements behind the thread's own are padding that nothing reads. If the
 * second vector would end past the tensor, elements are loaded one by one. */
#include "codegen/gpu/gpu_access.h"

enum { WORD_BYTES = 4, MAX_WORDS = 8 };

typedef struct Shifted {
    GlobalAccess *g;
    LLVMValueRef end;  /* of the tensor */
    LLVMValueRef past; /* i32: bytes from the piece to the run */
    LLVMValueRef torn; /* i1: the run is inside, but a piece is not */
    LLVMValueRef pieces[2];
    int n; /* elements of a run */
} Shifted;

static int piece_bytes(const Shifted *s)
{
    return s->n * dtype_bytes(s->g->dtype);
}

static LLVMValueRef address(GpuEmitter *em, LLVMValueRef place)
{
    return LLVMBuildPtrToInt(em->builder, place, em->i64, "");
}

static LLVMValueRef moved(Shifted *s)
{
    GpuEmitter *em = s->g->em;
    LLVMBuilderRef b = em->builder;
    LLVMValueRef words[MAX_WORDS];
    int n = piece_bytes(s) / WORD_BYTES;
    gpu_unpack(em, s->pieces[0], n, words);
    gpu_unpack(em, s->pieces[1], n, words + n);
    for (int by = n / 2; by > 0; by /= 2) {
        /* The words move down by `by` if that bit of the address is set. */
        int n_words = n + by;
        LLVMValueRef bit = LLVMBuildAnd(b, s->past, gpu_i32(em, by * WORD_BYTES), "");
        LLVMValueRef moves = LLVMBuildICmp(b, LLVMIntNE, bit, gpu_i32(em, 0), "");
        for (int i = 0; i < n_words; i++) {
            words[i] = LLVMBuildSelect(b, moves, words[i + by], words[i], "");
        }
    }
    LLVMValueRef bits = LLVMBuildAnd(b, s->past, gpu_i32(em, WORD_BYTES / 2), "");
    bits = LLVMBuildShl(b, bits, gpu_i32(em, 3), "");
    for (int i = 0; i < n; i++) {
        words[i] = llvm_call3(em->l, "llvm.fshr", words[i + 1], words[i], bits);
    }
    LLVMTypeRef type = llvm_lanes(llvm_memory_type(em->l, s->g->dtype), s->n);
    return LLVMBuildBitCast(b, gpu_pack(em, n, words), type, "");
}

static LLVMValueRef load_singly(Shifted *s, const GpuRun *run, LLVMValueRef vector)
{
    GlobalAccess *g = s->g;
    LLVMBuilderRef b = g->em->builder;
    GpuBranch branch = gpu_branch_begin(g->em, s->torn);
    LLVMValueRef parts = vector;
    for (int i = 0; i < run->n; i++) {
        LLVMValueRef at = gpu_register_place(g, run->regs[i]);
        LLVMValueRef is_there = LLVMBuildICmp(b, LLVMIntULT, address(g->em, at), s->end, "");
        LLVMValueRef part = gpu_access_load(g, is_there, at, 1);
        parts = LLVMBuildInsertElement(b, parts, part, gpu_i32(g->em, i), "");
    }
    return gpu_branch_end_value(g->em, branch, parts, vector);
}

/* All pieces are asked for before any is looked at. */
void gpu_shifted_load(GlobalAccess *g, GpuValue *out)
{
    GpuEmitter *em = g->em;
    int n = gpu_access_run(g);
    /* The end of the tensor limits the aligned vectors that are loaded past the last element. */
    GpuEmitter *e = g->em;
    LLVMBuilderRef b = e->builder;
    LLVMValueRef far = gpu_i64(e, 1);
    for (int axis = 0; axis < g->access.n; axis++) {
        LLVMValueRef last = gpu_size_value(e, g->access.memory->type->dims[axis]);
        last = LLVMBuildSub(b, last, gpu_i64(e, 1), "");
        far = LLVMBuildAdd(b, far, LLVMBuildMul(b, last, g->strides[axis], ""), "");
    }
    far = LLVMBuildMul(b, far, gpu_i64(e, dtype_bytes(g->dtype)), "");
    LLVMValueRef end = LLVMBuildAdd(b, address(e, gpu_tensor(e, g->access.memory)), far, "");
    Shifted *runs = ARENA_ARRAY(em->arena, Shifted, out->n);
    GpuRun run;
    for (int r = 0; r < out->n; r++) {
        runs[r] = (Shifted){.g = g, .end = end, .n = n};
        if (gpu_run_at(em, g->type, r, n, &run)) {
            /* Both aligned vectors that cover the run are loaded before any of them is shifted. */
            Shifted *s = &runs[r];
            LLVMValueRef place = gpu_register_place(g, r);
            LLVMValueRef inside = gpu_inside_on(g, g->type->rank, r);
            int bytes = piece_bytes(s);
            LLVMValueRef at = address(em, place);
            LLVMValueRef past = LLVMBuildAnd(b, at, gpu_i64(em, bytes - 1), "");
            LLVMValueRef back = LLVMBuildNeg(b, past, ""), next = gpu_i64(em, bytes);
            LLVMTypeRef byte = LLVMInt8TypeInContext(em->context);
            LLVMValueRef piece = LLVMBuildGEP2(b, byte, place, &back, 1, "");
            LLVMValueRef left = LLVMBuildSub(b, s->end, LLVMBuildSub(b, at, past, ""), "");
            LLVMValueRef whole = LLVMBuildICmp(b, LLVMIntSGE, left, gpu_i64(em, 2 * bytes), "");
            LLVMValueRef none = LLVMConstNull(llvm_lanes(em->i32, bytes / WORD_BYTES));
            s->past = LLVMBuildTrunc(b, past, em->i32, "");
            s->torn = gpu_both(em, inside, LLVMBuildNot(b, whole, ""));
            for (int i = 0; i < 2; i++) {
                s->pieces[i] =
                    gpu_load_guarded(em, s->g->access.memory, gpu_both(em, inside, whole), piece,
                                     none, (unsigned)bytes);
                piece = LLVMBuildGEP2(b, byte, piece, &next, 1, "");
            }
        }
    }
    for (int r = 0; r < out->n; r++) {
        if (gpu_run_at(em, g->type, r, n, &run)) {
            gpu_define_run(g, out, &run, load_singly(&runs[r], &run, moved(&runs[r])));
        }
    }
}

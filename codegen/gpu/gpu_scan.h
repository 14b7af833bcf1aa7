/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a scan or fold while it iterates over the bits of its axis. Private to gpu_scan.c
 * (registers, lanes) and gpu_scan_warps.c (warps). */
#ifndef TESSERA_CODEGEN_GPU_GPU_SCAN_H
#define TESSERA_CODEGEN_GPU_GPU_SCAN_H

#include "codegen/gpu/gpu_emitters.h"

enum { MAX_PARTS = 16, SCRATCH_ALIGN = 8 };

typedef LLVMValueRef Parts[MAX_PARTS];

/* One of the values that an element is made of. By register; NULL: none. */
typedef struct Part {
    DType dtype;
    LLVMValueRef neutral;
    LLVMValueRef *element;
    LLVMValueRef *total;  /* of the group that the register is in */
    LLVMValueRef *around; /* of the thread's elements before (reverse: after) it in that group */
    LLVMValueRef *outer;  /* of what is before these: other threads', and what is joined later */
} Part;

typedef struct Folder {
    GpuEmitter *em;
    Op *op;
    Type type;            /* of the operands */
    int axis, n_parts, n; /* n: registers */
    bool scan, reverse, exclusive;
    bool threads; /* some bit of the axis so far was a lane's or a warp's */
    Part parts[MAX_PARTS];
} Folder;

/* What was made of two tuples already: registers of a group share it. */
typedef struct FoldMemoEntry {
    Parts a, b, first, second;
} FoldMemoEntry;

typedef struct Memo {
    FoldMemoEntry *items;
    int n;
} Memo;

/* Warp bits whose steps along the axis follow each other: joined at once. */
typedef struct FoldWarps {
    int bits[LAYOUT_BITS], n;
    int32_t end;            /* the step along the axis after them */
    int64_t rows, groups;   /* what else there is: elements of other axes; parts of this one */
    LLVMValueRef base, own; /* i32: which of the warps along the axis this one is */
} FoldWarps;

void fold_combine(Folder *f, const Parts earlier, const Parts later, Parts out);
void fold_set(const Folder *f, Parts to, const LLVMValueRef *from);
void fold_neutrals(const Folder *f, Parts out);
void fold_choose(const Folder *f, LLVMValueRef condition, const Parts a, const Parts b, Parts out);

Memo fold_memo(const Folder *f);
/* *known: it was there; else the caller fills it in. */
FoldMemoEntry *fold_memo_find(const Folder *f, Memo *memo, const Parts a, const Parts b,
                              bool *known);

bool fold_has_total(const Folder *f, int r);
void fold_totals(const Folder *f, int r, Parts out);
void fold_set_totals(Folder *f, int r, const LLVMValueRef *total);
void fold_set_before(Folder *f, int r, const LLVMValueRef *before);
/* Puts `more` before (reverse: after) what register r has there already. */
const LLVMValueRef *fold_surrounded(Folder *f, Memo *memo, int r, const Parts more);

/* gpu_scan_warps.c: joins what these warps have. */
void fold_warps(Folder *f, FoldWarps *warps);

#endif

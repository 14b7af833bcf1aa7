/* SPDX-License-Identifier: Apache-2.0 */
/* Loads from global memory directly to LDS. Lane i of a wave fills the i-th vector behind an
 * address that all its lanes share (M0). The hardware counts these loads together with loads to
 * registers (vmcnt), in order, so "wait for all but the newest n groups" is a count of
 * instructions if every wave has issued equally many; otherwise all are waited for. LLVM would
 * wait for all of them before each read of LDS, because the read might touch another pipeline
 * stage; alias metadata tells it that the two never overlap. */
#include "codegen/amdgcn/amdgcn_lds_dma.h"

#include "codegen/gpu/gpu_emitters.h"
#include "ir/build.h"

#include <string.h>

enum { LDS_SPACE = 3 };

static const char NAME[] = "llvm.amdgcn.global.load.lds";

static void issue(GpuEmitter *em, const GpuCopyVector *piece)
{
    LLVMValueRef args[] = {piece->from, piece->first, gpu_i32(em, piece->bytes), gpu_i32(em, 0),
                           gpu_i32(em, 0)};
    gpu_intrinsic(em, NAME, 0, NULL, 5, args);
}

/* Lanes that are switched off leave their bytes as they are: of what is outside, they store
 * zeros. */
void amdgcn_copy(GpuEmitter *em, const GpuCopyVector *piece)
{
    if (!piece->inside) {
        issue(em, piece);
        return;
    }
    GpuBranch branch = gpu_branch_begin(em, piece->inside);
    issue(em, piece);
    gpu_branch_end(em, branch);
    branch = gpu_branch_begin(em, LLVMBuildNot(em->builder, piece->inside, ""));
    LLVMTypeRef words = llvm_lanes(em->i32, piece->bytes / 4);
    LLVMValueRef store = LLVMBuildStore(em->builder, LLVMConstNull(words), piece->to);
    LLVMSetAlignment(store, (unsigned)piece->bytes);
    gpu_branch_end(em, branch);
}

/* Instructions are counted, not groups. */
void amdgcn_copy_commit(GpuEmitter *em)
{
    (void)em;
}

enum { MAX_LOADS = 63, MAX_LOCAL = 15 };

/* S_WAITCNT of gfx9: vmcnt in bits 0 to 3, 14 and 15, expcnt in 4 to 6, lgkmcnt in 8 to 11. */
static void wait_counts(GpuEmitter *em, int64_t loads, int64_t local)
{
    int64_t code = (loads & 15) | loads >> 4 << 14 | 7 << 4 | local << 8;
    LLVMValueRef arg = gpu_i32(em, code);
    gpu_intrinsic(em, "llvm.amdgcn.s.waitcnt", 0, NULL, 1, &arg);
}

static void wait(GpuEmitter *em, int64_t newest)
{
    wait_counts(em, newest < MAX_LOADS ? newest : MAX_LOADS, MAX_LOCAL);
}

void amdgcn_wait_local(GpuEmitter *em)
{
    wait_counts(em, MAX_LOADS, 0);
}

bool amdgcn_copies(GpuEmitter *em)
{
    return block_contains(em->launch->regions[0], OP_COPY_LOAD);
}

void amdgcn_copy_wait(GpuEmitter *em, int pending, LLVMValueRef full)
{
    int64_t newest = full ? pending * gpu_copies_of_group(em) : 0;
    if (newest == 0) {
        wait(em, 0);
        return;
    }
    GpuBranch branch = gpu_branch_begin(em, LLVMBuildNot(em->builder, full, ""));
    wait(em, 0);
    gpu_branch_end(em, branch);
    wait(em, newest);
}

/* ---- aliasing ---- */

static LLVMValueRef node(GpuEmitter *em, int n, LLVMMetadataRef *parts)
{
    return LLVMMetadataAsValue(em->context, LLVMMDNodeInContext2(em->context, parts, (size_t)n));
}

static bool touches_lds(LLVMValueRef op)
{
    LLVMValueRef at = NULL;
    if (LLVMIsALoadInst(op)) {
        at = LLVMGetOperand(op, 0);
    } else if (LLVMIsAStoreInst(op)) {
        at = LLVMGetOperand(op, 1);
    }
    return at && LLVMGetPointerAddressSpace(LLVMTypeOf(at)) == LDS_SPACE;
}

typedef struct CopyScope {
    GpuEmitter *em;
    LLVMValueRef scopes; /* a list of one */
    unsigned in, out;    /* kinds of metadata */
} CopyScope;

void amdgcn_mark_copies_noalias(GpuEmitter *em)
{
    static const char in[] = "alias.scope", out[] = "noalias", domain[] = "copies";
    LLVMValueRef copy = LLVMGetNamedFunction(em->module, NAME);
    if (!copy) {
        return;
    }
    LLVMMetadataRef text = LLVMMDStringInContext2(em->context, domain, sizeof domain - 1);
    LLVMMetadataRef of = LLVMValueAsMetadata(node(em, 1, &text));
    LLVMMetadataRef parts[] = {text, of}, scope = LLVMValueAsMetadata(node(em, 2, parts));
    CopyScope scope_of = {.em = em,
                          .scopes = node(em, 1, &scope),
                          .in = LLVMGetMDKindIDInContext(em->context, in, sizeof in - 1),
                          .out = LLVMGetMDKindIDInContext(em->context, out, sizeof out - 1)};
    for (LLVMValueRef f = LLVMGetFirstFunction(em->module); f; f = LLVMGetNextFunction(f)) {
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b)) {
            for (LLVMValueRef op = LLVMGetFirstInstruction(b); op;
                 op = LLVMGetNextInstruction(op)) {
                if (LLVMIsACallInst(op) && LLVMGetCalledValue(op) == copy) {
                    LLVMSetMetadata(op, scope_of.in, scope_of.scopes);
                } else if (touches_lds(op)) {
                    LLVMSetMetadata(op, scope_of.out, scope_of.scopes);
                }
            }
        }
    }
}

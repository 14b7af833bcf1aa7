/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters: the rank of a block in its cluster, and messages to the other blocks (PTX ISA, "mapa",
 * "st.async", "mbarrier", "barrier.cluster"). The receiver's mbarrier counts the bytes that
 * arrive. This needs no fence of the whole memory, which a barrier over all threads of the cluster
 * would. */
#include "codegen/nvptx/hopper.h"

/* Read anew each time: a register that waits for its second use may be one too many. */
LLVMValueRef hopper_cluster_rank(GpuEmitter *em)
{
    return gpu_asm(em, em->i32, "mov.u32 $0, %cluster_ctarank;", "=r", true, 0, NULL);
}

static void on_barrier(GpuEmitter *em, LLVMValueRef at, int nth, const char *text, int64_t number)
{
    LLVMValueRef place = gpu_i32(em, (int64_t)nth * MBARRIER_BYTES);
    LLVMValueRef args[] = {LLVMBuildAdd(em->builder, hopper_address(em, at), place, ""),
                           gpu_i32(em, number)};
    gpu_asm(em, LLVMVoidTypeInContext(em->context), text, "r,r,~{memory}", true, 2, args);
}

/* One half of a barrier over all threads of the cluster. It is convergent: two branches on one
 * condition around it must not become one branch with a copy of it on each side. */
static void cluster_barrier(GpuEmitter *em, const char *text)
{
    LLVMValueRef call = gpu_asm(em, em->l->nothing, text, "~{memory}", true, 0, NULL);
    LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                             gpu_attribute(em, "convergent", 0));
}

/* A fence of their own orders the initialization of mbarriers before it; nothing else needs one. */
static void arrive(GpuEmitter *em)
{
    cluster_barrier(em, "bar.warp.sync 0xffffffff;\n\tbarrier.cluster.arrive.relaxed.aligned;");
}

void hopper_cluster_begin(GpuEmitter *em, LLVMValueRef at, int n)
{
    LLVMTypeRef none = LLVMVoidTypeInContext(em->context);
    LLVMBasicBlockRef after = hopper_if_first_thread(em, "receive_mbarriers");
    for (int i = 0; i < n; i++) {
        on_barrier(em, at, i, "mbarrier.init.shared::cta.b64 [$0], $1;", 1);
    }
    gpu_asm(em, none, "fence.mbarrier_init.release.cluster;", "~{memory}", true, 0, NULL);
    hopper_elected_end(em, after);
    arrive(em);
}

void hopper_cluster_wait(GpuEmitter *em)
{
    cluster_barrier(em, "barrier.cluster.wait.acquire.aligned;");
}

/* All of a barrier's bytes are one generation, which its own thread opens. Bytes may come before:
 * the generation ends only when it was opened too. Behind the barrier, since racecheck takes what
 * makes a barrier for another lane's work: it is of the warp's uniform path. */
void hopper_cluster_expect(GpuEmitter *em, LLVMValueRef at, int n, const int64_t *bytes)
{
    LLVMBasicBlockRef after = hopper_if_first_thread(em, "generations");
    for (int i = 0; i < n; i++) {
        on_barrier(em, at, i, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", bytes[i]);
    }
    hopper_elected_end(em, after);
}

void hopper_cluster_barrier(GpuEmitter *em)
{
    arrive(em);
    hopper_cluster_wait(em);
}

/* Once for each block of the cluster, by as many lanes. */
void hopper_cluster_arrive(GpuEmitter *em, LLVMValueRef barrier, LLVMValueRef block,
                           LLVMValueRef which)
{
    LLVMValueRef args[] = {barrier, block, which};
    gpu_asm(em, LLVMVoidTypeInContext(em->context),
            "{\n\t.reg .b32 there;\n\tmapa.shared::cluster.u32 there, $0, $1;\n\t"
            "@$2 mbarrier.arrive.shared::cluster.b64 _, [there];\n\t}",
            "r,r,b,~{memory}", true, 3, args);
}

void hopper_cluster_send(GpuEmitter *em, LLVMValueRef at, LLVMValueRef block, int n,
                         LLVMValueRef *words, LLVMValueRef mbarrier)
{
    enum { MAX_WORDS = 4 };
    static const char *const values[] = {"$3", "{$3, $4}", NULL, "{$3, $4, $5, $6}"};
    static const char *const vectors[] = {"", ".v2", NULL, ".v4"};
    bool wide = LLVMTypeOf(words[0]) == em->i64;
    LLVMValueRef args[3 + MAX_WORDS] = {hopper_address(em, at), block,
                                        hopper_address(em, mbarrier)};
    Text constraints = text_new(em->arena);
    text_add(&constraints, "r,r,r");
    for (int i = 0; i < n; i++) {
        args[3 + i] = words[i];
        text_add(&constraints, wide ? ",l" : ",r");
    }
    text_add(&constraints, ",~{memory}");
    const char *text = arena_printf(
        em->arena,
        "{\n\t.reg .b32 there, told;\n\tmapa.shared::cluster.u32 there, $0, $1;\n\t"
        "mapa.shared::cluster.u32 told, $2, $1;\n\t"
        "st.async.shared::cluster.mbarrier::complete_tx::bytes%s.b%d [there], %s, [told];\n\t}",
        vectors[n - 1], wide ? 64 : 32, values[n - 1]);
    gpu_asm(em, LLVMVoidTypeInContext(em->context), text, constraints.data, true, 3 + n, args);
}

/* Shared memory is in no cache: the acquire of the block's own scope is enough, as it is for what
 * the copy engine brings from other blocks. One of the cluster's would empty the first-level cache.
 */
void hopper_cluster_receive(GpuEmitter *em, LLVMValueRef mbarrier, LLVMValueRef parity)
{
    hopper_wait(em, hopper_address(em, mbarrier), parity);
}

/* The next generation. Nothing comes for it before the others have what this block sends later. */
void hopper_cluster_await(GpuEmitter *em, LLVMValueRef mbarrier, int64_t bytes)
{
    LLVMBasicBlockRef after = hopper_if_first_thread(em, "again");
    on_barrier(em, mbarrier, 0, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", bytes);
    hopper_elected_end(em, after);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters: where a block is in its own, the memory of the others, and how they meet (PTX ISA,
 * "mapa", "barrier.cluster"). */
#include "codegen/nvptx/hopper.h"

LLVMValueRef hopper_cluster_rank(GpuEmitter *em)
{
    return gpu_asm(em, em->i32, "mov.u32 $0, %cluster_ctarank;", "=r", false, 0, NULL);
}

/* Behind it, what was written before is there for those that have waited. */
void hopper_cluster_arrive(GpuEmitter *em)
{
    gpu_asm(em, LLVMVoidTypeInContext(em->context), "barrier.cluster.arrive.release.aligned;",
            "~{memory}", true, 0, NULL);
}

void hopper_cluster_wait(GpuEmitter *em)
{
    gpu_asm(em, LLVMVoidTypeInContext(em->context), "barrier.cluster.wait.acquire.aligned;",
            "~{memory}", true, 0, NULL);
}

void hopper_cluster_store(GpuEmitter *em, LLVMValueRef at, LLVMValueRef block, LLVMValueRef value)
{
    LLVMTypeRef type = LLVMTypeOf(value);
    unsigned bits = type == em->f64                                ? 64
                    : type == em->f32                              ? 32
                    : LLVMGetTypeKind(type) == LLVMIntegerTypeKind ? LLVMGetIntTypeWidth(type)
                                                                   : 16;
    static const char *const texts[] = {
        "{\n\t.reg .b32 there;\n\tmapa.shared::cluster.u32 there, $0, $1;\n\t"
        "st.shared::cluster.b8 [there], $2;\n\t}",
        "{\n\t.reg .b32 there;\n\tmapa.shared::cluster.u32 there, $0, $1;\n\t"
        "st.shared::cluster.b16 [there], $2;\n\t}",
        "{\n\t.reg .b32 there;\n\tmapa.shared::cluster.u32 there, $0, $1;\n\t"
        "st.shared::cluster.b32 [there], $2;\n\t}",
        "{\n\t.reg .b32 there;\n\tmapa.shared::cluster.u32 there, $0, $1;\n\t"
        "st.shared::cluster.b64 [there], $2;\n\t}"};
    static const char *const constraints[] = {"r,r,h,~{memory}", "r,r,h,~{memory}",
                                              "r,r,r,~{memory}", "r,r,l,~{memory}"};
    int which = bits == 64 ? 3 : bits == 32 ? 2 : bits == 16 ? 1 : 0;
    value = LLVMBuildBitCast(em->builder, value, LLVMIntTypeInContext(em->context, bits), "");
    value = bits < 16 ? LLVMBuildZExt(em->builder, value, em->i16, "") : value;
    LLVMValueRef args[] = {hopper_address(em, at), block, value};
    gpu_asm(em, LLVMVoidTypeInContext(em->context), texts[which], constraints[which], true, 3,
            args);
}

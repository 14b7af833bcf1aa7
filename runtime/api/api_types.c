/* SPDX-License-Identifier: Apache-2.0 */
/* Element types and targets in the form of the public header. */
#include "runtime/api/api_objects.h"

#include "ir/layout/matrix_instr.h"
#include "ir/scalar_eval.h"
#include "ir/target/machine.h"
#include "runtime/api/api_search.h"

#include <math.h>
#include <string.h>

#define SAME(a, b) _Static_assert((int)TESSERA_##a == (int)DT_##b, "element types: two lists")
SAME(BOOL, BOOL);
SAME(I8, I8);
SAME(I16, I16);
SAME(I32, I32);
SAME(I64, I64);
SAME(U8, U8);
SAME(U16, U16);
SAME(U32, U32);
SAME(U64, U64);
SAME(F16, F16);
SAME(BF16, BF16);
SAME(F32, F32);
SAME(F64, F64);
SAME(F8E4M3, F8E4M3);
SAME(F8E5M2, F8E5M2);
SAME(I4, I4);
SAME(U4, U4);
_Static_assert(DT_COUNT == TESSERA_U4 + 1, "element types: two lists");
_Static_assert((int)TESSERA_MAX_RANK == (int)TENSOR_RANK, "rank: two limits");

const char *tessera_type_name(TesseraType type)
{
    return type_is_known(type) ? dtype_name((DType)type) : NULL;
}

bool tessera_type_find(const char *name, TesseraType *type)
{
    DType found;
    if (!name || !type || !dtype_from_name(name, strlen(name), &found)) {
        return false;
    }
    *type = (TesseraType)found;
    return true;
}

size_t tessera_type_bytes(TesseraType type)
{
    return type_is_known(type) ? (size_t)dtype_bytes((DType)type) : 0;
}

size_t tessera_type_size(TesseraType type, size_t n)
{
    return type_is_known(type) ? dtype_size((DType)type, n) : 0;
}

bool tessera_type_is_float(TesseraType type)
{
    return type_is_known(type) && dtype_is_float((DType)type);
}

double tessera_get(TesseraType type, const void *data, size_t index)
{
    DType dtype = (DType)type;
    if (!type_is_known(type) || !data) {
        return (double)NAN;
    }
    Scalar value = scalar_unpack(dtype, data, index);
    if (dtype == DT_U64) {
        return (double)(uint64_t)value.i;
    }
    return dtype_is_float(dtype) ? value.f : (double)value.i;
}

void tessera_put(TesseraType type, void *data, size_t index, double value)
{
    DType dtype = (DType)type;
    Scalar scalar = {.f = value};
    if (!type_is_known(type) || !data) {
        return;
    }
    if (!dtype_is_float(dtype)) {
        scalar = scalar_op(OP_CAST, NULL, DT_F64, dtype, &scalar);
    }
    scalar_pack(dtype, data, index, scalar);
}

/* ---- targets ---- */

static const char *const KINDS_CPU[] = {"ir", "launch", "llvm", "asm", "obj", NULL};
static const char *const KINDS_NVPTX[] = {"ir", "launch", "llvm", "ptx", "cubin", "asm", NULL};
static const char *const KINDS_AMDGCN[] = {"ir", "launch", "llvm", "asm", "hsaco", NULL};

static void fill_family(TargetFamily family, TesseraTarget *out)
{
    switch (family) {
    case FAMILY_CPU:
        out->family = "cpu";
        out->kinds = KINDS_CPU;
        return;
    case FAMILY_NVPTX:
        out->family = "nvptx";
        out->kinds = KINDS_NVPTX;
        return;
    case FAMILY_AMDGCN:
        out->family = "amdgcn";
        out->kinds = KINDS_AMDGCN;
        return;
    }
}

const TesseraTarget *tessera_target(TesseraContext *context, size_t index)
{
    size_t n;
    const Target *rows = target_rows(&n);
    if (!context || index >= n) {
        return NULL;
    }
    const Target *row = &rows[index];
    const MatrixInstr *unit = mma_find(row, NULL, DT_BF16, DT_BF16, DT_F32);
    TesseraTarget *out = &context->compiler->target;
    *out = (TesseraTarget){.name = row->name,
                           .warp = row->warp,
                           .max_threads = row->max_threads,
                           .shared_bytes = row->shared_bytes,
                           .units = row->machine->num_sms,
                           .product = unit ? unit->family : "fma"};
    fill_family(row->family, out);
    return out;
}

bool tessera_card(size_t index, TesseraCard *card)
{
    if (index >= N_MACHINES) {
        return false;
    }
    const Machine *row = &MACHINES[index];
    *card = (TesseraCard){.name = row->name,
                          .target = row->target,
                          .title = row->title,
                          .source = row->source,
                          .is_default = target_find(row->target)->machine == row,
                          .units = row->num_sms,
                          .clock = row->clock,
                          .memory = row->memory_gbs,
                          .l2_mib = row->l2_mib,
                          .flops16 = machine_flops16(row),
                          .flops32 = machine_flops32(row)};
    return true;
}

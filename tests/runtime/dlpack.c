/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion of DLPack structures in both directions; tests/python tests NumPy's. */
#include "tests/runtime/harness.h"

/* As in dlpack.h. */
struct DLManagedTensor {
    struct {
        void *data;
        struct {
            int32_t type, id;
        } device;
        int32_t rank;
        struct {
            uint8_t code, bits;
            uint16_t lanes;
        } dtype;
        int64_t *shape, *strides;
        uint64_t byte_offset;
    } tensor;
    void *context;
    void (*deleter)(struct DLManagedTensor *self);
};
_Static_assert(sizeof(struct DLManagedTensor) == 64, "as dlpack.h has it");

static int released;

static void release(void *user)
{
    released += *(int *)user;
}

START_TEST(out_and_in)
{
    int one = 1, ordinal = -1;
    const char *kind;
    int64_t strides[2] = {1, 3};
    struct DLManagedTensor *managed;
    TesseraTensor back, given = {x, TESSERA_BF16, 2, {3, 4}, strides};
    ck_assert_int_eq(tessera_device_open(context, "cpu", 1, &device), TESSERA_OK);
    for (TesseraType type = TESSERA_BOOL; type <= TESSERA_F8E5M2; type++) {
        given.type = type;
        ck_assert_int_eq(tessera_dlpack_out(device, &given, release, &one, &managed), TESSERA_OK);
        ck_assert(managed->tensor.device.type == 1 && managed->tensor.dtype.lanes == 1);
        ck_assert_int_eq(tessera_dlpack_in(context, managed, &back, &kind, &ordinal), TESSERA_OK);
        ck_assert(back.type == type && back.data == x && back.rank == 2 && back.dims[1] == 4);
        ck_assert(back.strides[1] == 3 && ordinal == 0 && strcmp(kind, "cpu") == 0);
        managed->deleter(managed);
    }
    ck_assert_int_eq(released, TESSERA_F8E5M2 + 1);
    given.type = TESSERA_I4;
    expect(tessera_dlpack_out(device, &given, NULL, NULL, &managed), TESSERA_USAGE, "no such");
    ck_assert_ptr_null(managed);
    expect(tessera_dlpack_out(device, NULL, NULL, NULL, &managed), TESSERA_USAGE, "tensor is");
}
END_TEST

START_TEST(others)
{
    int ordinal;
    const char *kind;
    int64_t shape[9] = {2, 5};
    TesseraTensor tensor;
    struct DLManagedTensor other = {.tensor = {.data = x,
                                               .device = {2, 3},
                                               .rank = 2,
                                               .dtype = {2, 32, 1},
                                               .shape = shape,
                                               .byte_offset = 8}};
    ck_assert_int_eq(tessera_dlpack_in(context, &other, &tensor, &kind, &ordinal), TESSERA_OK);
    ck_assert(tensor.data == x + 2 && tensor.type == TESSERA_F32 && !tensor.strides);
    ck_assert(ordinal == 3 && strcmp(kind, "cuda") == 0);
    ck_assert_int_eq(tessera_dlpack_in(context, &other, &tensor, NULL, NULL), TESSERA_OK);
    other.tensor.dtype.lanes = 4;
    expect(tessera_dlpack_in(context, &other, &tensor, &kind, &ordinal), TESSERA_USAGE, "2:32");
    other.tensor.dtype.lanes = 1;
    other.tensor.device.type = 99;
    expect(tessera_dlpack_in(context, &other, &tensor, &kind, &ordinal), TESSERA_USAGE, "type 99");
    other.tensor.device.type = 10;
    other.tensor.rank = 9;
    expect(tessera_dlpack_in(context, &other, &tensor, &kind, &ordinal), TESSERA_USAGE, "rank 9");
    expect(tessera_dlpack_in(context, NULL, &tensor, &kind, &ordinal), TESSERA_USAGE, "managed");
}
END_TEST

UNIT_TESTS(runtime_dlpack)
{
    TCase *tests = tcase_create("dlpack");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, out_and_in);
    tcase_add_test(tests, others);
    return tests;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the compile worker, converted to bytes and back. */
#include "runtime/context/error_boundary.h"
#include "runtime/launch/launch_context.h"
#include "runtime/compile/worker_request.h"
#include "runtime/worker/compile_worker.h"
#include "tests/unit.h"

#include <string.h>

/* What goes out comes in; each part of it that is cut off or changed is no order, or another. */
START_TEST(there_and_back)
{
    static int64_t strides[2] = {8, 1};
    static const int64_t place = 4096 + 32;
    TesseraPair pairs[] = {{"T", "f32"}, {"n", ""}};
    TesseraSize sizes[] = {{"M", 5}};
    TesseraFact facts[] = {{"N", 8, 1, 100}};
    TesseraArg args[] = {{.tensor = {(void *)(uintptr_t)place, TESSERA_F32, 2, {3, 4}, strides}}};
    const char *lines[] = {"tile M 4"};
    TesseraContext *context;
    ErrorBoundary work;
    ck_assert_int_eq(tessera_context_new(NULL, &context), TESSERA_OK);
    WorkerRequest back,
        order = {.build = "b",
                 .kind = EMIT_OBJ,
                 .name = "n",
                 .text = "te\0xt",
                 .n = 5,
                 .options = {"k", "native", pairs, 2, sizes, 1, facts, 1, args, 1, pairs, 1, lines,
                             1, -1, false, NULL, "d"},
                 .pinned = {.bucket = "M=1", .file = "f", .text = "pins", .n = 4, .named = true}};
    work_init(&work, context);
    Text bytes = text_new(&work.arena);
    worker_request_write(&order, &bytes);
    ck_assert(worker_request_read(&work.arena, bytes.data, bytes.n, &back));
    const TesseraTensor *tensor = &back.options.args[0].tensor;
    ck_assert(back.n == 5 && memcmp(back.text, "te\0xt", 5) == 0 && back.kind == EMIT_OBJ);
    ck_assert_str_eq(back.options.bindings[0].value, "f32");
    ck_assert(back.options.facts[0].most == 100 && back.options.optimize == -1);
    ck_assert(tensor->strides[0] == 8 && tensor->dims[1] == 4 &&
              (uintptr_t)tensor->data % 4096 == 32);
    ck_assert_str_eq(back.options.device, "d");
    ck_assert_str_eq(back.pinned.text, "pins");
    ck_assert_str_eq(back.pinned.bucket, "M=1");
    ck_assert(back.pinned.named && !back.pinned.forbidden && back.pinned.n == 4);
    for (size_t n = 0; n < bytes.n; n++) {
        ck_assert(!worker_request_read(&work.arena, bytes.data, n, &back));
    }
    for (size_t i = 0; i < 8 * bytes.n; i++) {
        bytes.data[i / 8] = (char)(bytes.data[i / 8] ^ (1 << i % 8));
        worker_request_read(&work.arena, bytes.data, bytes.n, &back);
        bytes.data[i / 8] = (char)(bytes.data[i / 8] ^ (1 << i % 8));
    }
    work_free(&work);
    tessera_context_free(context);
}
END_TEST

UNIT_TESTS(runtime_order)
{
    TCase *tests = tcase_create("order");
    tcase_add_test(tests, there_and_back);
    return tests;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A fatal error of LLVM ends the compilation but not the process, and the next compilation works.
 */
#include "codegen/llvm/llvm.h"
#include "ir/target/target.h"
#include "tests/unit.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static const CodegenOptions OPTIONS = {.optimize = 2};

typedef enum Wish { NOTHING_WRONG, UNKNOWN_INSTRUCTION, MEMORY_WITHOUT_END } Wish;

/* A function that the CPU's instructions can do, or cannot. */
static bool emit(Llvm *l, void *user)
{
    const Wish *wish = user;
    Code code;
    LLVMTypeRef type = LLVMFunctionType(l->i32, NULL, 0, false);
    LLVMValueRef function = LLVMAddFunction(l->module, "f", type);
    LLVMPositionBuilderAtEnd(l->builder, llvm_block(l, function, "entry"));
    LLVMValueRef value = LLVMConstInt(l->i32, 1, false);
    if (*wish == UNKNOWN_INSTRUCTION) {
        value = llvm_intrinsic(l, "llvm.nvvm.read.ptx.sreg.tid.x", 0, NULL, 0, NULL);
    }
    for (unsigned bits = 64; *wish == MEMORY_WITHOUT_END; bits++) {
        for (uint64_t i = 0; i < 1 << 20; i++) {
            LLVMConstInt(LLVMIntTypeInContext(l->context, bits), i, false);
        }
    }
    LLVMBuildRet(l->builder, value);
    llvm_emit(l, LLVMObjectFile, &code);
    return code.n > 0;
}

/* How the guards are left: 0, not at all; what arena.c and diag.c jump with. Without guards: -1 if
 * the call returned false. */
static int compile(Wish wish, bool guarded, char *said, size_t n)
{
    Arena arena;
    Diags diags;
    jmp_buf guard;
    arena_init(&arena, allocator_default());
    diags_init(&diags, &arena);
    Func *func = func_new(&arena, &diags, "f");
    func->target = target_find("x86-64-v3");
    arena.guard = diags.bug_guard = guarded ? &guard : NULL;
    LlvmOptions options = {.codegen = &OPTIONS};
    int jumped = setjmp(guard);
    if (jumped == 0 && !llvm_run(func, &options, emit, &wish)) {
        jumped = -1;
    }
    Text text = text_new(&arena);
    diags_render(&diags, &text);
    snprintf(said, n, "%s", text.data);
    arena_free(&arena);
    return jumped;
}

START_TEST(goes_on_after_a_fatal_error)
{
    char said[2000];
    ck_assert_int_eq(compile(NOTHING_WRONG, true, said, sizeof said), 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(compile(UNKNOWN_INSTRUCTION, true, said, sizeof said), 2);
        ck_assert_ptr_nonnull(strstr(said, "LLVM gave up on f for x86-64-v3: Cannot select"));
        ck_assert_int_eq(compile(NOTHING_WRONG, true, said, sizeof said), 0);
    }
}
END_TEST

START_TEST(returns_to_a_caller_without_guards)
{
    char said[2000];
    ck_assert_int_eq(compile(UNKNOWN_INSTRUCTION, false, said, sizeof said), -1);
    ck_assert_ptr_nonnull(strstr(said, "LLVM gave up on f for x86-64-v3: Cannot select"));
    ck_assert_int_eq(compile(NOTHING_WRONG, false, said, sizeof said), 0);
}
END_TEST

static int without_memory(bool guarded, char *said, size_t n)
{
    struct rlimit limit, less = {(rlim_t)3 << 28, RLIM_INFINITY};
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
    less.rlim_max = limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &less), 0);
    int jumped = compile(MEMORY_WITHOUT_END, guarded, said, n);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    return jumped;
}

START_TEST(says_that_memory_is_short)
{
    char said[2000];
    ck_assert_int_eq(without_memory(true, said, sizeof said), 1);
    ck_assert_int_eq(compile(NOTHING_WRONG, true, said, sizeof said), 0);
}
END_TEST

START_TEST(says_so_without_guards)
{
    char said[2000];
    ck_assert_int_eq(without_memory(false, said, sizeof said), -1);
    ck_assert_ptr_nonnull(strstr(said, "out of memory"));
}
END_TEST

UNIT_TESTS(codegen_fatal)
{
    TCase *tests = tcase_create("fatal");
    tcase_set_timeout(tests, 30);
    tcase_add_test(tests, goes_on_after_a_fatal_error);
    tcase_add_test(tests, returns_to_a_caller_without_guards);
#if !defined(__SANITIZE_ADDRESS__) /* whose memory is not limited so */
    tcase_add_test(tests, says_that_memory_is_short);
    tcase_add_test(tests, says_so_without_guards);
#endif
    return tests;
}

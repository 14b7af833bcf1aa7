/* SPDX-License-Identifier: Apache-2.0 */
/* What clang's code for setjmp and longjmp calls (-wasm-enable-sjlj): a longjmp is an exception
 * that each function with a setjmp catches, and throws on where the jump is not its own. */
#include <setjmp.h>

/* The exception that a longjmp is: clang's code knows it by this name. */
__asm__(".globl __c_longjmp\n.tagtype __c_longjmp i32\n__c_longjmp:\n");

_Static_assert(sizeof(jmp_buf) == 16, "the layout that clang's code and this file know");

void __wasm_setjmp(void *env, unsigned label, void *frame);
unsigned __wasm_setjmp_test(void *env, void *frame);
void __wasm_longjmp(void *env, int value);

void __wasm_setjmp(void *env, unsigned label, void *frame)
{
    jmp_buf *at = env;
    (*at)->frame = frame;
    (*at)->label = label;
}

/* 0: the jump is another call's. */
unsigned __wasm_setjmp_test(void *env, void *frame)
{
    jmp_buf *at = env;
    return (*at)->frame == frame ? (*at)->label : 0;
}

void __wasm_longjmp(void *env, int value)
{
    jmp_buf *at = env;
    (*at)->thrown.env = env;
    (*at)->thrown.value = value ? value : 1;
    __builtin_wasm_throw(1, &(*at)->thrown); /* tag 1: __c_longjmp */
}

/* SPDX-License-Identifier: Apache-2.0 */
/* setjmp and longjmp as clang lowers them to WebAssembly's exceptions; ../setjmp.c has what its
 * code calls. */
#ifndef TESSERA_PLAYGROUND_WASI_SETJMP_H
#define TESSERA_PLAYGROUND_WASI_SETJMP_H

typedef struct {
    void *frame;    /* the call of the function that called setjmp */
    unsigned label; /* which setjmp of the function, from 1 on */
    struct {
        void *env;
        int value;
    } thrown;
} jmp_buf[1];

int setjmp(jmp_buf env) __attribute__((returns_twice));
_Noreturn void longjmp(jmp_buf env, int value);

#endif

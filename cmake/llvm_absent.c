/* SPDX-License-Identifier: Apache-2.0 */
/* Stubs for symbols that Debian's LLVM archives refer to and that we do not link. lld's ELF driver
 * initializes every target that LLVM was configured with and names the Polly plug-in; only three
 * targets are linked, so the others get empty initializers. libstdc++.a needs arc4random, the only
 * symbol newer than glibc 2.35. */
#include <stddef.h>
#include <stdint.h>
#include <sys/random.h>

#define ABSENT(target)                                                                             \
    void LLVMInitialize##target##TargetInfo(void);                                                 \
    void LLVMInitialize##target##Target(void);                                                     \
    void LLVMInitialize##target##TargetMC(void);                                                   \
    void LLVMInitialize##target##AsmParser(void);                                                  \
    void LLVMInitialize##target##AsmPrinter(void);                                                 \
    void LLVMInitialize##target##TargetInfo(void)                                                  \
    {                                                                                              \
    }                                                                                              \
    void LLVMInitialize##target##Target(void)                                                      \
    {                                                                                              \
    }                                                                                              \
    void LLVMInitialize##target##TargetMC(void)                                                    \
    {                                                                                              \
    }                                                                                              \
    void LLVMInitialize##target##AsmParser(void)                                                   \
    {                                                                                              \
    }                                                                                              \
    void LLVMInitialize##target##AsmPrinter(void)                                                  \
    {                                                                                              \
    }

ABSENT(AArch64)
ABSENT(ARM)
ABSENT(AVR)
ABSENT(BPF)
ABSENT(Hexagon)
ABSENT(Lanai)
ABSENT(LoongArch)
ABSENT(M68k)
ABSENT(MSP430)
ABSENT(Mips)
ABSENT(PowerPC)
ABSENT(RISCV)
ABSENT(SPIRV)
ABSENT(Sparc)
ABSENT(SystemZ)
ABSENT(VE)
ABSENT(WebAssembly)
ABSENT(XCore)
ABSENT(Xtensa)

/* C++: llvm::PassPluginLibraryInfo getPollyPluginInfo(). Only link-time optimization calls it, and
 * we link machine code. */
void tessera_absent_polly(void) __asm__("_Z18getPollyPluginInfov");
void tessera_absent_polly(void)
{
    __builtin_trap();
}

uint32_t arc4random(void);
uint32_t arc4random(void)
{
    uint32_t value = 0;
    while (getrandom(&value, sizeof value, 0) != (ssize_t)sizeof value) {
    }
    return value;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/amdgcn/link.h"

#include <lld/Common/Driver.h>
#include <llvm/Support/raw_ostream.h>

#include <cstdio>
#include <mutex>
#include <string>

LLD_HAS_DRIVER(elf)

/* lld keeps its state in globals, and after a crash it may not run again. */
static std::mutex linker;
static bool usable = true;

extern "C" bool amdgcn_link(const char *in, const char *out, char *problem, size_t problem_bytes)
{
    std::lock_guard<std::mutex> alone(linker);
    std::string said;
    llvm::raw_string_ostream stream(said);
    if (!usable) {
        std::snprintf(problem, problem_bytes, "the linker failed before and cannot run again");
        return false;
    }
    const char *arguments[] = {"ld.lld", "-shared", "--threads=1", "--no-undefined", in, "-o", out};
    const lld::DriverDef drivers[] = {{lld::Gnu, &lld::elf::link}};
    lld::Result result = lld::lldMain(arguments, stream, stream, drivers);
    usable = result.canRunAgain;
    std::snprintf(problem, problem_bytes, "%s", said.c_str());
    return result.retCode == 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Calls lld's ELF linker inside this process. A mutex serializes the calls, because lld keeps its
 * state in globals; after a crash of lld no further call is made. */
#include "codegen/llvm/lld_link.h"

#include <lld/Common/Driver.h>
#include <llvm/Support/raw_ostream.h>

#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

LLD_HAS_DRIVER(elf)

/* lld keeps its state in globals, and after a crash it may not run again. */
static std::mutex linker;
static bool usable = true;

extern "C" bool lld_link(const char *const *arguments, size_t n, char *problem,
                         size_t problem_bytes)
{
    std::lock_guard<std::mutex> alone(linker);
    std::string messages;
    llvm::raw_string_ostream stream(messages);
    if (!usable) {
        std::snprintf(problem, problem_bytes, "the linker failed before and cannot run again");
        return false;
    }
    std::vector<const char *> line = {"ld.lld", "--threads=1"};
    line.insert(line.end(), arguments, arguments + n);
    const lld::DriverDef drivers[] = {{lld::Gnu, &lld::elf::link}};
    lld::Result result = lld::lldMain(line, stream, stream, drivers);
    usable = result.canRunAgain;
    std::snprintf(problem, problem_bytes, "%s", messages.c_str());
    return result.retCode == 0;
}

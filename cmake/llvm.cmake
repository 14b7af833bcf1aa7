# SPDX-License-Identifier: Apache-2.0
# LLVM 22 and lld from Debian, as static archives; what is not reached is dropped at link time.
# `llvm-config` without a number may be another version.
find_program(LLVM_CONFIG NAMES llvm-config-22 REQUIRED)
function(ask_llvm result)
  execute_process(COMMAND ${LLVM_CONFIG} --link-static ${ARGN} OUTPUT_VARIABLE answer
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(${result} "${answer}" PARENT_SCOPE)
endfunction()
ask_llvm(LLVM_INCLUDE --includedir)
ask_llvm(LLVM_LIBDIR --libdir)
ask_llvm(LLVM_BINDIR --bindir)
ask_llvm(LLVM_VERSION --version)

# windowsdriver, option and lto are lld's needs. Polly is no archive in Debian.
ask_llvm(LLVM_LIBS --libs x86 nvptx amdgpu orcjit passes core support irreader bitwriter
                          lto windowsdriver option)
separate_arguments(LLVM_LIBS)
list(REMOVE_ITEM LLVM_LIBS -lPolly -lPollyISL)

# lld's ELF driver starts every target of LLVM; those that we do not link get empty starters.
add_library(tessera_llvm_absent STATIC ${CMAKE_SOURCE_DIR}/cmake/llvm_absent.c)

# libxml2 and libz3, which llvm-config names, are not reached; z and zstd exist as archives.
add_library(tessera_llvm INTERFACE)
target_include_directories(tessera_llvm SYSTEM INTERFACE ${LLVM_INCLUDE})
target_link_directories(tessera_llvm INTERFACE ${LLVM_LIBDIR})
target_link_libraries(tessera_llvm INTERFACE
  -llldELF -llldCommon -lLLVMDTLTO ${LLVM_LIBS} tessera_llvm_absent
  libz.a libzstd.a m dl pthread)

# gcc's -fuse-ld=lld looks for ld.lld beside its own programs and in -B folders: here, LLVM 22's.
add_library(tessera_link INTERFACE)
target_link_options(tessera_link INTERFACE
  -B${LLVM_BINDIR} -fuse-ld=lld -Wl,--gc-sections -static-libstdc++ -static-libgcc)
target_link_libraries(tessera_llvm INTERFACE tessera_link)

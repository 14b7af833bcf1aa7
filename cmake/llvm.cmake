# SPDX-License-Identifier: Apache-2.0
# LLVM 22 from Debian, static, hidden.
find_program(LLVM_CONFIG NAMES llvm-config-22 REQUIRED)
execute_process(COMMAND ${LLVM_CONFIG} --includedir OUTPUT_VARIABLE LLVM_INCLUDE OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(COMMAND ${LLVM_CONFIG} --libdir OUTPUT_VARIABLE LLVM_LIBDIR OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(
  COMMAND ${LLVM_CONFIG} --link-static --libs x86 nvptx amdgpu orcjit passes core support irreader bitwriter
  OUTPUT_VARIABLE LLVM_LIBS OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(COMMAND ${LLVM_CONFIG} --link-static --system-libs OUTPUT_VARIABLE LLVM_SYSTEM_LIBS OUTPUT_STRIP_TRAILING_WHITESPACE)
separate_arguments(LLVM_LIBS)
add_library(tessera_llvm INTERFACE)
target_include_directories(tessera_llvm SYSTEM INTERFACE ${LLVM_INCLUDE})
target_link_directories(tessera_llvm INTERFACE ${LLVM_LIBDIR})
target_link_libraries(tessera_llvm INTERFACE ${LLVM_LIBS} z zstd stdc++ m dl pthread)
target_link_options(tessera_llvm INTERFACE -fuse-ld=lld -Wl,--gc-sections)

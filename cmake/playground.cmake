# SPDX-License-Identifier: Apache-2.0
# `cmake --build … --target playground`: playground.html, the compiler as WebAssembly in one page.
# The compiler is built by a project of its own (playground/CMakeLists.txt), in two minutes of one
# core, so it is no part of an ordinary build; packages have it, and the suite `playground` makes
# it. Where the tool chain is missing (scripts/setup.sh installs it) the target says so and fails.
if(NOT TARGET tessera)
  return()
endif()
set(playground_source ${CMAKE_SOURCE_DIR}/playground)
set(playground_build ${CMAKE_BINARY_DIR}/playground)
set(playground_page ${CMAKE_BINARY_DIR}/playground.html)
add_executable(unicode_table EXCLUDE_FROM_ALL ${playground_source}/unicode_table.c)
target_link_libraries(unicode_table PRIVATE tessera_support tessera_warnings tessera_link)
set_target_properties(unicode_table PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${playground_build})
add_custom_command(
  OUTPUT ${playground_build}/unicode_runs.def
  COMMAND sh -c "\"$0\" >${playground_build}/unicode_runs.def" $<TARGET_FILE:unicode_table>
  DEPENDS unicode_table VERBATIM)
add_custom_target(playground
  COMMAND ${CMAKE_COMMAND} -G Ninja -S ${playground_source} -B ${playground_build}/wasm
          -D CMAKE_TOOLCHAIN_FILE=${playground_source}/wasi.cmake
          -D TESSERA_BUILD=${CMAKE_BINARY_DIR}
          -D "CMAKE_C_COMPILER_LAUNCHER=${CMAKE_C_COMPILER_LAUNCHER}" --log-level=WARNING
  COMMAND ${CMAKE_COMMAND} --build ${playground_build}/wasm
  COMMAND python3 -B ${playground_source}/make_page.py ${playground_build}/wasm/tessera.wasm
          -o ${playground_page}
  DEPENDS tessera ${playground_build}/unicode_runs.def VERBATIM USES_TERMINAL)
install(FILES ${playground_page} DESTINATION ${documents} OPTIONAL)

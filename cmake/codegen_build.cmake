# SPDX-License-Identifier: Apache-2.0
# A script (LIBRARY, READELF, OUTPUT): writes the C file that tells which build LIBRARY is of.
execute_process(COMMAND ${READELF} -n ${LIBRARY} OUTPUT_VARIABLE notes COMMAND_ERROR_IS_FATAL ANY)
if(NOT notes MATCHES "Build ID: ([0-9a-f]+)")
  message(FATAL_ERROR "${LIBRARY} was linked without a build id")
endif()
file(WRITE ${OUTPUT}
     "/* Made by cmake/codegen_build.cmake. */\n"
     "#include \"runtime/codegen_loader/codegen_loader.h\"\n\n"
     "const char codegen_build_id[] = \"${CMAKE_MATCH_1}\";\n")

# SPDX-License-Identifier: Apache-2.0
# The page that `explain --html` fills, built into the program (runtime/explain/html.h). Included by
# CMakeLists.txt it makes the rule; run as a script (OUTPUT, PAGE) it writes the C file.
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ ${PAGE} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(REPEAT "....." 16 line)
  string(REGEX REPLACE "(${line})" "\\1\n    " bytes "${bytes}")
  file(WRITE ${OUTPUT} "/* Made by cmake/page.cmake. */\n#include \"runtime/explain/html.h\"\n\n"
       "const char explain_page[] = {\n    ${bytes}0};\n")
  return()
endif()

set(explain_page ${CMAKE_SOURCE_DIR}/runtime/explain/page.html)
add_custom_command(
  OUTPUT ${CMAKE_BINARY_DIR}/explain_page.c
  COMMAND ${CMAKE_COMMAND} -D OUTPUT=${CMAKE_BINARY_DIR}/explain_page.c -DPAGE=${explain_page}
          -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${explain_page} ${CMAKE_CURRENT_LIST_FILE}
  VERBATIM)
target_sources(tessera_explain PRIVATE ${CMAKE_BINARY_DIR}/explain_page.c)

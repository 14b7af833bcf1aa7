# SPDX-License-Identifier: Apache-2.0
# The standard library's sources, built into the front end (frontend/stdlib_sources.h). Included by
# CMakeLists.txt it makes the rule; run as a script (OUTPUT, SOURCES) it writes the C file.
if(CMAKE_SCRIPT_MODE_FILE)
  set(arrays "")
  set(rows "")
  set(count 0)
  foreach(source ${SOURCES})
    get_filename_component(name ${source} NAME)
    file(READ ${source} bytes HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    string(REPEAT "....." 16 line)
    string(REGEX REPLACE "(${line})" "\\1\n    " bytes "${bytes}")
    string(APPEND arrays "static const unsigned char text_${count}[] = {\n    ${bytes}0};\n")
    string(APPEND rows "    {\"<stdlib/${name}>\", (const char *)text_${count},"
                       " sizeof text_${count} - 1},\n")
    math(EXPR count "${count} + 1")
  endforeach()
  file(WRITE ${OUTPUT}
       "/* Made by cmake/stdlib.cmake. */\n#include \"frontend/stdlib_sources.h\"\n\n"
       "${arrays}\nconst StdlibSource stdlib_sources[] = {\n${rows}    {0, 0, 0},\n};\n"
       "const size_t stdlib_count = ${count};\n")
  return()
endif()

file(GLOB stdlib_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/stdlib/*.tile)
add_custom_command(
  OUTPUT ${CMAKE_BINARY_DIR}/stdlib.c
  COMMAND ${CMAKE_COMMAND} -D OUTPUT=${CMAKE_BINARY_DIR}/stdlib.c "-DSOURCES=${stdlib_sources}"
          -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${stdlib_sources} ${CMAKE_CURRENT_LIST_FILE}
  VERBATIM)
target_sources(tessera_frontend PRIVATE ${CMAKE_BINARY_DIR}/stdlib.c)

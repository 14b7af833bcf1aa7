# SPDX-License-Identifier: Apache-2.0
# The lessons of `tessera learn`, built into the program (cli/learn/lesson.h): what the folders of
# lessons/ hold, except their wrong answers, which only tests read. Included by CMakeLists.txt it
# makes the rule; run as a script (OUTPUT, FOLDER) it writes the C file.
if(CMAKE_SCRIPT_MODE_FILE)
  file(GLOB sources RELATIVE ${FOLDER} ${FOLDER}/*/*.tile ${FOLDER}/*/*.md ${FOLDER}/*/*.txt)
  list(SORT sources)
  set(arrays "")
  set(rows "")
  set(count 0)
  foreach(source ${sources})
    file(READ ${FOLDER}/${source} bytes HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    string(REPEAT "....." 16 line)
    string(REGEX REPLACE "(${line})" "\\1\n    " bytes "${bytes}")
    string(APPEND arrays "static const unsigned char text_${count}[] = {\n    ${bytes}0};\n")
    string(APPEND rows "    {\"${source}\", (const char *)text_${count}},\n")
    math(EXPR count "${count} + 1")
  endforeach()
  file(WRITE ${OUTPUT}
       "/* Made by cmake/lessons.cmake. */\n#include \"cli/learn/lesson.h\"\n\n"
       "${arrays}\nconst LessonFile lesson_files[] = {\n${rows}    {0, 0},\n};\n")
  return()
endif()

file(GLOB lesson_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lessons/*/*.tile
     ${CMAKE_SOURCE_DIR}/lessons/*/*.md ${CMAKE_SOURCE_DIR}/lessons/*/*.txt)
add_custom_command(
  OUTPUT ${CMAKE_BINARY_DIR}/lessons.c
  COMMAND ${CMAKE_COMMAND} -D OUTPUT=${CMAKE_BINARY_DIR}/lessons.c
          -D FOLDER=${CMAKE_SOURCE_DIR}/lessons -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${lesson_sources} ${CMAKE_CURRENT_LIST_FILE}
  VERBATIM)
target_sources(tessera PRIVATE ${CMAKE_BINARY_DIR}/lessons.c)

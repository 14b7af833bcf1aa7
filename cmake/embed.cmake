# SPDX-License-Identifier: Apache-2.0
# tessera_embed(symbol folder pattern…): files of a folder, by patterns, built into the program as
# the table `symbol` of EmbeddedFile (cli/embedded_file.h), in the order of their names. Run as a
# script (OUTPUT, FOLDER, SYMBOL, SOURCES) it writes the C file.
if(CMAKE_SCRIPT_MODE_FILE)
  set(arrays "")
  set(rows "")
  set(count 0)
  foreach(source ${SOURCES})
    file(READ ${FOLDER}/${source} bytes HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    string(REPEAT "....." 16 line)
    string(REGEX REPLACE "(${line})" "\\1\n    " bytes "${bytes}")
    string(APPEND arrays "static const unsigned char text_${count}[] = {\n    ${bytes}0};\n")
    string(APPEND rows "    {\"${source}\", (const char *)text_${count}},\n")
    math(EXPR count "${count} + 1")
  endforeach()
  file(WRITE ${OUTPUT}
       "/* Made by cmake/embed.cmake. */\n#include \"cli/embedded_file.h\"\n\n"
       "${arrays}\nconst EmbeddedFile ${SYMBOL}[] = {\n${rows}    {0, 0},\n};\n")
  return()
endif()

set(TESSERA_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
function(tessera_embed symbol folder)
  set(root ${CMAKE_SOURCE_DIR}/${folder})
  set(patterns "")
  foreach(pattern ${ARGN})
    list(APPEND patterns ${root}/${pattern})
  endforeach()
  file(GLOB sources RELATIVE ${root} CONFIGURE_DEPENDS ${patterns})
  list(SORT sources)
  list(TRANSFORM sources PREPEND ${root}/ OUTPUT_VARIABLE files)
  set(output ${CMAKE_BINARY_DIR}/${symbol}.c)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -D OUTPUT=${output} -D FOLDER=${root} -D SYMBOL=${symbol}
            "-DSOURCES=${sources}" -P ${TESSERA_EMBED_SCRIPT}
    DEPENDS ${files} ${TESSERA_EMBED_SCRIPT}
    VERBATIM)
  target_sources(tessera PRIVATE ${output})
endfunction()

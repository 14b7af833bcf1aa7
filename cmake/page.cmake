# SPDX-License-Identifier: Apache-2.0
# tessera_page(component page symbol header): a page that a component fills, built into it as the
# bytes of `symbol`, which `header` declares. What pages begin with alike, page_head.html, stands
# for their `<!--head-->`. Run as a script (OUTPUT, PAGE, HEAD, SYMBOL, HEADER) it writes the C
# file.
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ ${PAGE} page)
  file(READ ${HEAD} head)
  string(REPLACE "<!--head-->\n" "${head}" page "${page}")
  string(HEX "${page}" bytes)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(REPEAT "....." 16 line)
  string(REGEX REPLACE "(${line})" "\\1\n    " bytes "${bytes}")
  file(WRITE ${OUTPUT} "/* Made by cmake/page.cmake. */\n#include \"${HEADER}\"\n\n"
       "const char ${SYMBOL}[] = {\n    ${bytes}0};\n")
  return()
endif()

set(TESSERA_PAGE_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
set(TESSERA_PAGE_HEAD ${CMAKE_CURRENT_LIST_DIR}/page_head.html)
function(tessera_page component page symbol header)
  set(source ${CMAKE_BINARY_DIR}/${symbol}.c)
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -D OUTPUT=${source} -D PAGE=${CMAKE_SOURCE_DIR}/${page}
            -D HEAD=${TESSERA_PAGE_HEAD} -D SYMBOL=${symbol} -D HEADER=${header}
            -P ${TESSERA_PAGE_SCRIPT}
    DEPENDS ${CMAKE_SOURCE_DIR}/${page} ${TESSERA_PAGE_HEAD}
            ${TESSERA_PAGE_SCRIPT}
    VERBATIM)
  get_property(target GLOBAL PROPERTY TESSERA_TARGET_${component})
  target_sources(${target} PRIVATE ${source})
endfunction()

# SPDX-License-Identifier: Apache-2.0
# Manual pages and completion scripts, which the program prints from its tables of commands and
# options: made with the build, and installed where shells and man look for them.
if(NOT TARGET tessera)
  return()
endif()
file(STRINGS cli/commands.def rows REGEX "^COMMAND\\(")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS cli/commands.def)
set(shell_files "")

# A file that the program prints.
function(tessera_printed name)
  set(file ${CMAKE_BINARY_DIR}/shells/${name})
  add_custom_command(
    OUTPUT ${file}
    COMMAND sh -c "\"$0\" \"$@\" >${file}" $<TARGET_FILE:tessera> ${ARGN}
    DEPENDS tessera VERBATIM)
  set(shell_files ${shell_files} ${file} PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/shells)
tessera_printed(tessera.1 manual)
set(pages ${CMAKE_BINARY_DIR}/shells/tessera.1)
foreach(row ${rows})
  string(REGEX REPLACE "^COMMAND\\([A-Z]+, ([a-z]+),.*" "\\1" command "${row}")
  tessera_printed(tessera-${command}.1 manual ${command})
  list(APPEND pages ${CMAKE_BINARY_DIR}/shells/tessera-${command}.1)
endforeach()
tessera_printed(tessera completion bash)
tessera_printed(_tessera completion zsh)
tessera_printed(tessera.fish completion fish)
add_custom_target(shells ALL DEPENDS ${shell_files})

install(FILES ${pages} DESTINATION share/man/man1)
install(FILES ${CMAKE_BINARY_DIR}/shells/tessera
        DESTINATION share/bash-completion/completions)
install(FILES ${CMAKE_BINARY_DIR}/shells/_tessera DESTINATION share/zsh/site-functions)
install(FILES ${CMAKE_BINARY_DIR}/shells/tessera.fish
        DESTINATION share/fish/vendor_completions.d)

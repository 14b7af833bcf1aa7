# SPDX-License-Identifier: Apache-2.0
# Installs what editors need: files of Vim and Neovim where these look for them, the extension for
# Visual Studio Code as one file, the grammar for tree-sitter. The files of Vim and Neovim find the
# server of the folder that they are installed into.
if(NOT TARGET tessera)
  return()
endif()
set(editors ${CMAKE_SOURCE_DIR}/editors)
set(vsix ${CMAKE_BINARY_DIR}/editors/tessera-tile.vsix)
file(GLOB extension_files CONFIGURE_DEPENDS ${editors}/vscode/* ${editors}/vscode/syntaxes/*)
list(FILTER extension_files EXCLUDE REGEX "/syntaxes$")
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/editors)
add_custom_command(
  OUTPUT ${vsix}
  COMMAND python3 -B ${editors}/vscode/make_vsix.py -o ${vsix}
  DEPENDS ${extension_files} LICENSE VERBATIM)
add_custom_target(editors ALL DEPENDS ${vsix})

set(vim share/vim/vimfiles)
set(nvim share/nvim/site)
install(DIRECTORY ${editors}/vim/ DESTINATION ${vim})
install(DIRECTORY ${editors}/nvim/ DESTINATION ${nvim})
install(DIRECTORY ${editors}/vim/syntax ${editors}/vim/ftplugin DESTINATION ${nvim})
install(DIRECTORY ${editors}/tree-sitter-tile DESTINATION share/tessera/editors)
install(FILES ${vsix} DESTINATION share/tessera/editors)

# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` wrote, so that the target `uninstall` can remove it, with the folders that
# the installation made. WHEN is `before`: notes in RECORD the folders of others that are there;
# `after`: the files; `uninstall`: removes both. Packages are not noted. DESTDIR counts as it does
# for an installation.
cmake_policy(VERSION 3.25)
if(DEFINED ENV{TESSERA_PACKAGING})
  return()
endif()
set(root "$ENV{DESTDIR}")

# Folders that other software may use, too.
set(shared . bin include lib lib/cmake lib/pkgconfig share share/man share/man/man1
    share/bash-completion share/bash-completion/completions share/zsh share/zsh/site-functions
    share/fish share/fish/vendor_completions.d share/vim share/vim/vimfiles
    share/vim/vimfiles/ftdetect share/vim/vimfiles/ftplugin share/vim/vimfiles/plugin
    share/vim/vimfiles/syntax share/nvim share/nvim/site share/nvim/site/ftplugin
    share/nvim/site/lsp share/nvim/site/plugin share/nvim/site/syntax share/doc)

if(WHEN STREQUAL before)
  set(prefix "${root}${CMAKE_INSTALL_PREFIX}")
  set(noted "")
  if(EXISTS ${RECORD})
    file(STRINGS ${RECORD} noted LIMIT_COUNT 1)
  endif()
  if(NOT noted STREQUAL prefix) # else what was there before the first time counts
    set(text "${prefix}\n")
    foreach(folder IN LISTS shared)
      if(IS_DIRECTORY "${prefix}/${folder}")
        string(APPEND text "keep ${folder}\n")
      endif()
    endforeach()
    file(WRITE ${RECORD} "${text}")
  endif()
  return()
elseif(WHEN STREQUAL after)
  foreach(file IN LISTS CMAKE_INSTALL_MANIFEST_FILES)
    file(APPEND ${RECORD} "file ${root}${file}\n")
  endforeach()
  return()
endif()

if(NOT EXISTS ${RECORD})
  message(FATAL_ERROR "nothing is installed from this build folder")
endif()
file(STRINGS ${RECORD} rows)
list(POP_FRONT rows prefix)
set(folders "")
set(removed 0)
foreach(row IN LISTS rows)
  if(row MATCHES "^file (.*)$")
    set(at "${CMAKE_MATCH_1}")
    if(EXISTS "${at}" OR IS_SYMLINK "${at}")
      file(REMOVE "${at}")
      math(EXPR removed "${removed} + 1")
    endif()
    # All folders above it, up to the prefix.
    while(NOT at STREQUAL prefix AND NOT at STREQUAL "/")
      get_filename_component(at "${at}" DIRECTORY)
      list(APPEND folders "${at}")
    endwhile()
  endif()
endforeach()
list(REMOVE_DUPLICATES folders)
list(SORT folders ORDER DESCENDING) # what lies in a folder comes before it
foreach(folder IN LISTS folders)
  set(name .)
  if(NOT folder STREQUAL prefix)
    file(RELATIVE_PATH name "${prefix}" "${folder}")
  endif()
  file(GLOB inside LIST_DIRECTORIES true "${folder}/*" "${folder}/.*")
  if(IS_DIRECTORY "${folder}" AND NOT inside AND NOT "keep ${name}" IN_LIST rows)
    file(REMOVE_RECURSE "${folder}")
  endif()
endforeach()
file(REMOVE ${RECORD})
message(STATUS "removed ${removed} files from ${prefix}")

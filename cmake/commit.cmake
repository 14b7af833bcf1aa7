# SPDX-License-Identifier: Apache-2.0
# Which commit the program is of, for `tessera --version`: with each build git is asked, and says
# whether files differ from that commit; in an archive that git made, commit.txt knows it. Run as a
# script (SOURCE, OUTPUT) it writes the C file; one that is the same stays as old as it was.
if(CMAKE_SCRIPT_MODE_FILE)
  cmake_policy(VERSION 3.25)
  set(commit "")
  if(EXISTS ${SOURCE}/.git)
    find_program(GIT git)
    if(GIT)
      execute_process(
        COMMAND ${GIT} -C ${SOURCE} describe --always --abbrev=12 --exclude * --dirty=+changes
        OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    endif()
  else()
    file(STRINGS ${SOURCE}/cmake/commit.txt commit REGEX "^[0-9a-f]+$")
  endif()
  string(CONCAT text "/* Made by cmake/commit.cmake. */\n"
         "#include \"cli/commands/cmd_functions.h\"\n\n"
         "const char program_commit[] = \"${commit}\";\n")
  set(before "")
  if(EXISTS ${OUTPUT})
    file(READ ${OUTPUT} before)
  endif()
  if(NOT text STREQUAL before)
    file(WRITE ${OUTPUT} "${text}")
  endif()
  return()
endif()

if(NOT TARGET tessera)
  return()
endif()
set(commit_source ${CMAKE_BINARY_DIR}/program_commit.c)
add_custom_target(commit
  COMMAND ${CMAKE_COMMAND} -D SOURCE=${CMAKE_SOURCE_DIR} -D OUTPUT=${commit_source}
          -P ${CMAKE_CURRENT_LIST_FILE}
  BYPRODUCTS ${commit_source} COMMENT "" VERBATIM)
add_dependencies(tessera commit)
target_sources(tessera PRIVATE ${commit_source})

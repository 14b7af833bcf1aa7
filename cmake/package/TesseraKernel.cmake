# SPDX-License-Identifier: Apache-2.0
# tessera_add_kernel(target file.tile TARGETS sm_90a x86-64-v3 …
#                    [SET T=bf16 …] [VARIANT "N % 8 == 0" …] [ASSUME "M <= 4096" …]
#                    [NAME k] [KERNEL softmax] [OPTIONS …] [STATIC])
# Compiles the kernels of the file (KERNEL: that one) for all TARGETS when it, or what it imports,
# changes. The target gets the object and #include "k.h"; where there is none of its name, it is
# made as a library to link to. NAME is else the file's. Linked is Tessera::launch, with STATIC its
# archive. OPTIONS goes to `tessera compile` as it is.
function(tessera_add_kernel target file)
  cmake_parse_arguments(PARSE_ARGV 2 K "STATIC" "NAME;KERNEL"
                        "TARGETS;SET;VARIANT;ASSUME;OPTIONS")
  if(K_UNPARSED_ARGUMENTS OR NOT K_TARGETS)
    message(FATAL_ERROR "tessera_add_kernel(${target} ${file}): TARGETS are wanted, as "
                        "sm_90a or x86-64-v3; not understood: ${K_UNPARSED_ARGUMENTS}")
  endif()
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  set(language C)
  if(NOT C IN_LIST languages)
    set(language CXX)
  endif()
  if(NOT language IN_LIST languages)
    message(FATAL_ERROR "tessera_add_kernel(${target} ${file}): the project has neither C nor C++, "
                        "whose linker it takes: project(… LANGUAGES C)")
  endif()
  get_filename_component(source ${file} ABSOLUTE)
  if(NOT EXISTS ${source})
    message(FATAL_ERROR "tessera_add_kernel(${target} ${file}): there is no ${source}")
  endif()
  get_filename_component(name ${source} NAME_WE)
  if(K_NAME)
    set(name ${K_NAME})
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/tessera/${target})
  set(made ${folder}/${name})
  set(arguments ${source})
  if(K_KERNEL)
    set(arguments ${source}:${K_KERNEL})
  endif()
  foreach(word TARGET SET VARIANT ASSUME)
    string(TOLOWER --${word} option)
    set(values ${K_${word}})
    if(word STREQUAL TARGET)
      set(values ${K_TARGETS})
    endif()
    foreach(value IN LISTS values)
      list(APPEND arguments ${option} ${value})
    endforeach()
  endforeach()

  file(MAKE_DIRECTORY ${folder})
  add_custom_command(
    OUTPUT ${made}.o ${made}.h
    COMMAND Tessera::compiler compile ${arguments} ${K_OPTIONS} --emit bundle -MD -o ${made}
    DEPENDS ${source} Tessera::compiler
    DEPFILE ${made}.d
    COMMENT "Compiling ${file} for ${K_TARGETS}"
    VERBATIM)
  set_source_files_properties(${made}.o PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)

  set(launch Tessera::launch)
  if(K_STATIC)
    set(launch Tessera::launch-static)
  endif()
  set(scope PRIVATE)
  if(NOT TARGET ${target})
    add_library(${target} STATIC)
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE ${language})
    set(scope PUBLIC)
  endif()
  target_sources(${target} PRIVATE ${made}.o ${made}.h)
  target_include_directories(${target} ${scope} ${folder})
  target_link_libraries(${target} ${scope} ${launch})
endfunction()

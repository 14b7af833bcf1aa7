# SPDX-License-Identifier: Apache-2.0
# Three shared libraries, each of which shows nothing but tessera_…, so that it may live in a
# process that has another LLVM, and needs nothing but the C library.
get_property(components GLOBAL PROPERTY TESSERA_COMPONENTS)
if(NOT "tessera_runtime" IN_LIST components)
  return()
endif()
set(version_script ${CMAKE_SOURCE_DIR}/cmake/libtessera.map)

# tessera_shared(target file language objects… LIBRARIES …): what is to show itself are objects, for
# --exclude-libs hides all that comes from archives.
function(tessera_shared target file language)
  cmake_parse_arguments(SHARED "" "" "LIBRARIES" ${ARGN})
  add_library(${target} SHARED ${SHARED_UNPARSED_ARGUMENTS})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${file} SOVERSION 0 LINKER_LANGUAGE ${language} LINK_DEPENDS ${version_script}
    BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN")
  target_link_libraries(${target} PRIVATE ${SHARED_LIBRARIES} tessera_link tessera_warnings
                                          m dl pthread)
  target_link_options(${target} PRIVATE
    -Wl,--version-script=${version_script} -Wl,--exclude-libs,ALL
    $<$<NOT:$<BOOL:${TESSERA_SANITIZE}>>:-Wl,-z,defs>)
  target_include_directories(${target} INTERFACE ${CMAKE_SOURCE_DIR}/include)
endfunction()

# libtessera-codegen: code generation and LLVM. Nobody links to it: libtessera opens it, from the
# folder that it lies in itself, when there is machine code to make.
add_library(tessera_codegen_table OBJECT
            ${CMAKE_SOURCE_DIR}/runtime/codegen_loader/library/codegen_table.c)
target_include_directories(tessera_codegen_table PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(tessera_codegen_table PRIVATE tessera_warnings)
tessera_shared(libtessera_codegen tessera-codegen CXX $<TARGET_OBJECTS:tessera_codegen_table>
               LIBRARIES tessera_codegen)
set(codegen_build_id ${CMAKE_BINARY_DIR}/codegen_build_id.c)
add_custom_command(OUTPUT ${codegen_build_id}
  COMMAND ${CMAKE_COMMAND} -D LIBRARY=$<TARGET_FILE:libtessera_codegen> -D
  OUTPUT=${codegen_build_id}
          -D READELF=${LLVM_BINDIR}/llvm-readelf -P ${CMAKE_SOURCE_DIR}/cmake/codegen_build.cmake
  DEPENDS libtessera_codegen ${CMAKE_SOURCE_DIR}/cmake/codegen_build.cmake
  VERBATIM)

# libtessera: all other components. The program is linked to it, so that they are there once. Of
# codegen only the files that know no LLVM; codegen.h's functions are those of the codegen loader.
list(REMOVE_ITEM components tessera_runtime tessera_launch tessera_codegen
     tessera_codegen_loader)
tessera_shared(libtessera tessera C ${codegen_build_id}
               $<TARGET_OBJECTS:tessera_runtime> $<TARGET_OBJECTS:tessera_launch>
               $<TARGET_OBJECTS:tessera_codegen_loader>
               LIBRARIES $<TARGET_FILE:tessera_codegen> ${components})
target_include_directories(libtessera PRIVATE ${CMAKE_SOURCE_DIR})
add_dependencies(libtessera tessera_codegen)

# libtessera-launch: what runs kernels that are compiled already. Of the components below it only
# what it reaches: no LLVM, no C++. Shared, and as an archive of one object that hides the rest as
# well.
if(NOT TARGET tessera_launch)
  return()
endif()
set(launch_objects ${CMAKE_SOURCE_DIR}/runtime/launch/standalone/no_compiler.c)
add_library(tessera_launch_standalone OBJECT ${launch_objects})
target_include_directories(tessera_launch_standalone PRIVATE ${CMAKE_SOURCE_DIR}
                                                        ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(tessera_launch_standalone PRIVATE tessera_warnings)
set(launch_components tessera_device tessera_ir tessera_support)

tessera_shared(libtessera_launch tessera-launch C
               $<TARGET_OBJECTS:tessera_launch_standalone> $<TARGET_OBJECTS:tessera_launch>
               LIBRARIES ${launch_components})

find_program(LLD NAMES ld.lld PATHS ${LLVM_BINDIR} NO_DEFAULT_PATH REQUIRED)
find_program(OBJCOPY NAMES llvm-objcopy PATHS ${LLVM_BINDIR} NO_DEFAULT_PATH REQUIRED)
find_program(ARCHIVER NAMES llvm-ar PATHS ${LLVM_BINDIR} NO_DEFAULT_PATH REQUIRED)
set(launch_archive ${CMAKE_BINARY_DIR}/lib/libtessera-launch.a)
set(launch_object ${CMAKE_BINARY_DIR}/tessera-launch.o)
add_custom_command(OUTPUT ${launch_archive}
  COMMAND ${LLD} -r -o ${launch_object}
          $<TARGET_OBJECTS:tessera_launch_standalone> $<TARGET_OBJECTS:tessera_launch>
          --start-group $<TARGET_FILE:tessera_device> $<TARGET_FILE:tessera_ir>
          $<TARGET_FILE:tessera_support> --end-group
  COMMAND ${OBJCOPY} --localize-hidden --strip-debug ${launch_object}
  COMMAND ${CMAKE_COMMAND} -E rm -f ${launch_archive}
  COMMAND ${ARCHIVER} rcsD ${launch_archive} ${launch_object}
  DEPENDS tessera_launch_standalone tessera_launch ${launch_components}
          $<TARGET_OBJECTS:tessera_launch_standalone> $<TARGET_OBJECTS:tessera_launch>
  COMMAND_EXPAND_LISTS VERBATIM)
add_custom_target(tessera_launch_archive ALL DEPENDS ${launch_archive})

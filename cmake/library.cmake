# SPDX-License-Identifier: Apache-2.0
# libtessera.so: all rooms and LLVM in one library that shows nothing but <tessera/*.h>. It may live
# in a process that has another LLVM. The program is linked to it, so that LLVM is there once.
get_property(rooms GLOBAL PROPERTY TESSERA_ROOMS)
if(NOT "tessera_runtime" IN_LIST rooms)
  return()
endif()
list(REMOVE_ITEM rooms tessera_runtime tessera_launch)

# What shows itself as objects: --exclude-libs hides all that comes from archives.
set(version_script ${CMAKE_SOURCE_DIR}/cmake/libtessera.map)
add_library(libtessera SHARED
  $<TARGET_OBJECTS:tessera_runtime> $<TARGET_OBJECTS:tessera_launch>)
set_target_properties(libtessera PROPERTIES
  OUTPUT_NAME tessera SOVERSION 0 LINKER_LANGUAGE CXX LINK_DEPENDS ${version_script})
target_link_libraries(libtessera PRIVATE ${rooms} tessera_link tessera_warnings)
target_link_options(libtessera PRIVATE
  -Wl,--version-script=${version_script} -Wl,--exclude-libs,ALL
  $<$<NOT:$<BOOL:${TESSERA_SANITIZE}>>:-Wl,-z,defs>)
target_include_directories(libtessera INTERFACE ${CMAKE_SOURCE_DIR}/include)

# libtessera-launch: what runs kernels that are compiled already. Of the rooms below it only what it
# reaches: no LLVM, no C++. Shared, and as an archive of one object that hides the rest as well.
if(NOT TARGET tessera_launch)
  return()
endif()
set(launch_objects ${CMAKE_SOURCE_DIR}/runtime/launch/alone/alone.c)
add_library(tessera_launch_alone OBJECT ${launch_objects})
target_include_directories(tessera_launch_alone PRIVATE ${CMAKE_SOURCE_DIR}
                                                        ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(tessera_launch_alone PRIVATE tessera_warnings)
set(launch_rooms tessera_device tessera_ir tessera_base)

add_library(libtessera_launch SHARED
  $<TARGET_OBJECTS:tessera_launch_alone> $<TARGET_OBJECTS:tessera_launch>)
set_target_properties(libtessera_launch PROPERTIES
  OUTPUT_NAME tessera-launch SOVERSION 0 LINKER_LANGUAGE C LINK_DEPENDS ${version_script})
target_link_libraries(libtessera_launch PRIVATE ${launch_rooms} tessera_link tessera_warnings
                                                m dl pthread)
target_link_options(libtessera_launch PRIVATE
  -Wl,--version-script=${version_script} -Wl,--exclude-libs,ALL
  $<$<NOT:$<BOOL:${TESSERA_SANITIZE}>>:-Wl,-z,defs>)
target_include_directories(libtessera_launch INTERFACE ${CMAKE_SOURCE_DIR}/include)

find_program(LLD NAMES ld.lld PATHS ${LLVM_BINDIR} NO_DEFAULT_PATH REQUIRED)
find_program(OBJCOPY NAMES llvm-objcopy PATHS ${LLVM_BINDIR} NO_DEFAULT_PATH REQUIRED)
find_program(ARCHIVER NAMES llvm-ar PATHS ${LLVM_BINDIR} NO_DEFAULT_PATH REQUIRED)
set(launch_archive ${CMAKE_BINARY_DIR}/lib/libtessera-launch.a)
set(launch_object ${CMAKE_BINARY_DIR}/tessera-launch.o)
add_custom_command(OUTPUT ${launch_archive}
  COMMAND ${LLD} -r -o ${launch_object}
          $<TARGET_OBJECTS:tessera_launch_alone> $<TARGET_OBJECTS:tessera_launch>
          --start-group $<TARGET_FILE:tessera_device> $<TARGET_FILE:tessera_ir>
          $<TARGET_FILE:tessera_base> --end-group
  COMMAND ${OBJCOPY} --localize-hidden --strip-debug ${launch_object}
  COMMAND ${CMAKE_COMMAND} -E rm -f ${launch_archive}
  COMMAND ${ARCHIVER} rcsD ${launch_archive} ${launch_object}
  DEPENDS tessera_launch_alone tessera_launch ${launch_rooms}
          $<TARGET_OBJECTS:tessera_launch_alone> $<TARGET_OBJECTS:tessera_launch>
  COMMAND_EXPAND_LISTS VERBATIM)
add_custom_target(tessera_launch_archive ALL DEPENDS ${launch_archive})

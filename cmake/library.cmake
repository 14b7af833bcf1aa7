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

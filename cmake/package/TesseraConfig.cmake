# SPDX-License-Identifier: Apache-2.0
# find_package(Tessera): the libraries and the compiler of the folder that this file lies in.
#   Tessera::tessera        compiles and launches (libtessera)
#   Tessera::launch         launches what is compiled already (libtessera-launch), shared
#   Tessera::launch-static  the same as an archive
#   Tessera::compiler       the program
#   tessera_add_kernel      TesseraKernel.cmake
get_filename_component(Tessera_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

function(tessera_import name kind file)
  if(NOT TARGET Tessera::${name})
    add_library(Tessera::${name} ${kind} IMPORTED)
    set_target_properties(Tessera::${name} PROPERTIES
      IMPORTED_LOCATION ${Tessera_PREFIX}/lib/${file}
      INTERFACE_INCLUDE_DIRECTORIES ${Tessera_PREFIX}/include)
  endif()
endfunction()
tessera_import(tessera SHARED libtessera.so.0)
tessera_import(launch SHARED libtessera-launch.so.0)
tessera_import(launch-static STATIC libtessera-launch.a)
set_target_properties(Tessera::tessera PROPERTIES IMPORTED_SONAME libtessera.so.0)
set_target_properties(Tessera::launch PROPERTIES IMPORTED_SONAME libtessera-launch.so.0)
set_target_properties(Tessera::launch-static PROPERTIES INTERFACE_LINK_LIBRARIES "dl;pthread")
if(NOT TARGET Tessera::compiler)
  add_executable(Tessera::compiler IMPORTED)
  set_target_properties(Tessera::compiler PROPERTIES
                        IMPORTED_LOCATION ${Tessera_PREFIX}/bin/tessera)
endif()
include(${CMAKE_CURRENT_LIST_DIR}/TesseraKernel.cmake)

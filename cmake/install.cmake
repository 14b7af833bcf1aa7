# SPDX-License-Identifier: Apache-2.0
# `cmake --install`: a folder that may lie anywhere. scripts/package.sh makes the archive of it.
if(NOT TARGET tessera)
  return()
endif()
include(CMakePackageConfigHelpers)
set(package_files ${CMAKE_SOURCE_DIR}/cmake/package)
set(cmake_folder lib/cmake/Tessera)
install(TARGETS tessera tessera-worker RUNTIME DESTINATION bin)
install(TARGETS libtessera libtessera_launch LIBRARY DESTINATION lib)
install(TARGETS libtessera_codegen LIBRARY DESTINATION lib NAMELINK_SKIP)
install(FILES ${launch_archive} DESTINATION lib)
install(DIRECTORY include/tessera DESTINATION include)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/TesseraConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${package_files}/TesseraConfig.cmake ${package_files}/TesseraKernel.cmake
              ${CMAKE_BINARY_DIR}/TesseraConfigVersion.cmake DESTINATION ${cmake_folder})
foreach(name tessera tessera-launch)
  configure_file(${package_files}/${name}.pc.in ${CMAKE_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${name}.pc DESTINATION lib/pkgconfig)
endforeach()

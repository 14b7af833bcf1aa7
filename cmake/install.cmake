# SPDX-License-Identifier: Apache-2.0
# `cmake --install`: a folder that may lie anywhere. scripts/package.sh makes the archive of it.
# shells.cmake and editors.cmake add their parts; the target `uninstall` removes all of it.
if(NOT TARGET tessera)
  return()
endif()
set(install_record ${CMAKE_BINARY_DIR}/installed.txt)
set(uninstall_script ${CMAKE_SOURCE_DIR}/cmake/uninstall.cmake)
macro(tessera_record when)
  install(CODE "set(RECORD \"${install_record}\")\nset(WHEN ${when})
                include(\"${uninstall_script}\")")
endmacro()
tessera_record(before)
add_custom_target(uninstall
  COMMAND ${CMAKE_COMMAND} -D RECORD=${install_record} -D WHEN=uninstall -P ${uninstall_script}
  VERBATIM USES_TERMINAL)
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

# Documents, examples, the licences of what is linked in, and the course as a page, which takes
# seconds to make: packages have it.
set(documents share/doc/tessera)
install(FILES README.md SECURITY.md DESTINATION ${documents})
install(FILES LICENSE DESTINATION ${documents} RENAME copyright)
install(DIRECTORY docs examples DESTINATION ${documents} PATTERN __pycache__ EXCLUDE)
set(linked_in llvm-22 zlib1g libzstd-dev libutf8proc-dev libxxhash-dev libsqlite3-dev
              wasi-libc)
foreach(library ${linked_in})
  install(FILES /usr/share/doc/${library}/copyright DESTINATION ${documents}/licences
          RENAME ${library} OPTIONAL)
endforeach()
string(REGEX MATCH "^[0-9]+" compiler ${CMAKE_CXX_COMPILER_VERSION})
install(FILES /usr/share/doc/gcc-${compiler}-base/copyright DESTINATION ${documents}/licences
        RENAME libstdc++ OPTIONAL)
add_custom_command(
  OUTPUT ${CMAKE_BINARY_DIR}/course.html
  COMMAND tessera learn book -o ${CMAKE_BINARY_DIR}/course.html
  DEPENDS tessera VERBATIM)
add_custom_target(course DEPENDS ${CMAKE_BINARY_DIR}/course.html)
install(FILES ${CMAKE_BINARY_DIR}/course.html DESTINATION ${documents} OPTIONAL)

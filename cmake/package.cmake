# SPDX-License-Identifier: Apache-2.0
# `cmake --build … --target package`: one relocatable archive (scripts/package.sh makes it).
add_custom_target(package
  COMMAND ${CMAKE_SOURCE_DIR}/scripts/package.sh ${CMAKE_BINARY_DIR} ${PROJECT_VERSION}
  VERBATIM USES_TERMINAL)

# `cmake --build … --target deb`: the installation as a package of Debian, by CPack.
configure_file(${CMAKE_SOURCE_DIR}/cmake/package/deb.cmake.in ${CMAKE_BINARY_DIR}/deb.cmake @ONLY)
add_custom_target(deb
  COMMAND ${CMAKE_COMMAND} -E env TESSERA_PACKAGING=deb ${CMAKE_CPACK_COMMAND}
          --config ${CMAKE_BINARY_DIR}/deb.cmake -B ${CMAKE_BINARY_DIR}
  VERBATIM USES_TERMINAL)
if(TARGET tessera)
  foreach(target package deb)
    add_dependencies(${target} tessera tessera-worker libtessera_launch tessera_launch_archive
                     shells editors course playground)
  endforeach()
endif()

# `cmake --build … --target wheel`: the Python package, for `pip install` (scripts/wheel.py).
if(TARGET libtessera)
  add_custom_target(wheel
    COMMAND python3 ${CMAKE_SOURCE_DIR}/scripts/wheel.py $<TARGET_FILE:libtessera>
            ${CMAKE_BINARY_DIR}
    VERBATIM USES_TERMINAL)
  add_dependencies(wheel libtessera libtessera_launch tessera tessera-worker)
endif()

# SPDX-License-Identifier: Apache-2.0
# `cmake --build … --target package`: one relocatable archive (scripts/package.sh makes it).
add_custom_target(package
  COMMAND ${CMAKE_SOURCE_DIR}/scripts/package.sh ${CMAKE_BINARY_DIR} ${PROJECT_VERSION}
  VERBATIM USES_TERMINAL)
if(TARGET tessera)
  add_dependencies(package tessera tessera-worker libtessera_launch tessera_launch_archive)
endif()

# `cmake --build … --target wheel`: the Python package, for `pip install` (scripts/wheel.py).
if(TARGET libtessera)
  add_custom_target(wheel
    COMMAND python3 ${CMAKE_SOURCE_DIR}/scripts/wheel.py $<TARGET_FILE:libtessera>
            ${CMAKE_BINARY_DIR}
    VERBATIM USES_TERMINAL)
  add_dependencies(wheel libtessera libtessera_launch tessera tessera-worker)
endif()

# SPDX-License-Identifier: Apache-2.0
# `cmake --build … --target package`: one relocatable archive (scripts/package.sh makes it).
add_custom_target(package
  COMMAND ${CMAKE_SOURCE_DIR}/scripts/package.sh ${CMAKE_BINARY_DIR} ${PROJECT_VERSION}
  VERBATIM USES_TERMINAL)
if(TARGET tessera)
  add_dependencies(package tessera)
endif()

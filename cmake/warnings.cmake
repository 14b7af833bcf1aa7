# SPDX-License-Identifier: Apache-2.0
# How our own code is compiled. Nothing of it depends on the machine that builds.
add_library(tessera_warnings INTERFACE)
target_compile_options(tessera_warnings INTERFACE
  -Wall -Wextra -Werror
  $<$<COMPILE_LANGUAGE:C>:-Wshadow -Wconversion -Wmissing-prototypes -Wstrict-prototypes>
  $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti -fno-exceptions>
  -ffp-contract=off -fno-math-errno -ffunction-sections -fdata-sections
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}/= -ffile-prefix-map=${CMAKE_BINARY_DIR}/=build/)
option(TESSERA_SANITIZE "Build with ASan and UBSan" OFF)
if(TESSERA_SANITIZE)
  target_compile_options(tessera_warnings INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(tessera_warnings INTERFACE -fsanitize=address,undefined)
endif()
option(TESSERA_COVERAGE "Count which lines of our C run; make coverage sums it up" OFF)
if(TESSERA_COVERAGE)
  target_compile_options(tessera_warnings INTERFACE
    $<$<COMPILE_LANGUAGE:C>:--coverage -fprofile-update=atomic>)
  target_link_options(tessera_warnings INTERFACE --coverage)
endif()

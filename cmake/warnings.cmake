# SPDX-License-Identifier: Apache-2.0
add_library(tessera_warnings INTERFACE)
target_compile_options(tessera_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wshadow -Wconversion -Wmissing-prototypes -Wstrict-prototypes -Werror>
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror>
  -ffp-contract=off -fno-math-errno -ffunction-sections -fdata-sections)
option(TESSERA_SANITIZE "Build with ASan and UBSan" OFF)
if(TESSERA_SANITIZE)
  target_compile_options(tessera_warnings INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(tessera_warnings INTERFACE -fsanitize=address,undefined)
endif()

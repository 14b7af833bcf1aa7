/* SPDX-License-Identifier: Apache-2.0 */
/* Which build of this library this is. */
#ifndef TESSERA_RUNTIME_BUILD_ID_H
#define TESSERA_RUNTIME_BUILD_ID_H

#include "ir/base/text.h"

/* The linker's digest of the library or program that this function is in, in hexadecimal digits.
 * False: it was linked without one. */
bool build_id(Text *out);

#endif
